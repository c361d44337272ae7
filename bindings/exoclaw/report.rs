//! How a job tells its connection how far it is.

use serde_json::Value;
use tokio::sync::mpsc;

use super::machine::Progress;
use super::wire::Event;

/// What a connection is told: how far its job of that number is.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) job: u64,
    pub(super) progress: Progress,
}

/// The connection is gone, and with it the reason to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client is gone")]
pub(super) struct ClientGone;

/// The way from a job to its connection. A connection that reads slowly makes the job wait.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) job: u64,
    pub(super) progress_tx: mpsc::Sender<Reported>,
}

impl Report {
    pub(super) async fn event(&self, event: Event) -> Result<(), ClientGone> {
        self.send(Progress::Event(event)).await
    }

    pub(super) async fn answer(&self, outcome: Result<Value, String>) -> Result<(), ClientGone> {
        self.send(Progress::Answer(outcome)).await
    }

    async fn send(&self, progress: Progress) -> Result<(), ClientGone> {
        let reported = Reported { job: self.job, progress };
        self.progress_tx.send(reported).await.map_err(|_| ClientGone)
    }
}
