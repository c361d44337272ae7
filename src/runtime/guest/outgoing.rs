//! The calls that a script makes: of bindings, and of functions that it was given.

use std::time::Instant;

use rquickjs::{Ctx, Function, Object, Persistent, Promise, Value as JsValue};
use serde_json::{Value, json};

use super::super::total::Claim;
use super::super::value::{EncodeError, Fault, Tree};
use super::{
    CallAnswer, CallRequest, CallTarget, CallValue, ChargedTo, Guest, RefHolder, Settlers, ValueSource,
    kit_function,
};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;
use crate::rpc::{ErrorObject, Kind};

/// Payloads up to here do not count towards the memory of all sessions: a call has a promise of about that size in the
/// heap, which does.
const UNCLAIMED_BYTES_MAX: usize = 4 << 10;

impl Guest {
    /// `await someBinding(input)`. The key is the number of a binding of the server, or the name of one of the client.
    pub(super) fn call_binding<'js>(
        &self,
        ctx: &Ctx<'js>,
        key: &JsValue<'js>,
        count: usize,
        input: &JsValue<'js>,
    ) -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let (target, holder) = match key.as_int().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => (CallTarget::Server(number), RefHolder::Handler),
            None => (CallTarget::Client(key.get()?), RefHolder::Client),
        };
        if self.refuses_calls(ctx, &reject)? {
            return Ok(promise);
        }
        let mut exported = Vec::new();
        let payload = match count {
            0 => Ok(json!({})),
            1 => self.encode::<Tree>(ctx, input, holder, &mut exported),
            _ => {
                let wrong: JsValue<'js> = kit_function(&self.kit(ctx)?, "tooManyArguments")?.call(())?;
                reject.call::<_, ()>((wrong,))?;
                return Ok(promise);
            }
        };
        match payload {
            Ok(input) => {
                self.note_schemas(&target, &input);
                let ends = (resolve, reject);
                self.open_call(ctx, ends, target, Payload::Input(input), exported)?;
            }
            Err(error) => self.reject_unencodable(ctx, &reject, &error)?,
        }
        Ok(promise)
    }

    /// `await someFunction(...arguments)` of a function of the client or of a handler.
    pub(super) fn call_import<'js>(
        &self,
        ctx: &Ctx<'js>,
        key: FnRef,
        arguments: &Object<'js>,
    ) -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let holder = match key {
            FnRef::Handler(_) => RefHolder::Handler,
            FnRef::Script(_) | FnRef::Client { .. } => RefHolder::Client,
        };
        if self.refuses_calls(ctx, &reject)? {
            return Ok(promise);
        }
        let mut exported = Vec::new();
        let mut encoded = Vec::new();
        let count: u32 = arguments.get("length")?;
        for index in 0..count {
            let argument: JsValue<'js> = arguments.get(index)?;
            match self.encode::<Tree>(ctx, &argument, holder, &mut exported) {
                Ok(value) => encoded.push(value),
                Err(error) => {
                    self.reject_unencodable(ctx, &reject, &error)?;
                    return Ok(promise);
                }
            }
        }
        let payload = match <[Value; 1]>::try_from(encoded) {
            Ok([input]) => Payload::Input(input),
            Err(arguments) => Payload::Args(arguments),
        };
        self.open_call(ctx, (resolve, reject), CallTarget::Import(key), payload, exported)?;
        Ok(promise)
    }

    /// Counts a call and sends it on its way. What is answered at once is settled at once; for the rest the place of
    /// the call is kept, because by the time it fails the script is elsewhere.
    fn open_call<'js>(
        &self,
        ctx: &Ctx<'js>,
        (resolve, reject): (Function<'js>, Function<'js>),
        target: CallTarget,
        payload: Payload,
        functions: Vec<FnRef>,
    ) -> rquickjs::Result<()> {
        let owner = self.owner.get();
        if owner == ChargedTo::Background && !self.limits.floating_calls {
            let error = ErrorObject::new(Kind::Cancelled, "the eval that made this call is over");
            return self.reject(ctx, &reject, &error, ValueSource::Handler, None);
        }
        let calls_max = self.limits.calls_per_eval_max;
        let call = self.calls.borrow_mut().number(owner, calls_max);
        let Some(call) = call else {
            let error =
                ErrorObject::new(Kind::TooManyCalls, format!("an eval may make {calls_max} binding calls"));
            return self.reject(ctx, &reject, &error, ValueSource::Handler, None);
        };
        let payload_bytes = payload.tree_bytes();
        if payload_bytes > self.limits.calls_bytes_max {
            return self.reject_unencodable(ctx, &reject, &EncodeError::new(Fault::TooLarge));
        }
        if !self.calls.borrow().has_room(payload_bytes, self.limits.calls_bytes_max) {
            return self.reject_crowded(ctx, &reject);
        }
        // To write a large payload takes a while in which QuickJS does not poll.
        if payload_bytes > UNCLAIMED_BYTES_MAX && self.meter.is_over(Instant::now()) {
            return Ok(());
        }
        let claim = match payload_bytes > UNCLAIMED_BYTES_MAX {
            true => match Claim::new(&self.memory, payload_bytes) {
                Some(claim) => Some(claim),
                None => {
                    let message = "the memory for sessions is used up";
                    let error = ErrorObject::new(Kind::MemoryLimit, message);
                    return self.reject(ctx, &reject, &error, ValueSource::Handler, None);
                }
            },
            false => None,
        };
        let dispatch = self.dispatch.borrow().clone();
        let answer =
            dispatch.and_then(|dispatch| dispatch(CallRequest { call, target, payload, owner, functions }));
        if let Some(answer) = answer {
            return self.settle(ctx, &resolve, &reject, answer, None);
        }
        let settlers = Settlers {
            resolve: Persistent::save(ctx, resolve),
            reject: Persistent::save(ctx, reject),
            stack: self.place_of_call(ctx)?,
            payload_bytes,
            _claim: claim,
        };
        self.calls.borrow_mut().wait(call, settlers);
        Ok(())
    }

    /// Whether a call is not made, and its payload not even written: the script is to end, or there is no room.
    fn refuses_calls<'js>(&self, ctx: &Ctx<'js>, reject: &Function<'js>) -> rquickjs::Result<bool> {
        if self.meter.stopped().is_some() {
            return Ok(true);
        }
        let is_full = self.calls.borrow().is_full(self.limits.calls_bytes_max);
        if is_full {
            self.reject_crowded(ctx, reject)?;
        }
        Ok(is_full)
    }

    /// Refuses a call because those that wait for their answer hold too much.
    fn reject_crowded<'js>(&self, ctx: &Ctx<'js>, reject: &Function<'js>) -> rquickjs::Result<()> {
        let message = format!("the calls in flight hold more than {} bytes", self.limits.calls_bytes_max);
        let error = ErrorObject::new(Kind::TooManyCalls, message);
        self.reject(ctx, reject, &error, ValueSource::Handler, None)
    }

    /// Gives an answer to the script. Without a stack, an error gets the one of the call that is being made.
    pub(crate) fn settle<'js>(
        &self,
        ctx: &Ctx<'js>,
        resolve: &Function<'js>,
        reject: &Function<'js>,
        (outcome, source): CallAnswer,
        stack: Option<&str>,
    ) -> rquickjs::Result<()> {
        let decoded = outcome.and_then(|value| {
            let decoded = match value {
                CallValue::Tree(value) => self.decode(ctx, &value, source),
                CallValue::Text(text) => self.decode_text(ctx, text.get(), source),
            };
            decoded.map_err(|error| error.into_object(Kind::InvalidOutput))
        });
        match decoded {
            Ok(value) => resolve.call((value,)),
            Err(error) => self.reject(ctx, reject, &error, source, stack),
        }
    }

    fn reject<'js>(
        &self,
        ctx: &Ctx<'js>,
        reject: &Function<'js>,
        error: &ErrorObject,
        source: ValueSource,
        stack: Option<&str>,
    ) -> rquickjs::Result<()> {
        let thrown = self.thrown_from(ctx, error, source, stack)?;
        reject.call((thrown,))
    }

    fn place_of_call(&self, ctx: &Ctx<'_>) -> rquickjs::Result<String> {
        kit_function(&self.kit(ctx)?, "placeOfCall")?.call(())
    }

    fn reject_unencodable<'js>(
        &self,
        ctx: &Ctx<'js>,
        reject: &Function<'js>,
        error: &EncodeError,
    ) -> rquickjs::Result<()> {
        let object = match &error.fault {
            Fault::Unserializable(why) => {
                ErrorObject::new(Kind::Unserializable, why).with("path", error.path())
            }
            Fault::TooLarge => {
                ErrorObject::new(Kind::ResultTooLarge, "the input is too large").with("path", error.path())
            }
            Fault::TooManyRefs => ErrorObject::new(Kind::TooManyRefs, "too many live function references"),
            Fault::Stopped => return Ok(()),
        };
        self.reject(ctx, reject, &object, ValueSource::Handler, None)
    }

    /// The `Error` that a script catches for a failed call.
    fn thrown_from<'js>(
        &self,
        ctx: &Ctx<'js>,
        error: &ErrorObject,
        source: ValueSource,
        stack: Option<&str>,
    ) -> rquickjs::Result<JsValue<'js>> {
        let make = kit_function(&self.kit(ctx)?, "makeBindingError")?;
        let data = match &error.data {
            Some(data) => self.decode(ctx, data, source).unwrap_or_else(|_| JsValue::new_null(ctx.clone())),
            None => JsValue::new_undefined(ctx.clone()),
        };
        #[allow(clippy::cast_precision_loss)]
        let code = error.code as f64;
        let name = error.kind().unwrap_or(Kind::BindingError.name());
        make.call((name, error.message.as_str(), code, data, stack))
    }

    /// The binding that a function goes to may declare what it is to take and return.
    fn note_schemas(&self, target: &CallTarget, input: &Value) {
        let client = self.client_bindings.borrow();
        let (params, holder) = match target {
            CallTarget::Server(number) => match self.registry.at(*number) {
                Some(binding) => (binding.function_params.as_slice(), RefHolder::Handler),
                None => return,
            },
            CallTarget::Client(name) => match client.get(name) {
                Some(params) => (params.as_slice(), RefHolder::Client),
                None => return,
            },
            CallTarget::Import(_) => return,
        };
        for param in params {
            let function = param.reference(input).and_then(|id| id.parse::<FnRef>().ok());
            if let Some(id) = function.and_then(|function| function.script_number()) {
                self.functions.borrow_mut().set_schemas(holder, id, &param.schemas);
            }
        }
    }
}
