//! What the running script asks of its session, inside a turn. Nothing here sends: the driver does when the turn is over
//! or suspended.

use serde_json::Value;

use super::boundary::{HandlerCall, HandlerInput, HandlerTarget};
use super::tables::HandlerWork;
use super::{CallTarget, ChargedTo, PendingCall, PendingTarget, RefHolder, Session};
use crate::protocol::fn_ref::FnRef;
use crate::rpc::{ErrorObject, Kind};

impl Session {
    /// Who pays for what the script does now.
    fn payer(&self) -> ChargedTo {
        self.state.in_turn.unwrap_or(ChargedTo::Background)
    }

    /// Counts a call of the script and numbers it.
    pub(crate) fn open_script_call(&mut self, payload_bytes: usize) -> Result<u64, ErrorObject> {
        let charged_to = self.payer();
        if charged_to == ChargedTo::Background && !self.limits.floating_calls {
            return Err(ErrorObject::new(Kind::Cancelled, "the eval that made this call is over"));
        }
        let calls_max = self.limits.calls_per_eval_max;
        let Some(call) = self.state.script_calls.open(charged_to, calls_max) else {
            let message = format!("an eval may make {calls_max} binding calls");
            return Err(ErrorObject::new(Kind::TooManyCalls, message));
        };
        let bytes_max = self.limits.calls_bytes_max;
        if payload_bytes > bytes_max {
            return Err(ErrorObject::new(Kind::ResultTooLarge, "the input is too large").with("path", ""));
        }
        if !self.state.script_calls.has_room(payload_bytes, bytes_max) {
            return Err(self.too_many_bytes());
        }
        Ok(call)
    }

    /// The error for a call for which those that wait for their answer leave no room.
    pub(crate) fn too_many_bytes(&self) -> ErrorObject {
        let message = format!("the calls in flight hold more than {} bytes", self.limits.calls_bytes_max);
        ErrorObject::new(Kind::TooManyCalls, message)
    }

    /// Whether the script may call something now.
    pub(crate) fn check_call_depth(&self) -> Result<(), ErrorObject> {
        self.check_invoke_depth(self.state.depth + 1)
    }

    /// A call to the client, which leaves the session when the turn is over or suspended.
    pub(crate) fn call_client_later(&mut self, call: u64, target: PendingTarget) {
        let (charged_to, depth) = (self.payer(), self.state.depth + 1);
        self.state.pending.push(PendingCall { call, charged_to, target, depth });
    }

    /// A handler's work for a call of the script. If it is not answered inside the turn, it is
    /// [awaited](Self::await_handler).
    pub(crate) fn make_handler_call(
        &mut self,
        call: u64,
        target: HandlerTarget,
        value: Value,
        functions: Vec<FnRef>,
    ) -> HandlerCall {
        HandlerCall {
            number: self.next_number(),
            target,
            input: HandlerInput::Value { value, functions },
            depth: self.state.depth + 1,
            eval: match self.payer() {
                ChargedTo::Eval(number) => Some(number),
                ChargedTo::Invocation(_) | ChargedTo::Background => None,
            },
            eval_id: self.eval_id(),
            script_call: Some(call),
        }
    }

    /// The answer of a handler comes as a message.
    pub(crate) fn await_handler(&mut self, number: u64, call: u64) {
        let charged_to = self.payer();
        self.state.handler_calls.insert(number, HandlerWork::ScriptCall { call, charged_to });
    }

    /// The script does not hold a function of the outside any more.
    pub(crate) fn drop_import(&mut self, function: FnRef) {
        self.state.dropped_imports.push(function);
    }

    /// The binding that functions go to may declare what they are to take and return.
    pub(crate) fn note_function_schemas(&mut self, target: &CallTarget, input: &Value) {
        let (entry, holder) = match target {
            CallTarget::Server(number) => (self.state.catalog.at(*number), RefHolder::Handler),
            CallTarget::Client(name) => {
                let client = self.state.client.as_ref();
                (client.and_then(|client| client.bindings.get(name)), RefHolder::Client)
            }
            CallTarget::Function(_) => return,
        };
        for param in entry.map(|entry| entry.params.as_slice()).unwrap_or_default() {
            let function = param.reference(input).and_then(|id| id.parse::<FnRef>().ok());
            if let Some(number) = function.and_then(|function| function.script_number()) {
                self.state.references.set_export_schemas(holder, number, &param.schemas);
            }
        }
    }
}
