//! One execution: code that was sent to a session, and its outcome once there is one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::approvals::ApprovalRequest;
use super::session::Session;
use super::tables::ExecutionState;
use crate::client::{ClientError, EvalOutput, Pending};

/// Longest message and report of a failure that are kept: more than that helps no model.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
const REPORT_BYTES_MAX: usize = 16 << 10;

/// Beginning of a large value that is shown in its place.
const PREVIEW_BYTES_MAX: usize = 1 << 10;

/// Code that runs, or has run, in a session.
pub(super) struct Execution {
    pub(super) handle: String,
    pub(super) session: Arc<Session>,
    /// When it was started, as a task says it.
    pub(super) created_at: String,
    eval: OnceLock<u64>,
    /// Whether it was asked to end.
    is_cancelled: AtomicBool,
    /// Its calls that wait for a person and were returned to the client.
    shown: Mutex<HashSet<String>>,
    /// Its result as a task, once that was asked for.
    task_result: OnceLock<Value>,
    outcome_tx: watch::Sender<Option<Arc<Outcome>>>,
}

/// How an execution ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) result: Result<StoredValue, Failure>,
    ended_at: Instant,
}

/// The value of an execution. It is kept as text: a tree takes many times as much memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoredValue {
    Undefined,
    Text(String),
    /// Too large for a result; kept as an artifact.
    Artifact {
        id: String,
        bytes: usize,
        preview: String,
    },
}

/// Why an execution failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) message: String,
    /// What a model should see to repair its code.
    pub(super) report: String,
}

impl ExecutionState for Execution {
    fn session(&self) -> &str {
        &self.session.handle
    }

    fn ended_at(&self) -> Option<Instant> {
        self.outcome_tx.borrow().as_ref().map(|outcome| outcome.ended_at)
    }
}

impl Execution {
    pub(super) fn new(handle: String, session: Arc<Session>) -> Self {
        Self {
            handle,
            session,
            created_at: rmcp::task_manager::current_timestamp(),
            eval: OnceLock::new(),
            is_cancelled: AtomicBool::new(false),
            shown: Mutex::default(),
            task_result: OnceLock::new(),
            outcome_tx: watch::Sender::new(None),
        }
    }

    /// The id of its eval; 0 before it was sent, which no eval has.
    pub(super) fn eval(&self) -> u64 {
        self.eval.get().copied().unwrap_or_default()
    }

    /// Changes once, when it ends.
    pub(super) fn outcome(&self) -> watch::Receiver<Option<Arc<Outcome>>> {
        self.outcome_tx.subscribe()
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.outcome_tx.borrow().is_some()
    }

    /// Whether it ended because it was asked to.
    pub(super) fn is_cancelled(&self) -> bool {
        let kind = |outcome: &Arc<Outcome>| outcome.result.as_ref().err().map(|failure| failure.kind.clone());
        let ended_so =
            self.outcome_tx.borrow().as_ref().and_then(kind).is_some_and(|kind| kind == "Cancelled");
        ended_so && self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Its calls that wait for a person.
    pub(super) fn approvals(&self) -> Vec<ApprovalRequest> {
        self.session.approvals.pending_of(self.eval())
    }

    /// Those that the client does not know of yet.
    pub(super) fn has_new_approvals(&self) -> bool {
        let shown = self.shown.lock();
        self.approvals().iter().any(|request| !shown.contains(&request.id))
    }

    /// The client knows of these from now on.
    pub(super) fn mark_shown(&self, requests: &[ApprovalRequest]) {
        self.shown.lock().extend(requests.iter().map(|request| request.id.clone()));
    }

    /// Its result as a task; made once, so that it stays the same.
    pub(super) fn task_result(&self, make: impl FnOnce() -> Value) -> &Value {
        self.task_result.get_or_init(make)
    }

    /// Asks the session to end it.
    pub(super) async fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        // A failure shows in the outcome.
        let _ = self.session.client.cancel(Some(self.eval())).await;
    }

    /// It was sent; its id is known from now on.
    pub(super) fn on_sent(&self, pending: &Pending) {
        let _ = self.eval.set(pending.id());
    }

    /// Waits for its end. `keep` stores a value that is too large for a result and returns the id.
    pub(super) async fn run(
        &self,
        pending: Pending,
        value_bytes_max: usize,
        keep: impl FnOnce(String) -> String,
    ) {
        let result = match pending.await {
            Ok(output) => {
                self.session.on_answer(self.eval(), &output.console, output.console_dropped);
                Ok(store_value(output, value_bytes_max, keep))
            }
            Err(error) => {
                let dropped = data_of(&error, "consoleDropped").and_then(Value::as_u64).unwrap_or_default();
                self.session.on_answer(self.eval(), &error.console(), dropped);
                Err(describe(&error))
            }
        };
        self.outcome_tx.send_replace(Some(Arc::new(Outcome { result, ended_at: Instant::now() })));
    }
}

fn store_value(
    output: EvalOutput,
    value_bytes_max: usize,
    keep: impl FnOnce(String) -> String,
) -> StoredValue {
    if output.value.get("$undefined").is_some() {
        return StoredValue::Undefined;
    }
    let text = output.value.to_string();
    if text.len() <= value_bytes_max {
        return StoredValue::Text(text);
    }
    let (bytes, preview) = (text.len(), cut(&text, PREVIEW_BYTES_MAX).to_owned());
    StoredValue::Artifact { id: keep(text), bytes, preview }
}

fn data_of<'a>(error: &'a ClientError, field: &str) -> Option<&'a Value> {
    error.rpc()?.data.as_ref()?.get(field)
}

/// What is kept of an error: its kind, its message, and what a model should see.
fn describe(error: &ClientError) -> Failure {
    let (kind, message) = match error {
        ClientError::Closed { .. } | ClientError::SessionLost => (
            "SessionLost".to_owned(),
            format!("the session was lost ({error}). Call execute without `session` to start a new one."),
        ),
        ClientError::Rpc(error) => (error.kind().unwrap_or("Error").to_owned(), error.message.to_string()),
        other => (other.kind().to_owned(), other.to_string()),
    };
    let text_of = |field| data_of(error, field).and_then(Value::as_str).map(str::trim_end);
    let report = match (text_of("report"), text_of("stack")) {
        (Some(report), _) => report.to_owned(),
        (None, Some(stack)) if !stack.is_empty() => format!("{kind}: {message}\n{stack}"),
        (None, _) => format!("{kind}: {message}"),
    };
    Failure {
        kind,
        message: cut(&message, MESSAGE_BYTES_MAX).to_owned(),
        report: cut(&report, REPORT_BYTES_MAX).to_owned(),
    }
}

/// The beginning of `text`, at most `bytes_max` long, cut between characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{ErrorObject, Kind};
    use serde_json::json;

    fn output(value: Value) -> EvalOutput {
        EvalOutput { value, console: Vec::new(), console_dropped: 0, stats: None }
    }

    #[test]
    fn value_past_the_limit_becomes_an_artifact() {
        let keep = |_: String| "a_1".to_owned();
        assert_eq!(store_value(output(json!("abc")), 5, keep), StoredValue::Text("\"abc\"".to_owned()));
        let stored = store_value(output(json!("abcd")), 5, keep);
        assert_eq!(
            stored,
            StoredValue::Artifact { id: "a_1".into(), bytes: 6, preview: "\"abcd\"".to_owned() }
        );
        assert_eq!(store_value(output(json!({"$undefined": true})), 5, keep), StoredValue::Undefined);
    }

    #[test]
    fn report_of_the_server_comes_before_the_stack() {
        let error =
            || ErrorObject::new(Kind::EvalError, "TypeError: no").with("stack", json!("    at script:1:2\n"));
        let described = describe(&error().into());
        assert_eq!(described.report, "EvalError: TypeError: no\n    at script:1:2");
        let described = describe(&error().with("report", json!("do this instead")).into());
        assert_eq!((described.kind.as_str(), described.report.as_str()), ("EvalError", "do this instead"));
        let long = ErrorObject::new(Kind::EvalError, "x".repeat(2 * REPORT_BYTES_MAX));
        let described = describe(&long.into());
        assert_eq!((described.message.len(), described.report.len()), (MESSAGE_BYTES_MAX, REPORT_BYTES_MAX));
    }

    #[test]
    fn lost_session_says_what_to_do() {
        let failure = describe(&ClientError::Closed { code: 1006, reason: String::new() });
        assert_eq!(failure.kind, "SessionLost");
        assert!(failure.report.contains("without `session`"));
    }
}
