//! What passes between a session and the rest of the server: two enums that can travel between processes.
//!
//! A session knows scripts. Its host knows connections, handlers, quotas and logs. Neither calls into the other, and
//! nothing else crosses. Requests of the client are named by connection and JSON-RPC id, calls of the session by numbers
//! of the session's own, requests of handlers and charged bytes by numbers of the host's own.

#![allow(missing_docs)] // The fields of variants are named by what they are.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Catalog;
use crate::protocol::client_messages::{Closing, FromClient, ToClient};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::{Payload, RawPayload};
use crate::quota::QuotaExceeded;
use crate::rpc::ErrorObject;

/// From the host to a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ToSession {
    /// A connection takes the session, from another one if need be. Answered by [`FromSession::Attached`].
    Attach {
        /// Higher than that of any connection before it.
        connection: u64,
        /// The bindings that its client declares.
        bindings: Arc<Catalog>,
        /// The server's bindings that its handshake lists.
        listed: Arc<Catalog>,
        /// What the schemas of these bindings take, of the connection's budget.
        schema_bytes: usize,
    },
    /// A connection reads too slowly: nothing more is sent to it, but what it has sent is still accepted.
    Stalled { connection: u64 },
    /// A connection is gone.
    Detach { connection: u64 },
    /// A message of a client.
    Client {
        connection: u64,
        command: FromClient,
        /// The host's number for the bytes charged for it; 0 for none.
        charge: u64,
        admission: Admission,
    },
    /// The answer to [`FromSession::CallHandler`].
    HandlerDone { number: u64, outcome: Result<Value, ErrorObject> },
    /// A handler calls a binding or a function. Answered by [`FromSession::HandlerAnswered`].
    HandlerInvoke {
        request: u64,
        target: InvokeTarget,
        payload: Payload,
        /// How many invokes it is inside of.
        depth: u32,
        /// The script's call that the handler serves.
        script_call: Option<u64>,
    },
    /// A handler does not wait for its request any more.
    HandlerCancel { request: u64 },
    /// A handler dropped a function that it had received `count` times.
    HandlerRelease { function: FnRef, count: u64 },
    /// The server's bindings changed; scripts see it from their next eval on.
    Catalog(Arc<Catalog>),
    /// The CPU quota of the principal is used up for now.
    CpuQuota {
        exceeded: QuotaExceeded,
        /// Whether it is overdrawn so far that the running turn is to stop.
        is_overdrawn: bool,
    },
    /// Answered by [`FromSession::Info`].
    Inspect { request: u64 },
    /// A fork of the session is there, under the id and token in its value, or could not be made.
    Forked { request: u64, outcome: Result<Value, ErrorObject> },
    /// The session is to be stored and to leave this process. Answered by [`FromSession::Suspended`], or by
    /// [`FromSession::Ended`] where it is not worth storing or cannot be stored.
    Suspend,
    /// The session is to end. Answered by [`FromSession::Ended`].
    End(Closing),
}

/// What the quotas of the principal said when the host passed a message on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Admission {
    /// CPU time is used up.
    pub cpu: Option<QuotaExceeded>,
    /// Too many evals of the principal wait: refused if this one would have to wait too.
    pub queue: Option<QuotaExceeded>,
    /// Whether the host counts the eval as one that waits, until [`FromSession::Dequeued`].
    pub has_slot: bool,
}

/// What a handler invokes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InvokeTarget {
    /// A binding of the server or of the client, by its name.
    Binding(String),
    /// A function.
    Function(FnRef),
}

/// From a session to its host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum FromSession {
    /// The connection holds the session.
    Attached {
        connection: u64,
        /// Evals that wait or run.
        evals_queued: usize,
    },
    /// Something for a client.
    Client { connection: u64, event: ToClient },
    /// A handler is to work. Answered by [`ToSession::HandlerDone`].
    CallHandler(HandlerCall),
    /// The answer of a handler is not awaited any more.
    CancelHandler { number: u64 },
    /// The answer to [`ToSession::HandlerInvoke`].
    HandlerAnswered { request: u64, outcome: Result<Value, ErrorObject> },
    /// Functions of a handler are not held by the script or the client any more.
    ReleaseFunctions(Vec<u64>),
    /// A message of a client takes no more memory.
    Discharge {
        charge: u64,
        /// Whether the request itself is still open, and only its text was dropped.
        is_open: bool,
    },
    /// An eval that the host counts as waiting does not wait any more.
    Dequeued { charge: u64 },
    /// CPU time that was used, in that many slices.
    Used { cpu: Duration, slices: u32 },
    /// Something for the metrics.
    Observed(Observation),
    /// The answer to [`ToSession::Inspect`].
    Info { request: u64, info: SessionInfo },
    /// The session was stored and goes on elsewhere; nothing comes after this. Its connection is to be closed.
    Suspended { connection: Option<u64> },
    /// The session has ended; nothing comes after this. Its connection is to be closed.
    Ended { connection: Option<u64>, closing: Closing },
}

/// A call of a server binding or of a handler's function.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HandlerCall {
    /// Names the call in its answer.
    pub number: u64,
    /// What is called.
    pub target: HandlerTarget,
    /// With what.
    pub input: HandlerInput,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// The number of the eval that it is made for.
    pub eval: Option<u64>,
    /// The JSON-RPC id of that eval.
    pub eval_id: Option<Value>,
    /// The script's call on whose behalf it is made.
    pub script_call: Option<u64>,
}

/// What a handler call reaches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum HandlerTarget {
    /// The server's binding of that number.
    Binding(u32),
    /// The handler's function of that number.
    Function(u64),
    /// The list of these bindings: what fits a query, or all of them as TypeScript. It may take long, so it is written
    /// beside the session.
    Describe { server: Arc<Catalog>, client: Arc<Catalog>, query: Option<String> },
    /// The bindings of these names and in these namespaces: as TypeScript, or briefly as a line each. No names are an
    /// overview.
    DescribeNames { server: Arc<Catalog>, client: Arc<Catalog>, names: Vec<String>, is_brief: bool },
}

/// What a handler is called with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum HandlerInput {
    /// By the script, or by a handler on its behalf. A function gets a list.
    Value {
        value: Value,
        /// The functions in it, each received once by the handler.
        functions: Vec<FnRef>,
    },
    /// By the client, as it was sent. It becomes a value where the handler runs, at the expense of `charge`.
    Text {
        payload: RawPayload,
        /// Whose functions are in it.
        connection: u64,
        charge: u64,
    },
}

/// What a session counts; the host adds it up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Observation {
    /// An eval ended.
    EvalFinished {
        number: u64,
        /// The kind of its error, if it failed.
        error: Option<ErrorObject>,
        took: Duration,
    },
    /// A call of the client's bindings and functions ended.
    ClientCalled { error: Option<ErrorObject> },
    /// Live references of the session, and its evals that wait.
    Levels { references: usize, evals_queued: usize },
    /// A request was refused.
    Refused { reason: String },
    /// The heap of the session left memory; its image takes that many bytes.
    Hibernated { bytes: u64 },
    /// The session has a heap in memory again: its own, after that time, or without one a fresh one.
    Woken { took: Option<Duration> },
}

/// A session's state for the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Whether an eval runs.
    pub running: bool,
    /// Evals that wait.
    pub evals_queued: usize,
    /// Evals that ran.
    pub evals_done: u64,
    /// Bytes of the JavaScript heap.
    pub memory_bytes: u64,
    /// CPU time used in all.
    pub cpu_ms: u64,
    /// Binding calls in flight.
    pub calls_in_flight: usize,
    /// Pending timers.
    pub timers: usize,
    /// Functions of the script that the client holds.
    pub functions_held: usize,
    /// Functions of the client that the script holds.
    pub functions_imported: usize,
}

#[cfg(test)]
mod tests;
