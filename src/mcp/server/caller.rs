//! The request that calls a tool: whose it is, whether it was cancelled, and where its progress goes.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, sleep_until};

use super::execution::{Execution, cut};
use crate::binding::Principal;

/// How often progress is sent at most, so that a script that prints much does not flood its client.
const PROGRESS_EVERY_MIN: Duration = Duration::from_millis(200);

/// How often progress is sent without new output: clients that extend their timeout by it wait a minute or so.
const PROGRESS_EVERY_MAX: Duration = Duration::from_secs(10);

/// Bytes of the last line of the console in a progress notification.
const PROGRESS_BYTES_MAX: usize = 200;

/// A call of a tool.
pub(super) struct Caller {
    pub(super) principal: Arc<Principal>,
    pub(super) context: RequestContext<RoleServer>,
}

impl Caller {
    /// Whether the client cancelled the request.
    pub(super) fn is_cancelled(&self) -> bool {
        self.context.ct.is_cancelled()
    }

    /// Waits until the execution ends, the time is over, or the client cancels. Output goes to it as progress.
    pub(super) async fn wait_for(&self, execution: &Arc<Execution>, wait: Duration) {
        let until = Instant::now() + wait;
        let mut outcome_rx = execution.outcome();
        let mut progress = self.progress(execution);
        tokio::select! {
            _ended = outcome_rx.wait_for(Option::is_some) => {}
            () = sleep_until(until) => {}
            () = self.context.ct.cancelled() => {}
            () = progress.run() => {}
        }
    }

    fn progress(&self, execution: &Arc<Execution>) -> Progress {
        let token = self.context.meta.get_progress_token();
        let peer = self.context.peer.clone();
        Progress { token, peer, execution: Arc::clone(execution), sent: 0.0 }
    }
}

/// Sends progress of an execution to the client that wants it.
struct Progress {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    execution: Arc<Execution>,
    sent: f64,
}

impl Progress {
    /// Never returns.
    async fn run(&mut self) {
        let Some(token) = self.token.clone() else { return std::future::pending().await };
        let mut printed_rx = self.execution.session.printed();
        printed_rx.mark_unchanged();
        loop {
            let printed = tokio::time::timeout(PROGRESS_EVERY_MAX, printed_rx.changed()).await;
            self.sent += 1.0;
            let mut progress = ProgressNotificationParam::new(token.clone(), self.sent);
            let line = self.execution.session.last_line().filter(|_| printed.is_ok());
            if let Some(line) = line {
                progress = progress.with_message(cut(&line, PROGRESS_BYTES_MAX));
            }
            if self.peer.notify_progress(progress).await.is_err() || matches!(printed, Ok(Err(_))) {
                // The client, or the session, is gone; what is waited for ends by itself.
                return std::future::pending().await;
            }
            tokio::time::sleep(PROGRESS_EVERY_MIN).await;
        }
    }
}
