//! Everything that a session is beside its JavaScript heap.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checkpoint::WaitingRequest;
use super::tables::{
    Background, Checkpoints, ClientCalls, Console, EvalQueue, Freed, HandlerCalls, Invocations, InvokedBy,
    KeyedOutcomes, References, Rejection, RunningEval, ScriptCalls, SourceMaps, Timers,
};
use super::{AwaitedPromise, ChargedTo, PendingCall, Requester, RootId, Time, Turn};
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::protocol::client_messages::Closing;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::names::CONSOLE_WRITE;
use crate::quota::QuotaExceeded;
use crate::rpc::ErrorObject;

/// The connection that holds a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientConnection {
    /// Higher than that of any connection before it.
    pub number: u64,
    /// What its client declares.
    pub bindings: Arc<Catalog>,
    /// The server's bindings as the client knows them.
    pub listed: Arc<Catalog>,
    /// Whether the client has not answered `bindings.changed` yet.
    pub is_announcing: bool,
    /// What the schemas of these bindings take.
    pub schema_bytes: usize,
}

impl ClientConnection {
    /// A connection that begins.
    pub(crate) fn new(
        number: u64,
        bindings: Arc<Catalog>,
        listed: Arc<Catalog>,
        schema_bytes: usize,
    ) -> Self {
        Self { number, bindings, listed, is_announcing: false, schema_bytes }
    }
}

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SessionState {
    /// The session's id.
    pub id: String,
    /// The name of the principal that owns it.
    pub principal: String,
    /// The server's bindings that scripts see.
    pub catalog: Arc<Catalog>,
    /// The server's bindings that scripts see from the next eval on.
    pub next_catalog: Option<Arc<Catalog>>,
    /// The connection that holds it.
    pub client: Option<ClientConnection>,
    /// The names of the last client's bindings: scripts have them until the next client comes.
    pub last_client_names: Arc<Catalog>,
    /// A connection to which nothing more is sent. What it sent before it ended may still be on its way.
    pub stalled: Option<u64>,
    /// The number of the latest connection that has taken it.
    pub last_connection: u64,
    /// The evals.
    pub evals: EvalQueue,
    /// The outcomes of keyed evals.
    pub keys: KeyedOutcomes,
    /// What needs an empty JavaScript stack.
    pub ready: VecDeque<Turn>,
    /// Background work that waits for the CPU quota of the principal.
    pub deferred: VecDeque<Turn>,
    /// Functions of the script at work.
    pub invocations: Invocations,
    /// Handlers at work.
    pub handler_calls: HandlerCalls,
    /// Calls to the client.
    pub client_calls: ClientCalls,
    /// Calls that the script waits for.
    pub script_calls: ScriptCalls,
    /// Calls that the script made in the running turn and that have not left the session.
    pub pending: Vec<PendingCall>,
    /// Promises that are awaited for evals and invocations.
    pub promises: Vec<AwaitedPromise>,
    /// Rejections that are to be reported unless they are handled.
    pub rejections: Vec<Rejection>,
    /// Functions that crossed.
    pub references: References,
    /// Functions of the outside that the script dropped since the last look.
    pub dropped_imports: Vec<FnRef>,
    /// Timers of the script.
    pub timers: Timers,
    /// Console lines.
    pub console: Console,
    /// Where places in stack traces were in the code as sent.
    pub source_maps: SourceMaps,
    /// Moments to go back to.
    pub checkpoints: Checkpoints,
    /// Requests for checkpoints and forks that wait for an empty JavaScript stack.
    pub waiting_requests: Vec<WaitingRequest>,
    /// Requests for forks that are being made, by the session's own numbers.
    pub forks: BTreeMap<u64, InvokedBy>,
    /// CPU time for what runs when no eval does.
    pub background: Background,
    /// The CPU quota that is used up, and until when.
    pub cpu_quota: Option<(QuotaExceeded, Time)>,
    /// CPU time used in all.
    pub cpu_total: Duration,
    /// For whom JavaScript is on the stack, running or suspended.
    pub in_turn: Option<ChargedTo>,
    /// Who paid for the last turn.
    pub last_payer: Option<ChargedTo>,
    /// How many invokes the running turn is inside of.
    pub depth: u32,
    /// Numbers of charged bytes that are free when the running turn is over.
    pub turn_charges: Vec<u64>,
    /// Whether a script has put something in the place of a binding.
    pub has_shadows: bool,
    /// Whether the context is to be replaced when the stack is empty.
    pub reset_requested: bool,
    /// What is being done about a memory limit.
    pub recovery: Recovery,
    /// Why the session is to end.
    pub ending: Option<Closing>,
    pub(super) last_number: u64,
}

/// What is being done about a memory limit, or for a reset.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) enum Recovery {
    /// Nothing.
    #[default]
    Idle,
    /// Memory is being freed.
    Freeing(Option<Box<StoppedEval>>),
    /// A fresh context is on its way.
    Replacing(Option<Box<StoppedEval>>),
}

impl Recovery {
    /// The eval that is answered when it is over.
    pub(super) fn stopped_eval(&mut self) -> Option<&mut RunningEval> {
        match self {
            Self::Freeing(stopped) | Self::Replacing(stopped) => Some(&mut stopped.as_mut()?.eval),
            Self::Idle => None,
        }
    }
}

/// An eval that ran into a memory limit and is answered when it is known what became of the context.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoppedEval {
    /// The eval.
    pub eval: RunningEval,
    /// Its error.
    pub error: ErrorObject,
}

impl SessionState {
    /// A fresh session.
    pub(crate) fn new(
        id: String,
        principal: String,
        catalog: Arc<Catalog>,
        limits: &Limits,
        now: Time,
    ) -> Self {
        let background = Duration::from_millis(limits.background_cpu_ms_per_minute);
        Self {
            id,
            principal,
            catalog,
            next_catalog: None,
            client: None,
            last_client_names: Arc::default(),
            stalled: None,
            last_connection: 0,
            evals: EvalQueue::new(limits.queued_evals_max, limits.connection_bytes_max.saturating_mul(2)),
            keys: KeyedOutcomes::new(limits.keyed_outcomes_max, limits.keyed_bytes_max),
            ready: VecDeque::new(),
            deferred: VecDeque::new(),
            invocations: Invocations::default(),
            handler_calls: HandlerCalls::default(),
            client_calls: ClientCalls::new(limits.client_calls_open_max),
            script_calls: ScriptCalls::default(),
            pending: Vec::new(),
            promises: Vec::new(),
            rejections: Vec::new(),
            references: References::new(limits.references_max),
            dropped_imports: Vec::new(),
            timers: Timers::new(limits.timers_max),
            console: Console::new(limits.console_bytes_max),
            source_maps: SourceMaps::default(),
            checkpoints: Checkpoints::default(),
            waiting_requests: Vec::new(),
            forks: BTreeMap::new(),
            background: Background::new(now, background),
            cpu_quota: None,
            cpu_total: Duration::ZERO,
            in_turn: None,
            last_payer: None,
            depth: 0,
            turn_charges: Vec::new(),
            has_shadows: false,
            reset_requested: false,
            recovery: Recovery::Idle,
            ending: None,
            last_number: 0,
        }
    }

    /// The number of the connection that holds it.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.client.as_ref().map(|client| client.number)
    }

    /// What the schemas of the client's bindings take.
    pub(super) fn schema_bytes(&self) -> u64 {
        self.client.as_ref().map_or(0, |client| client.schema_bytes as u64)
    }

    /// Whether the client wants console lines as they come.
    pub(super) fn streams_console(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.bindings.contains(CONSOLE_WRITE))
    }

    /// Whether it wants them in batches: the input that it declares has `entries`.
    pub(super) fn batches_console(&self) -> bool {
        let console = self.client.as_ref().and_then(|client| client.bindings.get(CONSOLE_WRITE));
        let input = console.and_then(|binding| binding.declaration.input.as_ref());
        input.is_some_and(|input| input.pointer("/properties/entries").is_some())
    }

    /// The requests of the eval with that key: one that runs, waits, or hit a memory limit and is not answered yet.
    pub(super) fn requesters_of(&mut self, key: &str) -> Option<&mut Vec<Requester>> {
        match self.recovery.stopped_eval() {
            Some(eval) if eval.params.key.as_deref() == Some(key) => Some(&mut eval.requesters),
            Some(_) | None => self.evals.requesters_of(key),
        }
    }

    /// Splits what was freed into roots of the context and functions of handlers.
    pub(super) fn split_freed(freed: Vec<Freed>) -> (Vec<RootId>, Vec<u64>) {
        let mut roots = Vec::new();
        let mut functions = Vec::new();
        for freed in freed {
            match freed {
                Freed::Root(root) => roots.push(root),
                Freed::Handler(number) => functions.push(number),
            }
        }
        (roots, functions)
    }
}
