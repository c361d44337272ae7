//! Waiting for an execution, with what it asks on the way: approvals of its calls.
//!
//! A person decides through the client where it can ask one: as a result that requires input in revision 2026-07-28, by an
//! elicitation in older ones. Otherwise the page of the server is named, and without a page the call is refused: the model
//! must not decide for itself.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolResponse, CreateTaskResult, DetailedTask, ElicitRequest, ElicitRequestParams, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, SealOptions, Task, TaskPayload,
    TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::approvals::{ApprovalRequest, Decision};
use super::caller::{Caller, Questions};
use super::error::ToolError;
use super::execution::Execution;
use super::gateway::{Account, Gateway};
use super::output::Report;
use crate::binding::Principal;

/// How long the state of a request that requires input is accepted: as long as the server waits for an approval.
const STATE_TTL: Duration = Duration::from_secs(600);

/// How often a client is to look at a task.
const POLL_INTERVAL_MS: u64 = 1_000;

/// Why a call is refused that no person can be asked about.
const CANNOT_ASK: &str = "it needs approval, and this MCP client cannot ask its user";

/// What a client sends back with its input.
#[derive(Debug, Serialize, Deserialize)]
struct RequestState {
    execution: String,
}

impl Gateway {
    /// Waits for an execution until its end, the end of the time, or a question.
    pub(super) async fn follow(
        &self,
        account: &Account,
        execution: &Arc<Execution>,
        wait: Duration,
        caller: &Caller,
    ) -> Result<CallToolResponse, ToolError> {
        let _permit = account.begin_wait(&self.config.settings)?;
        let until = Instant::now() + wait;
        loop {
            account.touch(&execution.session.handle);
            caller.wait_for(execution, until).await;
            let asked = execution.approvals();
            if execution.is_over() || caller.is_cancelled() || asked.is_empty() {
                break;
            }
            match caller.questions() {
                Questions::AsResult => return self.require_input(&caller.principal, execution, &asked),
                Questions::AsRequest => caller.elicit(execution, &asked).await,
                Questions::OnPage => {
                    execution.mark_shown(&asked);
                    break;
                }
                Questions::Refused => {
                    for request in &asked {
                        execution.session.approvals.decide(&request.id, Decision::deny(CANNOT_ASK));
                    }
                }
            }
        }
        account.touch(&execution.session.handle);
        Ok(self.report(account, execution, caller.page().as_deref()).into_result().into())
    }

    /// The state of an execution, with output that is new.
    fn report(&self, account: &Account, execution: &Arc<Execution>, page: Option<&str>) -> Report {
        // Before the output is taken: what it printed is complete when it is over.
        let outcome = execution.outcome().borrow().clone();
        let evals = account.running_evals(&execution.session.handle);
        let output = execution.session.take_output(
            execution.eval(),
            |eval| evals.contains(&eval),
            self.config.settings.console_bytes_max,
        );
        let approvals = if outcome.is_none() { execution.approvals() } else { Vec::new() };
        Report {
            session: execution.session.handle.clone(),
            execution: execution.handle.clone(),
            outcome,
            output,
            approvals,
            page: page.map(str::to_owned),
        }
    }

    fn require_input(
        &self,
        principal: &Principal,
        execution: &Arc<Execution>,
        asked: &[ApprovalRequest],
    ) -> Result<CallToolResponse, ToolError> {
        let state = RequestState { execution: execution.handle.clone() };
        let options = SealOptions::new().associated_data(principal.name.as_bytes()).ttl(STATE_TTL);
        let sealed = self.request_states.seal_json_with(&state, &options);
        let sealed = sealed.map_err(|error| ToolError::internal(&error))?;
        Ok(InputRequiredResult::new(Some(input_requests(asked)), Some(sealed)).into())
    }

    /// Continues a request that required input, with the answers to its questions.
    pub(super) async fn resume(
        &self,
        caller: &Caller,
        sealed: &str,
        answers: Option<InputResponses>,
        wait: Duration,
    ) -> Result<CallToolResponse, ToolError> {
        let opened = self.request_states.open_json_with(sealed, caller.principal.name.as_bytes());
        let RequestState { execution } = opened.map_err(|_any| ToolError::RequestState)?;
        let account = self.account(&caller.principal)?;
        let execution = account.execution(&execution)?;
        answer(&execution, answers.unwrap_or_default());
        self.follow(&account, &execution, wait, caller).await
    }

    /// An execution as a task, for a client that looks after tasks by itself.
    pub(super) fn create_task(&self, execution: &Execution) -> CallToolResponse {
        CreateTaskResult::new(self.task_of(execution, TaskStatus::Working)).into()
    }

    fn task_of(&self, execution: &Execution, status: TaskStatus) -> Task {
        let task = Task::new(
            &execution.handle,
            status,
            &execution.created_at,
            rmcp::task_manager::current_timestamp(),
        );
        task.with_ttl_ms(self.config.settings.execution_kept_ms).with_poll_interval_ms(POLL_INTERVAL_MS)
    }

    /// The state of a task.
    pub(super) fn task(&self, caller: &Caller, id: &str) -> Result<DetailedTask, ToolError> {
        let account = self.account(&caller.principal)?;
        let execution = account.execution(id)?;
        account.touch(&execution.session.handle);
        let asked = execution.approvals();
        let payload = if execution.is_cancelled() {
            TaskPayload::Cancelled
        } else if execution.is_over() {
            // Once: a later look must return the same, and the output is taken only once.
            let result = execution.task_result(|| {
                let result = self.report(&account, &execution, None).into_result();
                serde_json::to_value(result).unwrap_or_default()
            });
            TaskPayload::Completed { result: result.as_object().cloned().unwrap_or_default() }
        } else if asked.is_empty() {
            TaskPayload::Working
        } else {
            TaskPayload::InputRequired { input_requests: input_requests(&asked) }
        };
        let mut task = self.task_of(&execution, payload.status());
        task.status_message = execution.session.last_line();
        Ok(DetailedTask::new(task, payload))
    }

    /// Answers the questions of a task.
    pub(super) fn update_task(
        &self,
        caller: &Caller,
        id: &str,
        answers: InputResponses,
    ) -> Result<(), ToolError> {
        let execution = self.account(&caller.principal)?.execution(id)?;
        answer(&execution, answers);
        Ok(())
    }

    /// Ends a task.
    pub(super) async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<(), ToolError> {
        let execution = self.account(&caller.principal)?.execution(id)?;
        execution.cancel().await;
        Ok(())
    }
}

/// Decides over the calls of an execution; answers to others are ignored.
fn answer(execution: &Execution, answers: InputResponses) {
    for request in execution.approvals() {
        if let Some(answer) = answers.get(&request.id) {
            execution.session.approvals.decide(&request.id, Decision::of_elicitation(answer));
        }
    }
}

fn input_requests(asked: &[ApprovalRequest]) -> InputRequests {
    let request = |asked: &ApprovalRequest| InputRequest::Elicitation(ElicitRequest::new(elicitation(asked)));
    asked.iter().map(|asked| (asked.id.clone(), request(asked))).collect()
}

/// The question to a person.
pub(super) fn elicitation(asked: &ApprovalRequest) -> ElicitRequestParams {
    let effects =
        if asked.effects.is_empty() { String::new() } else { format!(" ({})", asked.effects.join(", ")) };
    let message = format!("A script wants to call {}{effects} with {}", asked.binding, asked.input);
    let properties = json!({
        "allow": {"type": "boolean", "title": "Allow this call"},
        "reason": {"type": "string", "title": "Reason, shown to the script"},
    });
    let schema = json!({"type": "object", "properties": properties, "required": ["allow"]});
    let requested_schema = serde_json::from_value::<ElicitationSchema>(schema);
    // The schema is a constant; a test reads it.
    let requested_schema =
        requested_schema.unwrap_or_else(|_| ElicitationSchema::new(std::collections::BTreeMap::new()));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// A JSON value of an elicitation's answer.
pub(super) fn answer_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
