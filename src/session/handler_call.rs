//! Calls of server bindings and of functions that handlers exported.

use serde_json::Value;

use super::boundary::{FromSession, HandlerCall, HandlerInput, HandlerTarget};
use super::tables::{Freed, HandlerWork, ScriptCall};
use super::{CallValue, Callable, Effect, InvokedBy, RefHolder, Session, Settlement, ValueSource};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::rpc::{ErrorObject, Kind};

impl Session {
    /// Begins a handler's work for the client or another handler.
    pub(super) fn call_handler(
        &mut self,
        by: InvokedBy,
        target: HandlerTarget,
        input: HandlerInput,
        depth: u32,
    ) {
        let number = self.next_number();
        let script_call = match &by {
            InvokedBy::Client(_) => None,
            InvokedBy::Handler { script_call, .. } => *script_call,
        };
        self.state.handler_calls.insert(number, HandlerWork::Invoke(by));
        let (eval, eval_id) = (None, self.eval_id());
        let call = HandlerCall { number, target, input, depth, eval, eval_id, script_call };
        self.send(FromSession::CallHandler(call));
    }

    /// A handler is done.
    pub(super) fn finish_handler_call(&mut self, number: u64, outcome: Result<Value, ErrorObject>) {
        match self.state.handler_calls.remove(number) {
            Some(HandlerWork::ScriptCall { call, charged_to }) => {
                let (outcome, source) = (outcome.map(CallValue::Tree), ValueSource::Handler);
                self.settle_soon(charged_to, Settlement { call, outcome, source, charge: 0 });
            }
            Some(HandlerWork::Invoke(by)) => {
                let outcome = match &by {
                    InvokedBy::Client(requester) if self.is_connected(requester) => {
                        outcome.and_then(|value| self.export_functions(value))
                    }
                    InvokedBy::Client(_) => outcome.inspect(|value| self.release_unsent(value)),
                    InvokedBy::Handler { .. } => outcome,
                };
                self.reply(by, outcome);
            }
            // It was cancelled.
            None => {
                let _ = outcome.inspect(|value| self.release_unsent(value));
            }
        }
    }

    /// Functions that a handler made for an answer that has no receiver.
    fn release_unsent(&mut self, value: &Value) {
        let is_unsent = |function: &FnRef| !self.state.references.is_known(function);
        let unsent = fn_values::names(value).into_iter().filter(is_unsent);
        let freed = unsent.filter_map(|function| match function {
            FnRef::Handler(number) => Some(Freed::Handler(number)),
            FnRef::Script(_) | FnRef::Client { .. } => None,
        });
        self.free(freed.collect());
    }

    pub(super) fn cancel_handler_call(&mut self, number: u64) -> Option<HandlerWork> {
        let work = self.state.handler_calls.remove(number)?;
        self.send(FromSession::CancelHandler { number });
        Some(work)
    }

    /// The script does not wait for this call any more.
    pub(super) fn drop_script_call(&mut self, call: u64) {
        if let Some(ScriptCall { resolve, reject, .. }) = self.state.script_calls.take(call) {
            self.effects.push(Effect::FreeRoots(vec![resolve, reject]));
        }
    }

    /// Functions that a handler returns to the client become references on the wire.
    fn export_functions(&mut self, mut value: Value) -> Result<Value, ErrorObject> {
        let mut failure = None;
        fn_values::rename(&mut value, |id| match self.export_function(&FnRef::parse_or_unknown(id)) {
            Ok(reference) => Some(reference.to_string()),
            Err(error) => {
                failure = Some(error);
                None
            }
        });
        failure.map_or(Ok(value), Err)
    }

    fn export_function(&mut self, function: &FnRef) -> Result<FnRef, ErrorObject> {
        let of_script = match function {
            FnRef::Script(number) => self.state.references.exported(RefHolder::Handler, *number).cloned(),
            FnRef::Handler(_) | FnRef::Client { .. } => None,
        };
        let callable = of_script.unwrap_or_else(|| Callable::Outside(function.clone()));
        let exported = self.state.references.export(RefHolder::Client, &callable);
        let too_many = |_| ErrorObject::new(Kind::TooManyRefs, "too many live function references");
        exported.map(FnRef::Script).map_err(too_many)
    }
}
