//! Forks: a second session that goes on from this moment, or from a checkpoint.
//!
//! Only at rest, as for a checkpoint. A fork has the heap with everything that belongs to it: timers, functions that the
//! client holds, outcomes of keyed evals, checkpoints. What waits outside stays with the original: the connection, calls in
//! flight, which are rejected in the fork, and functions that handlers hold.

use serde_json::Value;

use super::checkpoint::WaitingRequest;
use super::tables::{ClientCall, ClientCalls, Console, HandlerCalls, ScriptCall, Waiter};
use super::{
    ChargedTo, ContextFacts, Effect, InvokedBy, RefHolder, RootId, Session, SessionState, Settlement,
    ValueSource, Work,
};
use crate::rpc::{ErrorObject, Kind};

/// What a fork begins with, beside its heap.
#[derive(Debug)]
pub(crate) struct ForkedState {
    /// The state of the fork.
    pub state: SessionState,
    /// What is known of its heap.
    pub facts: ContextFacts,
    /// Values of its heap that nothing holds any more.
    pub freed: Vec<RootId>,
}

impl Session {
    /// The client asks for a fork.
    pub(super) fn request_fork(&mut self, by: InvokedBy, checkpoint: Option<u64>) {
        if self.state.in_turn == Some(ChargedTo::Background) {
            return self.state.waiting_requests.push(WaitingRequest::Fork(by, checkpoint));
        }
        let known = checkpoint.map_or(Ok(()), |number| self.check_checkpoint(number));
        if let Err(error) = known.and_then(|()| self.check_at_rest()) {
            return self.reply(by, Err(error));
        }
        let request = self.next_number();
        self.state.forks.insert(request, by);
        self.effects.push(Effect::Fork { request, checkpoint });
    }

    /// The fork is there, or could not be made.
    pub(super) fn finish_fork(&mut self, request: u64, outcome: Result<Value, ErrorObject>) {
        if let Some(by) = self.state.forks.remove(&request) {
            self.reply(by, outcome);
        }
    }

    /// The session ends: those that wait for a fork do not hear of it.
    pub(super) fn refuse_forks(&mut self) {
        for by in std::mem::take(&mut self.state.forks).into_values() {
            self.reply(by, Err(ErrorObject::new(Kind::SessionClosed, "the session was closed")));
        }
    }

    /// The state of a fork with that id: of this moment, or of a checkpoint. Only at rest.
    pub(crate) fn fork(&self, id: &str, checkpoint: Option<u64>) -> ForkedState {
        let state = SessionState { id: id.to_owned(), ..self.state.clone() };
        let mut fork = Self::new(state, self.limits.clone());
        (fork.now, fork.context) = (self.now, self.context);
        fork.leave_surroundings();
        match checkpoint.and_then(|number| Some((number, self.state.checkpoints.get(number)?))) {
            Some((number, checkpoint)) => {
                // What was freed is of another heap.
                fork.effects.clear();
                fork.adopt(checkpoint.context.clone(), &forked);
                fork.state.checkpoints.drop_after(number);
                fork.context.has_jobs = true;
            }
            None => fork.reject_calls(),
        }
        let freed = fork.effects.into_iter().filter_map(|effect| match effect {
            Effect::FreeRoots(roots) => Some(roots),
            // Messages of a session that has no host yet are about what it does not have either.
            _ => None,
        });
        ForkedState { freed: freed.flatten().collect(), state: fork.state, facts: fork.context }
    }

    /// Drops what belongs to the connection, the host and the handlers of the original.
    fn leave_surroundings(&mut self) {
        if let Some(client) = self.state.client.take() {
            self.state.last_client_names = client.bindings.names_only().into();
        }
        self.state.stalled = None;
        self.state.forks.clear();
        self.state.waiting_requests.clear();
        self.state.console = Console::new(self.limits.console_bytes_max);
        self.state.cpu_total = std::time::Duration::ZERO;
        self.state.handler_calls = HandlerCalls::default();
        for number in self.state.client_calls.numbers(|_| true) {
            // Functions in a call that was not sent have no holder in the fork.
            if let Some(ClientCall { waiter: Waiter::Script { .. }, unsent: Some(payload), .. }) =
                self.state.client_calls.remove(number)
            {
                self.take_back_functions(&payload);
            }
        }
        self.state.client_calls = ClientCalls::new(self.limits.client_calls_open_max);
        for pending in std::mem::take(&mut self.state.pending) {
            self.take_back_functions(pending.target.payload());
        }
        let freed = self.state.references.release_all(RefHolder::Handler);
        self.free(freed);
        self.send_dropped_imports();
        self.state.references.drop_import_schemas();
        // Charges are numbers of the host of the original.
        self.state.turn_charges.clear();
        for turn in self.state.ready.iter_mut().chain(&mut self.state.deferred) {
            if let Work::Settle(settlements) = &mut turn.work {
                settlements.iter_mut().for_each(|settlement| settlement.charge = 0);
            }
        }
    }

    /// Calls that the script waits for are not answered in the fork, unless the answer is there already.
    fn reject_calls(&mut self) {
        let turns = self.state.ready.iter().chain(&self.state.deferred);
        let answered: std::collections::BTreeSet<u64> = turns
            .filter_map(|turn| match &turn.work {
                Work::Settle(settlements) => Some(settlements),
                _ => None,
            })
            .flatten()
            .map(|settlement| settlement.call)
            .collect();
        let calls: Vec<(u64, ScriptCall)> =
            self.state.script_calls.iter().map(|(number, call)| (number, call.clone())).collect();
        self.state.script_calls.clear();
        for (number, call) in calls {
            self.wait_without_payload(number, call);
            if !answered.contains(&number) {
                self.reject_call(number, forked());
            }
        }
    }

    /// Waits for a call whose payload has left, or never will.
    pub(super) fn wait_without_payload(&mut self, number: u64, call: ScriptCall) {
        self.state.script_calls.wait(number, ScriptCall { payload_bytes: 0, claimed_bytes: 0, ..call });
    }

    /// Rejects a call of the script in its next turn.
    pub(super) fn reject_call(&mut self, call: u64, error: ErrorObject) {
        let settlement = Settlement { call, outcome: Err(error), source: ValueSource::Handler, charge: 0 };
        self.settle_soon(ChargedTo::Background, settlement);
    }
}

fn forked() -> ErrorObject {
    ErrorObject::new(
        Kind::Forked,
        "the call was in flight when the session was forked: it stays with the original",
    )
}
