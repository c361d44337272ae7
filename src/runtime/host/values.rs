//! What JavaScript itself cannot ask of a value without running code of the script: the state of a promise and the
//! target of a proxy.

use rquickjs::{Array, Ctx, Result, Value, promise::PromiseState};

use super::new_list;

/// `host.promiseState(value)`: `["pending" | "fulfilled" | "rejected", value]`, or undefined if it is not a promise.
pub(super) fn promise_state<'js>(ctx: &Ctx<'js>, (value,): (Value<'js>,)) -> Result<Option<Array<'js>>> {
    let Some(promise) = value.as_promise() else {
        return Ok(None);
    };
    let list = new_list(ctx)?;
    let (state, result) = match promise.state() {
        PromiseState::Pending => ("pending", Value::new_undefined(ctx.clone())),
        PromiseState::Resolved => {
            ("fulfilled", promise.result().transpose()?.unwrap_or(Value::new_undefined(ctx.clone())))
        }
        PromiseState::Rejected => {
            // The reason is only available as a thrown value; it is caught again immediately.
            let _ = promise.result::<Value<'js>>();
            ("rejected", ctx.catch())
        }
    };
    list.set(0, state)?;
    list.set(1, result)?;
    Ok(Some(list))
}

/// `host.isPromise(value)`: whether it is one by its class.
pub(super) fn is_promise<'js>(_: &Ctx<'js>, (value,): (Value<'js>,)) -> bool {
    value.is_promise()
}

/// `host.proxyTarget(value)`: the target, null if the proxy is revoked, undefined if it is not a proxy.
#[allow(unsafe_code)]
pub(super) fn proxy_target<'js>(ctx: &Ctx<'js>, (value,): (Value<'js>,)) -> Result<Value<'js>> {
    if !value.is_proxy() {
        return Ok(Value::new_undefined(ctx.clone()));
    }
    // SAFETY: `is_proxy` has checked the class. The checked conversion, `as_proxy`, takes the proxy of a function or
    // of an array for a function or an array, and its traps would then run.
    let proxy = unsafe { value.ref_proxy() };
    match proxy.target() {
        Ok(target) => Ok(target.into_value()),
        Err(_) => {
            ctx.catch();
            Ok(Value::new_null(ctx.clone()))
        }
    }
}
