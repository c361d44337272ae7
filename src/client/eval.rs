//! The result of an eval, and the handle of a running one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::{Client, ClientError};

/// The outcome of an eval that went well.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalOutput {
    /// The value of the last expression, in its wire form.
    pub value: Value,
    /// What the script printed.
    #[serde(default)]
    pub console: Vec<ConsoleLine>,
    /// How many lines more it printed than were kept.
    #[serde(default)]
    pub console_dropped: u64,
    /// What it cost, if requested.
    #[serde(default)]
    pub stats: Option<EvalStats>,
}

/// One line of the script's console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleLine {
    /// `log`, `info`, `warn`, `error` or `debug`.
    pub level: String,
    /// As a terminal would show it.
    pub text: String,
    /// When, in milliseconds since the eval's start.
    #[serde(default)]
    pub at_ms: f64,
    /// Whether it came after the end of the eval that caused it.
    #[serde(default)]
    pub late: bool,
    /// The eval, for lines that come as they are printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_id: Option<Value>,
}

/// The input of `console.write`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ConsoleLines {
    Batch { entries: Vec<ConsoleLine> },
    One(ConsoleLine),
}

/// What an eval cost.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalStats {
    /// CPU time, in milliseconds.
    pub cpu_ms: f64,
    /// Time by the clock, in milliseconds.
    pub wall_ms: f64,
    /// Calls of bindings.
    pub binding_calls: u64,
    /// The session's heap at the end.
    pub memory_bytes: u64,
}

/// An eval that was sent. Awaiting it returns its outcome; dropping it does not end the eval, [`Self::cancel`] does.
#[derive(Debug)]
pub struct Pending {
    pub(super) client: Client,
    pub(super) id_rx: watch::Receiver<u64>,
    pub(super) answer_rx: oneshot::Receiver<Result<Value, ClientError>>,
}

impl Pending {
    /// Its JSON-RPC id on the current connection, as `session.cancel` takes it.
    pub fn id(&self) -> u64 {
        *self.id_rx.borrow()
    }

    /// Asks the server to end it; the outcome then is an error of kind `Cancelled`.
    pub async fn cancel(&self) -> Result<Value, ClientError> {
        self.client.cancel(Some(self.id())).await
    }
}

impl Future for Pending {
    type Output = Result<EvalOutput, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer_rx).poll(cx));
        Poll::Ready(match answer {
            Ok(outcome) => outcome.and_then(output),
            Err(_dropped) => Err(self.client.closed_error()),
        })
    }
}

fn output(result: Value) -> Result<EvalOutput, ClientError> {
    serde_json::from_value(result).map_err(|error| ClientError::Unexpected(error.to_string()))
}
