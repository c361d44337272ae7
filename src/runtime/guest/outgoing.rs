//! The calls that a script makes: of bindings, and of functions that it was given.

use std::time::Instant;

use rquickjs::{Ctx, Function, Object, Promise, Value as JsValue};
use serde_json::{Value, json};

use super::super::value::{EncodeError, Fault, Tree};
use super::{Guest, kit_function};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;
use crate::rpc::{ErrorObject, Kind};
use crate::session::boundary::HandlerTarget;
use crate::session::tables::ScriptCall;
use crate::session::{CallTarget, CallValue, PendingTarget, ValueSource};

/// Payloads up to here do not count towards the memory of all sessions: a call has a promise of about that size in the
/// heap, which does.
const UNCLAIMED_BYTES_MAX: usize = 4 << 10;

impl Guest {
    /// `host.call(key, count, input)`, for `await someBinding(input)`. The key is the number of a binding of the server,
    /// or the name of one of the client.
    pub(crate) fn call_binding<'js>(
        &self,
        ctx: &Ctx<'js>,
        (key, count, input): (JsValue<'js>, usize, JsValue<'js>),
    ) -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let target = match key.as_int().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => CallTarget::Server(number),
            None => CallTarget::Client(key.get()?),
        };
        if self.refuses_calls(ctx, &reject)? {
            return Ok(promise);
        }
        let mut exported = Vec::new();
        let payload = match count {
            0 => Ok(json!({})),
            1 => self.encode::<Tree>(ctx, &input, target.holder(), &mut exported),
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
        let target = CallTarget::Function(key);
        if self.refuses_calls(ctx, &reject)? {
            return Ok(promise);
        }
        let mut exported = Vec::new();
        let mut encoded = Vec::new();
        let count: u32 = arguments.get("length")?;
        for index in 0..count {
            let argument: JsValue<'js> = arguments.get(index)?;
            match self.encode::<Tree>(ctx, &argument, target.holder(), &mut exported) {
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
        self.open_call(ctx, (resolve, reject), target, payload, exported)?;
        Ok(promise)
    }

    /// Counts a call and sends it on its way. One that is answered inside the turn is settled immediately; for the
    /// others the place of the call is kept, because by the time they fail the script is elsewhere.
    fn open_call<'js>(
        &self,
        ctx: &Ctx<'js>,
        (resolve, reject): (Function<'js>, Function<'js>),
        target: CallTarget,
        payload: Payload,
        mut exported: Vec<u64>,
    ) -> rquickjs::Result<()> {
        let payload_bytes = payload.tree_bytes();
        let opened = self.machine_mut().open_script_call(payload_bytes);
        let call = match opened.and_then(|call| self.check_call().map(|()| call)) {
            Ok(call) => call,
            Err(error) => return self.refuse_call(ctx, &reject, &error, &target, exported),
        };
        let is_claimed = payload_bytes > UNCLAIMED_BYTES_MAX;
        // To write a large payload takes a while in which QuickJS does not poll.
        if is_claimed && self.meter.is_over(Instant::now()) {
            self.take_back(target.holder(), &mut exported);
            return Ok(());
        }
        if is_claimed && !self.claim.borrow_mut().try_grow(payload_bytes) {
            let error = ErrorObject::new(Kind::MemoryLimit, "the memory for sessions is used up");
            return self.refuse_call(ctx, &reject, &error, &target, exported);
        }
        let claimed_bytes = if is_claimed { payload_bytes } else { 0 };
        if let Some(outcome) = self.dispatch(call, target, payload, exported) {
            self.claim.borrow_mut().shrink(claimed_bytes);
            let outcome = outcome.map(CallValue::Tree);
            return self.settle(ctx, &resolve, &reject, (outcome, ValueSource::Handler), None);
        }
        let waiting = ScriptCall {
            resolve: self.roots.hold(ctx, resolve)?,
            reject: self.roots.hold(ctx, reject)?,
            stack: String::new(),
            payload_bytes,
            claimed_bytes,
        };
        self.machine_mut().state.script_calls.wait(call, waiting);
        // Last, because it runs JavaScript: the turn may be suspended there, and what is claimed is counted then.
        let stack = self.place_of_call(ctx)?;
        self.machine_mut().state.script_calls.set_stack(call, stack);
        Ok(())
    }

    /// Whether a call may be made at all.
    fn check_call(&self) -> Result<(), ErrorObject> {
        let shared = self.shared();
        if shared.port.as_ref().is_some_and(|port| port.is_closed()) {
            // The client is gone and the session lost: a call would act for a session that does not exist any more.
            return Err(ErrorObject::new(Kind::SessionClosed, "the session is lost"));
        }
        shared.machine.borrow().check_call_depth()
    }

    /// Sends a call on its way; returns the answer if it is there already.
    fn dispatch(
        &self,
        call: u64,
        target: CallTarget,
        payload: Payload,
        exported: Vec<u64>,
    ) -> Option<Result<Value, ErrorObject>> {
        let shared = self.shared();
        let port = shared.port.as_ref()?;
        let functions = exported.into_iter().map(FnRef::Script).collect();
        let (target, value) = match (target, payload) {
            (CallTarget::Server(number), Payload::Input(input)) => (HandlerTarget::Binding(number), input),
            (CallTarget::Server(_), Payload::Args(_)) => {
                return Some(Err(ErrorObject::new(Kind::InvalidParams, "a binding takes `input`")));
            }
            (CallTarget::Function(FnRef::Handler(number)), payload) => {
                let arguments = match payload {
                    Payload::Args(arguments) => arguments,
                    Payload::Input(input) => vec![input],
                };
                (HandlerTarget::Function(number), Value::Array(arguments))
            }
            (CallTarget::Client(name), payload) => {
                let question = match &payload {
                    Payload::Input(input) => shared.machine.borrow().ask_about_bindings(&name, input),
                    Payload::Args(_) => None,
                };
                match question {
                    Some(Ok(target)) => (target, Value::Null),
                    Some(Err(error)) => return Some(Err(error)),
                    None => {
                        let target = PendingTarget::Binding(name, payload);
                        shared.machine.borrow_mut().call_client_later(call, target);
                        return None;
                    }
                }
            }
            (CallTarget::Function(function), payload) => {
                let target = PendingTarget::Function(function, payload);
                shared.machine.borrow_mut().call_client_later(call, target);
                return None;
            }
        };
        let handler_call = shared.machine.borrow_mut().make_handler_call(call, target, value, functions);
        let number = handler_call.number;
        // No borrow is held: a handler that is ready runs here.
        let answer = port.call(handler_call);
        if answer.is_none() {
            shared.machine.borrow_mut().await_handler(number, call);
        }
        answer
    }

    /// A call is not made, so the functions in it are not held either.
    fn refuse_call<'js>(
        &self,
        ctx: &Ctx<'js>,
        reject: &Function<'js>,
        error: &ErrorObject,
        target: &CallTarget,
        mut exported: Vec<u64>,
    ) -> rquickjs::Result<()> {
        self.take_back(target.holder(), &mut exported);
        self.reject(ctx, reject, error, ValueSource::Handler, None)
    }

    /// Whether a call is not made, and its payload not even written: the script is to end, or there is no room.
    fn refuses_calls<'js>(&self, ctx: &Ctx<'js>, reject: &Function<'js>) -> rquickjs::Result<bool> {
        if self.meter.stopped().is_some() {
            return Ok(true);
        }
        let is_full = self.machine().state.script_calls.is_full(self.limits.calls_bytes_max);
        if is_full {
            let error = self.machine().too_many_bytes();
            self.reject(ctx, reject, &error, ValueSource::Handler, None)?;
        }
        Ok(is_full)
    }

    /// Gives an answer to the script. Without a stack, an error gets the one of the call that is being made.
    pub(crate) fn settle<'js>(
        &self,
        ctx: &Ctx<'js>,
        resolve: &Function<'js>,
        reject: &Function<'js>,
        (outcome, source): (Result<CallValue, ErrorObject>, ValueSource),
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
            Fault::Unsettled => {
                ErrorObject::new(Kind::Unserializable, "the input holds a Promise: await it first")
                    .with("path", error.path())
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
        self.machine_mut().note_function_schemas(target, input);
    }
}
