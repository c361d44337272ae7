//! Calls from outside: the client's `invoke`, and what handlers ask of the session that called them.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::boundary::{Admission, FromSession, HandlerInput, HandlerTarget, InvokeTarget};
use super::control::Control;
use super::eval::internal;
use super::tables::{Invocation, Waiter, WallClock};
use super::{
    Arguments, Callable, ChargedTo, Encoded, InvokedBy, RefHolder, Requester, Session, Settled, Turn,
    ValueSource, Work,
};
use crate::binding::tags;
use crate::catalog::check::{Direction, check_value};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::{Payload, RawPayload, Target, ValueResult};
use crate::protocol::shape::Shape;
use crate::quota::QuotaExceeded;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::FunctionSchemas;

/// `result` of an invoke of a function of the script.
#[derive(Serialize)]
struct FunctionResult {
    value: Encoded,
}

impl Session {
    /// The client calls a binding of the server or a function.
    pub(super) fn invoke_for_client(
        &mut self,
        requester: Requester,
        target: Target,
        payload: RawPayload,
        admission: Admission,
    ) {
        // A client does not say what it calls for; the deepest call it has to answer is the likely one.
        let depth = self.state.client_calls.depth() + 1;
        let connection = requester.connection;
        let refused = self.check_value_depth(&payload).and_then(|()| self.check_invoke_depth(depth));
        let by = InvokedBy::Client(requester);
        if let Err(error) = refused {
            return self.reply(by, Err(error));
        }
        match target {
            Target::Binding(name) => {
                match self.control(connection, &name, payload.text()) {
                    Some(Control::Done(outcome)) => return self.reply(by, outcome),
                    Some(Control::Describe(query)) => {
                        return self.describe_bindings(by, query, payload, depth);
                    }
                    Some(Control::Checkpoint(label)) => return self.request_checkpoint(by, label),
                    Some(Control::Rewind(number)) => return self.request_rewind(by, number),
                    Some(Control::Fork(checkpoint)) => return self.request_fork(by, checkpoint),
                    None => {}
                }
                let Some(number) = self.invoked_binding(&name) else {
                    let error = ErrorObject::new(Kind::UnknownBinding, format!("no binding {name}"));
                    return self.reply(by, Err(error));
                };
                self.call_handler_with_text(by, HandlerTarget::Binding(number), payload, depth);
            }
            Target::Reference(reference) => {
                let function = match reference.parse() {
                    Ok(FnRef::Script(number)) => self.state.references.exported(RefHolder::Client, number),
                    Ok(FnRef::Handler(_) | FnRef::Client { .. }) | Err(_) => None,
                };
                match function.cloned() {
                    Some(Callable::Script(identity)) => {
                        let function = Callable::Script(identity);
                        let arguments = Arguments::Text(payload);
                        self.call_script((by, admission.cpu), &reference, &function, arguments, depth);
                    }
                    Some(Callable::Outside(FnRef::Handler(number))) => {
                        self.call_handler_with_text(by, HandlerTarget::Function(number), payload, depth);
                    }
                    Some(Callable::Outside(FnRef::Script(_) | FnRef::Client { .. })) | None => {
                        let error = ErrorObject::new(Kind::UnknownRef, format!("no function {reference}"));
                        self.reply(by, Err(error));
                    }
                }
            }
        }
    }

    /// The host writes about the bindings that scripts see.
    fn describe_bindings(&mut self, by: InvokedBy, query: Option<String>, payload: RawPayload, depth: u32) {
        let server = Arc::clone(self.latest_catalog());
        let client =
            self.state.client.as_ref().map(|client| Arc::clone(&client.bindings)).unwrap_or_default();
        self.call_handler_with_text(by, HandlerTarget::Describe { server, client, query }, payload, depth);
    }

    fn call_handler_with_text(
        &mut self,
        by: InvokedBy,
        target: HandlerTarget,
        payload: RawPayload,
        depth: u32,
    ) {
        let InvokedBy::Client(Requester { connection, charge, .. }) = by else { return };
        self.call_handler(by, target, HandlerInput::Text { payload, connection, charge }, depth);
    }

    /// A handler calls a binding or a function.
    pub(super) fn invoke_for_handler(
        &mut self,
        by: InvokedBy,
        target: InvokeTarget,
        payload: Payload,
        depth: u32,
    ) {
        if let Err(error) = self.check_invoke_depth(depth) {
            return self.reply(by, Err(error));
        }
        match target {
            InvokeTarget::Binding(name) => self.invoke_binding_for_handler(by, name, payload, depth),
            InvokeTarget::Function(function) => {
                self.invoke_function_for_handler(by, &function, payload, depth);
            }
        }
    }

    fn invoke_binding_for_handler(&mut self, by: InvokedBy, name: String, payload: Payload, depth: u32) {
        let input = match <[Value; 1]>::try_from(into_arguments(payload)) {
            Ok([input]) => input,
            Err(_) => {
                let error = ErrorObject::new(Kind::InvalidParams, "a binding takes `input`");
                return self.reply(by, Err(error));
            }
        };
        match self.invoked_binding(&name) {
            Some(number) => {
                let input = HandlerInput::Value { value: input, functions: Vec::new() };
                self.call_handler(by, HandlerTarget::Binding(number), input, depth);
            }
            None => {
                self.call_client(waiter_of(by), Target::Binding(name), Payload::Input(input), depth);
            }
        }
    }

    fn invoke_function_for_handler(&mut self, by: InvokedBy, function: &FnRef, payload: Payload, depth: u32) {
        let arguments = into_arguments(payload);
        let exported = match function {
            FnRef::Script(number) => self.state.references.exported(RefHolder::Handler, *number).cloned(),
            FnRef::Handler(_) | FnRef::Client { .. } => None,
        };
        let outside = match exported {
            Some(callable @ Callable::Script(_)) => {
                let (name, arguments) = (function.to_string(), Arguments::Trees(arguments));
                let cpu = self.cpu_exceeded().cloned();
                return self.call_script((by, cpu), &name, &callable, arguments, depth);
            }
            Some(Callable::Outside(FnRef::Handler(number))) => {
                let input = HandlerInput::Value { value: Value::Array(arguments), functions: Vec::new() };
                return self.call_handler(by, HandlerTarget::Function(number), input, depth);
            }
            Some(Callable::Outside(outside)) => outside,
            None => function.clone(),
        };
        match self.own_reference(&outside) {
            Some(id) => {
                self.call_client(waiter_of(by), Target::Reference(id), Payload::Args(arguments), depth);
            }
            None => self.reply(by, Err(ErrorObject::new(Kind::UnknownRef, "the function is gone"))),
        }
    }

    /// Calls a function of the script, when its stack is empty.
    fn call_script(
        &mut self,
        (by, cpu): (InvokedBy, Option<QuotaExceeded>),
        name: &str,
        callable: &Callable,
        arguments: Arguments,
        depth: u32,
    ) {
        if let Some(exceeded) = cpu {
            self.observe_refusal(exceeded.resource.name());
            return self.reply(by, Err(exceeded.into()));
        }
        let Some(function) = self.state.references.root_of(callable) else {
            return self.reply(by, Err(ErrorObject::new(Kind::UnknownRef, "the function is gone")));
        };
        let (source, holder) = match &by {
            InvokedBy::Client(requester) => (ValueSource::Client(requester.connection), RefHolder::Client),
            InvokedBy::Handler { .. } => (ValueSource::Handler, RefHolder::Handler),
        };
        let number = name.parse().ok().as_ref().and_then(FnRef::script_number);
        let schemas = number.and_then(|number| self.state.references.export_schemas(holder, number));
        if let Err(error) = self.check_arguments(schemas.as_deref(), name, &arguments) {
            return self.reply(by, Err(error));
        }
        let number = self.next_number();
        let clock = WallClock::start(self.now, self.limits.wall_max(), None);
        // Its holder may release it before the call begins.
        self.state.references.retain(callable);
        let invocation =
            Invocation { by, function: callable.clone(), schemas, cpu: Duration::ZERO, clock, depth };
        self.state.invocations.insert(number, invocation);
        let work = Work::Call { function, arguments, source, holder };
        self.state.ready.push_back(Turn { charged_to: ChargedTo::Invocation(number), depth, work });
    }

    /// A function of the script is done.
    pub(super) fn finish_invocation(&mut self, number: u64, settled: Settled) {
        let Some(invocation) = self.state.invocations.remove(number) else {
            // It was stopped. Numbers of exports are never used twice, so only one holder can have them.
            self.take_back_exports(RefHolder::Client, &settled.exported);
            return self.take_back_exports(RefHolder::Handler, &settled.exported);
        };
        self.drop_promise(ChargedTo::Invocation(number));
        self.release_callables(std::slice::from_ref(&invocation.function));
        self.state.script_calls.close_account(ChargedTo::Invocation(number));
        let outcome = settled.outcome.and_then(|value| {
            self.check_result(invocation.schemas.as_deref(), &value)?;
            Ok(value)
        });
        let (holder, is_delivered) = match &invocation.by {
            InvokedBy::Client(requester) => (RefHolder::Client, self.is_connected(requester)),
            InvokedBy::Handler { .. } => (RefHolder::Handler, true),
        };
        if outcome.is_err() || !is_delivered {
            self.take_back_exports(holder, &settled.exported);
        }
        match invocation.by {
            InvokedBy::Client(requester) => {
                let answer =
                    outcome.and_then(|value| to_raw_value(&FunctionResult { value }).map_err(internal));
                self.answer(requester, answer);
            }
            InvokedBy::Handler { request, .. } => {
                let outcome = outcome.and_then(|value| value.into_tree().map_err(internal));
                self.send(FromSession::HandlerAnswered { request, outcome });
            }
        }
    }

    /// Answers a call from outside.
    pub(super) fn reply(&mut self, by: InvokedBy, outcome: Result<Value, ErrorObject>) {
        match by {
            InvokedBy::Client(requester) => {
                let answer = outcome.and_then(|value| to_raw_value(&ValueResult { value }).map_err(internal));
                self.answer(requester, answer);
            }
            InvokedBy::Handler { request, .. } => {
                self.send(FromSession::HandlerAnswered { request, outcome });
            }
        }
    }

    /// How many invokes an eval or invocation is inside of.
    pub(super) fn depth_of(&self, charged_to: ChargedTo) -> u32 {
        match charged_to {
            ChargedTo::Invocation(number) => {
                self.state.invocations.get(number).map_or(0, |invocation| invocation.depth)
            }
            ChargedTo::Eval(_) | ChargedTo::Background => 0,
        }
    }

    pub(super) fn check_invoke_depth(&self, depth: u32) -> Result<(), ErrorObject> {
        let max = self.limits.invoke_depth_max;
        if depth > max {
            return Err(ErrorObject::new(Kind::TooDeep, format!("invokes are nested deeper than {max}")));
        }
        Ok(())
    }

    fn check_value_depth(&self, payload: &RawPayload) -> Result<(), ErrorObject> {
        let max = self.limits.value_depth_max;
        let depth = Shape::of(payload.text()).depth;
        let depth = if matches!(payload, RawPayload::Args(_)) { depth.saturating_sub(1) } else { depth };
        if depth > max {
            return Err(ErrorObject::new(
                Kind::InvalidParams,
                format!("the value is nested deeper than {max}"),
            ));
        }
        Ok(())
    }

    /// Checks the arguments of a function that says what it takes. Several arguments are its own affair.
    fn check_arguments(
        &mut self,
        schemas: Option<&FunctionSchemas>,
        name: &str,
        arguments: &Arguments,
    ) -> Result<(), ErrorObject> {
        let Some(schema) = schemas.and_then(|schemas| schemas.input.as_ref()) else { return Ok(()) };
        self.checked_for = Some(None);
        let parsed;
        let arguments = match arguments {
            Arguments::Trees(trees) => trees,
            Arguments::Text(payload) => {
                parsed = self.read_arguments(payload)?;
                &parsed
            }
        };
        match arguments.as_slice() {
            [argument] => check_value(Direction::Input, name, Some(schema), argument),
            _ => Ok(()),
        }
    }

    /// Makes values of arguments for the time of a check, and refuses malformed tags in them.
    fn read_arguments(&self, payload: &RawPayload) -> Result<Vec<Value>, ErrorObject> {
        let (RawPayload::Input(text) | RawPayload::Args(text)) = payload;
        let value = self.read_tree(text, Kind::InvalidParams)?;
        let payload = match (payload, value) {
            (RawPayload::Args(_), Value::Array(arguments)) => Payload::Args(arguments),
            (_, input) => Payload::Input(input),
        };
        tags::check_payload(&payload)?;
        Ok(into_arguments(payload))
    }

    /// Makes a value of a text of the client, if it is not larger than a session may be.
    pub(super) fn read_tree(&self, text: &RawValue, kind: Kind) -> Result<Value, ErrorObject> {
        let max = self.limits.memory_bytes_max;
        if Shape::of(text.get()).tree_bytes > max {
            return Err(ErrorObject::new(kind, format!("the value takes more than {max} bytes in memory")));
        }
        serde_json::from_str(text.get()).map_err(|error| ErrorObject::new(kind, error.to_string()))
    }

    /// Checks what a function returned against its schema, if it has one.
    fn check_result(
        &mut self,
        schemas: Option<&FunctionSchemas>,
        value: &Encoded,
    ) -> Result<(), ErrorObject> {
        let Some(schema) = schemas.and_then(|schemas| schemas.output.as_ref()) else { return Ok(()) };
        self.checked_for = Some(None);
        let parsed: Value;
        let value = match value {
            Encoded::Tree(value) => value,
            Encoded::Text(text) => {
                parsed = serde_json::from_str(text.get()).map_err(internal)?;
                &parsed
            }
        };
        check_value(Direction::Output, "the function", Some(schema), value)
    }
}

fn into_arguments(payload: Payload) -> Vec<Value> {
    match payload {
        Payload::Input(input) => vec![input],
        Payload::Args(arguments) => arguments,
    }
}

fn waiter_of(by: InvokedBy) -> Waiter {
    match by {
        InvokedBy::Handler { request, script_call } => Waiter::Handler { request, script_call },
        // Only handlers call the client.
        InvokedBy::Client(_) => Waiter::Line,
    }
}
