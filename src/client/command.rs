//! What the handles of a client send to its task, and who waits for the answer.

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::ClientError;
use super::handler::Handler;
use crate::protocol::methods::{EvalParams, InvokeParams};

/// Commands that wait for the task before their senders wait.
pub(super) const COMMANDS_QUEUED_MAX: usize = 64;

/// Evals, and calls, that the server has at the same time; further ones wait in their callers. Together they stay below
/// what the server accepts from one connection, with room to close the session.
pub(super) const EVALS_OPEN_MAX: usize = 512;
pub(super) const CALLS_OPEN_MAX: usize = 500;

/// From a handle to the task.
pub(super) enum Command {
    /// Send a request.
    Request { call: Call, waiter: Waiter },
    /// Name a function, so that it can be part of a value.
    Export { name: String, handler: Handler, value_tx: oneshot::Sender<Result<Value, ClientError>> },
}

/// What is requested.
pub(super) enum Call {
    Eval(EvalParams),
    /// On a certain connection only, if it concerns a reference.
    Invoke {
        params: InvokeParams,
        connection: Option<u64>,
    },
}

/// The caller that waits for an answer.
pub(super) struct Waiter {
    answer_tx: oneshot::Sender<Result<Value, ClientError>>,
    /// Gets the id of an eval, which changes when it is sent again.
    pub(super) id_tx: Option<watch::Sender<u64>>,
    /// An eval that may be sent again, because its key makes it run once.
    pub(super) keyed: Option<EvalParams>,
    /// Its place among the requests that the server has.
    _place: Option<OwnedSemaphorePermit>,
}

impl Waiter {
    pub(super) fn new(
        answer_tx: oneshot::Sender<Result<Value, ClientError>>,
        id_tx: Option<watch::Sender<u64>>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { answer_tx, id_tx, keyed: None, _place: place }
    }

    /// For a request whose answer is not looked at.
    pub(super) fn detached() -> Self {
        Self::new(oneshot::channel().0, None, None)
    }

    pub(super) fn id(&self) -> Option<u64> {
        self.id_tx.as_ref().map(|id_tx| *id_tx.borrow())
    }

    pub(super) fn settle(self, outcome: Result<Value, ClientError>) {
        // The caller may have stopped waiting.
        let _ = self.answer_tx.send(outcome);
    }
}
