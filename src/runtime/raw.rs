//! What a raw call of QuickJS gave: a value, or word of an exception.
//!
//! One of the modules with `unsafe`: the value changes hands here.
#![allow(unsafe_code)]

use rquickjs::{Ctx, FromJs as _, Value, qjs};

/// The value, or that there is an exception, which is still to be caught. A panic of a host function goes on from here.
///
/// # Safety
///
/// The value is of this context, and ours to free.
pub(super) unsafe fn owned<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> rquickjs::Result<Value<'js>> {
    // SAFETY: so the caller says.
    let value = unsafe { Value::from_raw(ctx.clone(), value) };
    rquickjs::Result::from_js(ctx, value)?
}
