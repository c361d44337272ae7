//! The request that calls a tool: whose it is, whether it was cancelled, and where its progress goes.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::HOST;
use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken, ProtocolVersion};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, sleep_until};

use super::approvals::{ApprovalRequest, Decision};
use super::execution::{Execution, cut};
use super::follow::{answer_value, elicitation};
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

    /// How a person can be asked.
    pub(super) fn questions(&self) -> Questions {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        // Without a mode it is forms.
        let asks = capabilities.elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        match (asks, self.is_modern()) {
            (true, true) => Questions::AsResult,
            (true, false) => Questions::AsRequest,
            (false, _) if self.page().is_some() => Questions::OnPage,
            (false, _) => Questions::Refused,
        }
    }

    /// Whether the client speaks revision 2026-07-28 or a later one.
    fn is_modern(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// Whether the client looks after tasks.
    pub(super) fn follows_tasks(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// The page on which a person decides, by the name that the client has for this server.
    pub(super) fn page(&self) -> Option<String> {
        let parts = self.context.extensions.get::<Parts>()?;
        let page = parts.extensions.get::<ApprovalsPage>()?;
        let host = parts.headers.get(HOST)?.to_str().ok()?;
        Some(format!("{}://{host}{}", page.scheme, page.path))
    }

    /// Asks a person through the client; the answers decide. Ends early with the execution or the request.
    pub(super) async fn elicit(&self, execution: &Arc<Execution>, asked: &[ApprovalRequest]) {
        let approvals = &execution.session.approvals;
        for request in asked {
            let mut outcome_rx = execution.outcome();
            let decision = tokio::select! {
                answer = self.context.peer.create_elicitation(elicitation(request)) => match answer {
                    Ok(answer) => Decision::of_elicitation(&answer_value(&answer)),
                    Err(_gone) => Decision::deny("the user could not be asked"),
                },
                _ended = outcome_rx.wait_for(Option::is_some) => return,
                () = self.context.ct.cancelled() => return,
            };
            approvals.decide(&request.id, decision);
        }
    }

    /// Waits until the execution ends or asks, the time is over, or the client cancels. Output goes to it as progress.
    pub(super) async fn wait_for(&self, execution: &Arc<Execution>, until: Instant) {
        let mut outcome_rx = execution.outcome();
        let mut progress = self.progress(execution);
        tokio::select! {
            _ended = outcome_rx.wait_for(Option::is_some) => {}
            () = sleep_until(until) => {}
            () = self.context.ct.cancelled() => {}
            () = wait_for_questions(execution) => {}
            () = progress.run() => {}
        }
    }

    fn progress(&self, execution: &Arc<Execution>) -> Progress {
        let token = self.context.meta.get_progress_token();
        let peer = self.context.peer.clone();
        Progress { token, peer, execution: Arc::clone(execution), sent: 0.0 }
    }
}

/// Waits for a call that needs approval and that the client does not know of.
async fn wait_for_questions(execution: &Execution) {
    let mut changes_rx = execution.session.approvals.changes();
    while !execution.has_new_approvals() {
        if changes_rx.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Where calls that need approval are decided in a browser; in the extensions of a request over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalsPage {
    pub(crate) scheme: &'static str,
    pub(crate) path: &'static str,
}

/// How a person can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// The tool returns the question, and is called again with the answer.
    AsResult,
    /// The client is asked while the tool runs.
    AsRequest,
    /// On a page of the server.
    OnPage,
    /// Not at all.
    Refused,
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
        // Not only what is printed from now on: a line may have come before the wait.
        let mut printed_rx = self.execution.session.printed();
        loop {
            let printed = tokio::time::timeout(PROGRESS_EVERY_MAX, printed_rx.changed()).await;
            let line = self.execution.session.last_line().filter(|_| printed.is_ok());
            if line.is_none() && matches!(printed, Ok(Ok(()))) {
                // It was returned already.
                continue;
            }
            self.sent += 1.0;
            let mut progress = ProgressNotificationParam::new(token.clone(), self.sent);
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
