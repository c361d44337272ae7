//! How calls to the client end without an answer: their time is over, the connection is gone, or what waits for them is.

use super::boundary::FromSession;
use super::tables::{ClientCall, Waiter};
use super::{ChargedTo, PendingCall, RefHolder, Session, Time};
use crate::protocol::client_messages::ToClient;
use crate::protocol::fn_values;
use crate::protocol::methods::Payload;
use crate::rpc::{ErrorObject, Kind};

impl Session {
    /// Gives up calls whose time is over.
    pub(super) fn expire_calls(&mut self, now: Time) {
        let mut is_any_over = false;
        while let Some(number) = self.state.client_calls.first_expired(now) {
            let Some(call) = self.remove_client_call(number) else { break };
            is_any_over = true;
            let error = if call.unsent.is_none() {
                self.send_event(ToClient::GiveUp { call: number });
                ErrorObject::new(Kind::Timeout, "the client did not answer in time")
            } else if self.state.client.is_some() {
                ErrorObject::new(Kind::Timeout, "the client did not answer earlier calls in time")
            } else {
                ErrorObject::new(Kind::PeerGone, "the client did not come back in time")
            };
            self.take_back_unsent(&call);
            self.fail_call(call.waiter, error);
        }
        if is_any_over {
            self.send_held();
        }
    }

    /// The connection is gone: every call to it fails, whether it was sent or waited for a place, and requests behind
    /// console lines are not answered.
    pub(super) fn fail_client_calls(&mut self) {
        for requester in self.state.client_calls.outbox.clear() {
            self.discharge(requester.charge);
        }
        for number in self.state.client_calls.numbers(|_| true) {
            if let Some(call) = self.remove_client_call(number) {
                self.fail_call(call.waiter, ErrorObject::new(Kind::PeerGone, "the connection is gone"));
            }
        }
    }

    /// Ends every call to a client that is still there, except console lines; scripts and handlers get `error`.
    pub(super) fn give_up_client_calls(&mut self, error: impl Fn() -> ErrorObject) {
        for number in self
            .state
            .client_calls
            .numbers(|call| !matches!(call.waiter, Waiter::Line | Waiter::Announcement))
        {
            if let Some(call) = self.withdraw_call(number) {
                self.fail_call(call.waiter, error());
            }
        }
    }

    /// A handler does not wait for its request any more.
    pub(super) fn cancel_handler_request(&mut self, request: u64) {
        if let Some(number) = self.state.client_calls.number_for_handler(request) {
            self.withdraw_call(number);
            self.send_held();
        }
        if let Some(number) = self.state.handler_calls.for_request(request) {
            self.cancel_handler_call(number);
        }
    }

    /// Takes a call back from the client.
    fn withdraw_call(&mut self, number: u64) -> Option<ClientCall> {
        let call = self.remove_client_call(number)?;
        if call.unsent.is_none() {
            self.send_event(ToClient::GiveUp { call: number });
        }
        self.take_back_unsent(&call);
        Some(call)
    }

    fn take_back_unsent(&mut self, call: &ClientCall) {
        if let (Waiter::Script { .. }, Some(payload)) = (&call.waiter, &call.unsent) {
            self.take_back_functions(payload);
        }
    }

    /// Functions of the script in a call that never reached the client are not held by it.
    pub(super) fn take_back_functions(&mut self, payload: &Payload) {
        let values = match payload {
            Payload::Input(input) => std::slice::from_ref(input),
            Payload::Args(arguments) => arguments.as_slice(),
        };
        let functions = values.iter().flat_map(fn_values::names);
        let exported: Vec<u64> = functions.filter_map(|function| function.script_number()).collect();
        self.take_back_exports(RefHolder::Client, &exported);
    }

    /// Ends the calls of an eval or invocation that is stopped, and those that handlers make for it.
    pub(super) fn abandon_calls_of(&mut self, charged_to: ChargedTo) {
        let numbers = self.state.client_calls.numbers(|call| self.payer_of(&call.waiter) == Some(charged_to));
        let handlers = self.state.handler_calls.for_script(|payer| payer == charged_to);
        for (number, call) in handlers {
            self.cancel_handler_call(number);
            self.drop_script_call(call);
        }
        for number in numbers {
            match self.withdraw_call(number).map(|call| call.waiter) {
                Some(Waiter::Script { call, .. }) => self.drop_script_call(call),
                Some(Waiter::Handler { request, .. }) => {
                    // It may be the request of a handler that works for another one, and is not cancelled here.
                    let error = ErrorObject::new(Kind::PeerGone, "the call is not awaited any more");
                    self.send(FromSession::HandlerAnswered { request, outcome: Err(error) });
                }
                Some(Waiter::Line | Waiter::Announcement) | None => {}
            }
        }
        let pending = self.state.pending.extract_if(.., |pending| pending.charged_to == charged_to);
        for PendingCall { call, target, .. } in pending.collect::<Vec<_>>() {
            self.take_back_functions(target.payload());
            self.drop_script_call(call);
        }
        self.send_held();
    }

    /// The context ends, and with it every call that its scripts wait for.
    pub(super) fn abandon_script_calls(&mut self) {
        for (number, _) in self.state.handler_calls.for_script(|_| true) {
            self.cancel_handler_call(number);
        }
        let is_of_script = |call: &ClientCall| matches!(call.waiter, Waiter::Script { .. });
        for number in self.state.client_calls.numbers(is_of_script) {
            self.withdraw_call(number);
        }
    }
}
