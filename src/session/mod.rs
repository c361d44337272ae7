//! A session as data, and the pure machine that advances it.
//!
//! [`SessionState`] is everything that a session is beside its JavaScript heap. [`Session`] applies inputs to it:
//! messages of the host between and during turns, and the report of a turn when it is over. It returns effects; it
//! neither reads a clock nor sends nor waits. JavaScript runs in turns, from an empty stack to an empty stack. The driver
//! (`runtime`) asks for the [next turn](Session::next_turn), runs it in slices, and performs the effects.
//!
//! Messages are accepted at any time. What needs an empty stack waits in `ready`; what does not (control, handlers) is
//! done immediately, so nothing but an eval ever waits behind an eval.

mod attach;
mod bindings;
pub(crate) mod boundary;
mod checkpoint;
mod client_call;
mod control;
mod deadlines;
mod discover;
mod end_calls;
mod eval;
mod fence;
mod fork;
mod handler_call;
mod invoke;
mod pairs;
mod pending;
pub(crate) mod positions;
mod rehost;
mod report;
mod reset;
mod roles;
mod script;
#[cfg(test)]
mod simulation;
mod state;
mod stop;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod time;
mod turn;
mod work;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::Limits;
use crate::protocol::client_messages::{Closing, FromClient, ToClient};
use crate::protocol::fn_ref::FnRef;
use crate::rpc::ErrorObject;
use boundary::{FromSession, Observation, SessionInfo, ToSession};
pub(crate) use control::declarations as control_declarations;
pub(crate) use pending::{PendingCall, PendingTarget};
pub(crate) use positions::Positions;
pub(crate) use roles::{ChargedTo, RefHolder, Requester, Stop, ValueSource};
pub(crate) use state::{ClientConnection, SessionState};
pub(crate) use tables::{Callable, InvokedBy};
pub(crate) use time::Time;
pub(crate) use turn::BeginTurn;
pub(crate) use work::{
    Arguments, AwaitedPromise, CallValue, ContextFacts, Encoded, Settled, Settlement, Turn, TurnReport, Work,
};

/// The answer to a request of the client: its `result`, ready to be written, or the error.
pub(crate) type Answer = Result<Box<RawValue>, ErrorObject>;

/// A JavaScript value that is held from outside between turns, by its number in a table of its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct RootId(pub u32);

/// What a call of the script reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// The binding of the server with that number.
    Server(u32),
    /// A binding of the client.
    Client(String),
    /// A function of the client or of a handler.
    Function(FnRef),
}

impl CallTarget {
    /// Who holds the functions that a call brings.
    pub(crate) fn holder(&self) -> RefHolder {
        match self {
            Self::Server(_) | Self::Function(FnRef::Handler(_)) => RefHolder::Handler,
            Self::Client(_) | Self::Function(_) => RefHolder::Client,
        }
    }
}

/// What the driver is to do.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // Nearly all of them are messages; a box for each would cost more.
pub(crate) enum Effect {
    /// Send this to the host.
    Send(FromSession),
    /// Ask the running turn to end.
    StopTurn(Stop),
    /// Free these values as soon as the JavaScript stack is empty.
    FreeRoots(Vec<RootId>),
    /// Put a fresh context in the place of the present one, then apply [`Input::ContextReplaced`].
    ReplaceContext,
    /// Keep a copy of the heap under that number, then apply [`Input::CheckpointTaken`].
    TakeCheckpoint { number: u64 },
    /// Go on with the copy of that number, then apply [`Input::Rewound`].
    Rewind { number: u64 },
    /// Drop these copies.
    DropCheckpoints(Vec<u64>),
    /// Start a [fork](Session::fork), with a copy of the heap or that of a checkpoint; the host answers with
    /// [`ToSession::Forked`].
    Fork { request: u64, checkpoint: Option<u64> },
}

/// What happens to a session.
#[derive(Debug)]
pub(crate) enum Input {
    /// The host sent something.
    Message(ToSession),
    /// The running turn is suspended: what it asked for is sent.
    Suspended,
    /// The running turn is about to go on: its deadlines are checked.
    Resuming,
    /// A turn is over.
    TurnEnded(TurnReport),
    /// The context was replaced; `false` when there was no room for another one.
    ContextReplaced(bool),
    /// The heap was kept, in that many bytes.
    CheckpointTaken(Result<u64, ErrorObject>),
    /// The heap is that of the checkpoint.
    Rewound(Result<(), ErrorObject>),
    /// The time of a deadline has come.
    Tick,
    /// The thread of the session is taken out of service.
    Retired,
}

/// Returns the places of the top-level `await`s of a code: line and column, both from 1.
pub(crate) type FindAwaits = fn(&str) -> Vec<(u32, u32)>;

/// A session at work. See the module.
#[derive(Debug)]
pub(crate) struct Session {
    /// Everything that it is beside its heap.
    pub state: SessionState,
    limits: Arc<Limits>,
    now: Time,
    context: ContextFacts,
    effects: Vec<Effect>,
    /// For whom values were checked against schemas since the driver last asked.
    checked_for: Option<Option<ChargedTo>>,
    /// The request for a checkpoint whose heap is being written, and its label.
    checkpointing: Option<(InvokedBy, Option<String>)>,
    /// The request to go back to a checkpoint whose heap is being read.
    rewinding: Option<(InvokedBy, u64)>,
    /// Whether it is to be stored and to leave this process.
    is_suspending: bool,
    /// Finds where a code may wait, for the errors of one that waited too long; the parser is the runtime's.
    find_awaits: Option<FindAwaits>,
}

impl Session {
    /// Continues a session from its state.
    pub(crate) fn new(state: SessionState, limits: Arc<Limits>) -> Self {
        Self {
            state,
            limits,
            now: Time::default(),
            context: ContextFacts::default(),
            effects: Vec::new(),
            checked_for: None,
            checkpointing: None,
            rewinding: None,
            is_suspending: false,
            find_awaits: None,
        }
    }

    /// Says how to find where a code may wait.
    pub(crate) fn find_awaits_by(&mut self, find: FindAwaits) {
        self.find_awaits = Some(find);
    }

    /// Applies an input; the effects are [taken](Self::take_effects) afterwards.
    pub(crate) fn apply(&mut self, input: Input, now: Time) {
        self.now = now;
        match input {
            Input::Message(message) => self.accept(message),
            Input::Suspended => self.send_pending(),
            Input::Resuming => self.check_running_turn(),
            Input::TurnEnded(report) => self.end_turn(report),
            Input::ContextReplaced(is_replaced) => self.finish_replacement(is_replaced),
            Input::CheckpointTaken(outcome) => self.finish_checkpoint(outcome),
            Input::Rewound(outcome) => self.finish_rewind(outcome),
            Input::Tick => self.check_deadlines(),
            Input::Retired => self.end(Closing::Fault),
        }
    }

    /// What is to be done, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether there is anything to be done.
    #[cfg(test)]
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Says how the context stands.
    pub(crate) fn set_context(&mut self, facts: ContextFacts) {
        self.context = facts;
    }

    /// Whether it is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.ending.is_some()
    }

    /// For whom values were checked against schemas since this was last asked: the driver measures the time that it took
    /// and [charges](Self::charge_check) it.
    pub(crate) fn take_checked(&mut self) -> Option<Option<ChargedTo>> {
        self.checked_for.take()
    }

    fn accept(&mut self, message: ToSession) {
        match message {
            ToSession::Attach { connection, bindings, listed, schema_bytes } => {
                self.attach(ClientConnection::new(connection, bindings, listed, schema_bytes));
            }
            ToSession::Stalled { connection } => self.stall(connection),
            ToSession::Detach { connection } => self.detach(connection),
            ToSession::Client { connection, command, charge, admission } => {
                if self.is_accepted(connection) {
                    self.accept_command(connection, command, charge, admission);
                } else {
                    self.discharge(charge);
                    self.dequeue(charge, admission.has_slot);
                }
            }
            ToSession::HandlerDone { number, outcome } => self.finish_handler_call(number, outcome),
            ToSession::HandlerInvoke { request, target, payload, depth, script_call } => {
                let by = InvokedBy::Handler { request, script_call };
                self.invoke_for_handler(by, target, payload, depth);
            }
            ToSession::HandlerCancel { request } => self.cancel_handler_request(request),
            ToSession::HandlerRelease { function, count } => self.release_from_handler(&function, count),
            ToSession::Catalog(catalog) => self.change_catalog(catalog),
            ToSession::CpuQuota { exceeded, is_overdrawn } => self.set_cpu_quota(exceeded, is_overdrawn),
            ToSession::Inspect { request } => {
                let info = self.info();
                self.send(FromSession::Info { request, info });
            }
            ToSession::Forked { request, outcome } => self.finish_fork(request, outcome),
            ToSession::Suspend => self.request_suspension(),
            ToSession::End(closing) => self.end(closing),
        }
    }

    fn accept_command(
        &mut self,
        connection: u64,
        command: FromClient,
        charge: u64,
        admission: boundary::Admission,
    ) {
        match command {
            FromClient::Eval { request, params } => {
                self.accept_eval(Requester { connection, id: request, charge }, params, admission);
            }
            FromClient::Invoke { request, target, payload } => {
                let requester = Requester { connection, id: request, charge };
                self.invoke_for_client(requester, target, payload, admission);
            }
            FromClient::Answer { call, outcome } => self.accept_answer(call, outcome, charge),
            FromClient::Release { reference, count } => {
                self.release_from_client(&reference, count);
                self.discharge(charge);
            }
        }
    }

    fn send(&mut self, message: FromSession) {
        self.effects.push(Effect::Send(message));
    }

    /// Sends something to the client, if one is connected.
    fn send_event(&mut self, event: ToClient) {
        if let Some(client) = &self.state.client {
            let connection = client.number;
            self.send(FromSession::Client { connection, event });
        }
    }

    fn observe(&mut self, observation: Observation) {
        self.send(FromSession::Observed(observation));
    }

    fn observe_refusal(&mut self, reason: &str) {
        self.observe(Observation::Refused { reason: reason.to_owned() });
    }

    /// The bytes of a message are free again.
    fn discharge(&mut self, charge: u64) {
        if charge > 0 {
            self.send(FromSession::Discharge { charge, is_open: false });
        }
    }

    fn dequeue(&mut self, charge: u64, has_slot: bool) {
        if has_slot {
            self.send(FromSession::Dequeued { charge });
        }
    }

    fn next_number(&mut self) -> u64 {
        self.state.last_number += 1;
        self.state.last_number
    }

    /// Ends the session when the JavaScript stack is empty.
    fn end(&mut self, closing: Closing) {
        self.state.ending.get_or_insert(closing);
        if self.state.in_turn.is_some() {
            self.effects.push(Effect::StopTurn(Stop::Closed));
        }
    }

    /// Answers every request, then says that the session has ended. Only with an empty JavaScript stack.
    pub(crate) fn finish(&mut self, now: Time) {
        self.now = now;
        let closing = *self.state.ending.get_or_insert(Closing::Fault);
        // A server that stops cancels what runs; a client that closes its session knows what it does.
        let reason = if closing == Closing::GoingAway { Stop::Cancelled } else { Stop::Closed };
        self.cancel_everything(reason);
        self.refuse_waiting_requests();
        self.refuse_forks();
        self.answer_recovering();
        for (requester, answer) in self.state.client_calls.outbox.take_answers() {
            self.answer(requester, answer);
        }
        self.discharge_turn();
        self.drop_turns();
        let connection = self.state.connection();
        self.send(FromSession::Ended { connection, closing });
    }

    /// What it does and uses.
    pub(crate) fn info(&self) -> SessionInfo {
        let state = &self.state;
        SessionInfo {
            running: state.evals.running.is_some(),
            evals_queued: state.evals.queued(),
            evals_done: state.evals.done,
            memory_bytes: self.context.memory_bytes + state.schema_bytes(),
            cpu_ms: u64::try_from(state.cpu_total.as_millis()).unwrap_or(u64::MAX),
            calls_in_flight: state.script_calls.len(),
            timers: state.timers.len(),
            functions_held: state.references.held_by(RefHolder::Client),
            functions_imported: state.references.imports_len(),
        }
    }

    /// Counts CPU time that was used outside of turns, and reports it to the host.
    fn charge_cpu(&mut self, cpu: Duration) {
        self.state.cpu_total += cpu;
        self.send(FromSession::Used { cpu, slices: 0 });
    }
}
