//! How a job reports its progress to its connection.

use serde_json::Value;
use tokio::sync::mpsc;

use super::machine::Progress;
use super::wire::Event;

/// The progress of the job with that number.
#[derive(Debug)]
pub(super) struct JobProgress {
    pub(super) job: u64,
    pub(super) progress: Progress,
}

/// The connection has ended, so the job can stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("client disconnected")]
pub(super) struct ClientGone;

/// Sends the progress of one job. Sending waits while the client reads slowly.
#[derive(Debug, Clone)]
pub(super) struct ProgressSender {
    pub(super) job: u64,
    pub(super) progress_tx: mpsc::Sender<JobProgress>,
}

impl ProgressSender {
    pub(super) async fn send_event(&self, event: Event) -> Result<(), ClientGone> {
        self.send(Progress::Event(event)).await
    }

    pub(super) async fn send_response(&self, outcome: Result<Value, String>) -> Result<(), ClientGone> {
        self.send(Progress::Response(outcome)).await
    }

    async fn send(&self, progress: Progress) -> Result<(), ClientGone> {
        let progress = JobProgress { job: self.job, progress };
        self.progress_tx.send(progress).await.map_err(|_| ClientGone)
    }
}
