//! A session that is stored, and goes on in another process.
//!
//! What the session is stays as it is. What it had of its host is gone: the connection, handlers at work and their
//! functions, requests that waited for an answer. Numbers of the host are not used again by the next one, so a message
//! with an old number changes nothing there.

use std::sync::Arc;

use super::boundary::FromSession;
use super::tables::HandlerWork;
use super::{
    CallValue, Effect, InvokedBy, RefHolder, Session, SessionState, Settlement, Stop, Time, ValueSource,
};
use crate::catalog::Catalog;
use crate::protocol::client_messages::Closing;
use crate::rpc::{ErrorObject, Kind};

impl SessionState {
    /// Its form in an image, without the declarations of bindings: these are the server's and the client's, and both say
    /// them anew.
    pub(crate) fn write_stored(&mut self) -> Result<Vec<u8>, serde_json::Error> {
        let (catalog, next_catalog) = (std::mem::take(&mut self.catalog), self.next_catalog.take());
        let client = self.client.take();
        let names = client.as_ref().map(|client| Arc::new(client.bindings.names_only()));
        let last_names = names.map(|names| std::mem::replace(&mut self.last_client_names, names));
        let stored = serde_json::to_vec(self);
        (self.catalog, self.next_catalog, self.client) = (catalog, next_catalog, client);
        if let Some(last_names) = last_names {
            self.last_client_names = last_names;
        }
        stored
    }
}

impl Session {
    /// Goes on after its image of `stored_at` was read, with the bindings that the server has now. The time between counts
    /// for timers, and not for the limits of evals.
    pub(crate) fn rehost(&mut self, catalog: Arc<Catalog>, stored_at: Time, now: Time) {
        self.now = now;
        self.state.catalog = catalog;
        self.state.stalled = None;
        self.state.cpu_quota = None;
        self.state.turn_charges.clear();
        self.state.checkpoints.forget_all();
        self.state.console.set_streaming(false);
        self.shift_clocks(now.saturating_since(stored_at));
        self.fail_client_calls();
        self.lose_handlers();
        let mut freed = self.state.references.release_all(RefHolder::Client);
        freed.extend(self.state.references.release_all(RefHolder::Handler));
        self.free(freed);
        self.state.references.drop_import_schemas();
        // What the host before was to hear.
        self.effects.retain(|effect| !matches!(effect, Effect::Send(_)));
        self.introduce_client();
    }

    fn shift_clocks(&mut self, away: std::time::Duration) {
        if let Some(running) = &mut self.state.evals.running {
            running.clock.shift(away);
        }
        for number in self.state.invocations.numbers() {
            if let Some(invocation) = self.state.invocations.get_mut(number) {
                invocation.clock.shift(away);
            }
        }
    }

    /// Handlers ended with their process. Whether they had done their work is not known.
    fn lose_handlers(&mut self) {
        for (number, call) in self.state.handler_calls.for_script(|_| true) {
            let Some(HandlerWork::ScriptCall { charged_to, .. }) = self.state.handler_calls.remove(number)
            else {
                continue;
            };
            let outcome: Result<CallValue, ErrorObject> = Err(outcome_unknown());
            self.settle_soon(
                charged_to,
                Settlement { call, outcome, source: ValueSource::Handler, charge: 0 },
            );
        }
        for number in self.state.handler_calls.for_invokes() {
            self.state.handler_calls.remove(number);
        }
        for number in self.state.invocations.numbers() {
            let by = self.state.invocations.get(number).map(|invocation| &invocation.by);
            if matches!(by, Some(InvokedBy::Handler { .. })) {
                self.stop_invocation(number, Stop::Cancelled);
            }
        }
    }

    /// The server stops and the session is to be stored: as soon as the JavaScript stack is empty.
    pub(super) fn request_suspension(&mut self) {
        self.is_suspending = true;
        if self.state.in_turn.is_some() {
            self.effects.push(Effect::StopTurn(Stop::Cancelled));
        }
    }

    /// Whether it is to be stored and to leave this process.
    pub(crate) fn is_suspending(&self) -> bool {
        self.is_suspending
    }

    /// Whether anything is to be stored: a session without code is not kept.
    pub(crate) fn is_worth_storing(&self) -> bool {
        self.state.evals.done > 0 || self.state.evals.is_busy()
    }

    /// It was stored and leaves this process, without an answer to what waits: that goes on elsewhere.
    pub(crate) fn finish_suspension(&mut self) {
        let connection = self.state.connection();
        self.send(FromSession::Suspended { connection });
    }

    /// It could not be stored: it ends with the server.
    pub(crate) fn refuse_suspension(&mut self) {
        self.is_suspending = false;
        self.end(Closing::GoingAway);
    }
}

fn outcome_unknown() -> ErrorObject {
    let message = "the server stopped while the binding was called; whether it was done is unknown";
    ErrorObject::new(Kind::OutcomeUnknown, message)
}
