//! A chat of a script with a gateway: its own connection, its events as they come, and what they amount to.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::caller::{Caller, Command};
use super::machine::Answer;
use crate::binding::{BindingError, FunctionRef};
use crate::bindings::exoclaw::wire::{Event, ToolResult, ToolUse, Usage};
use crate::peering::{Disconnect, LinkState, commands, pump};
use crate::protocol::plain::from_plain;
use crate::rpc::Kind;
use crate::transport;

/// How long the connection of a chat may take to be made.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Events that wait for a script to take them. A gateway that sends more meanwhile is cut off.
const EVENTS_QUEUED_MAX: usize = 1024;

/// How long `done` may take after an error. Some gateways end a stream with the error.
const DONE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Tool calls that the outcome tells of. The events tell of all.
const TOOL_CALLS_TOLD_MAX: usize = 1000;

/// Longest text of the outcome: what a call of a binding may give back. The events tell of all.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// What a chat came to.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    text: String,
    usage: Usage,
    tool_calls: Vec<ToolCall>,
    /// What went wrong, if anything did.
    error: Option<String>,
}

/// A tool that the agent called.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall {
    id: String,
    name: String,
    input: Value,
    /// Absent if the agent was never told.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    is_error: bool,
}

impl Outcome {
    /// Adds an event. Those that are not known, or not as they should be, are the script's business alone.
    fn add(&mut self, event: &str, data: Option<&Value>) {
        match Event::read(event, data.cloned().unwrap_or_default()) {
            Ok(Event::Text(text)) if self.text.len() + text.len() <= TEXT_BYTES_MAX => {
                self.text.push_str(&text)
            }
            Ok(Event::ToolUse(ToolUse { id, input, name }))
                if self.tool_calls.len() < TOOL_CALLS_TOLD_MAX =>
            {
                self.tool_calls.push(ToolCall {
                    id,
                    name,
                    input: from_plain(input),
                    result: None,
                    is_error: false,
                });
            }
            Ok(Event::ToolResult(ToolResult { content, is_error, tool_use_id })) => {
                // Ids may come again in a later round, so the last call of that id is meant.
                let call = self.tool_calls.iter_mut().rev().find(|call| call.id == tool_use_id);
                if let Some(call) = call {
                    (call.result, call.is_error) = (Some(content), is_error);
                }
            }
            Ok(Event::Usage(usage)) => self.usage = self.usage.plus(usage),
            Ok(Event::Error(error)) => self.error = Some(error),
            Ok(Event::Text(_) | Event::ToolUse(_) | Event::Done) | Err(_) => {}
        }
    }
}

impl Gateway {
    /// Sends a message and waits for the end of its answer. Dropping the future ends the connection, and so the chat.
    pub(crate) async fn chat(
        self: Arc<Self>,
        params: Value,
        on_event: Option<FunctionRef>,
        depth: u32,
    ) -> Result<Outcome, BindingError> {
        if let LinkState::GivenUp { reason } = self.link.state() {
            return Err(self.unreachable(&reason));
        }
        let Ok(_slot) = Arc::clone(&self.chats).try_acquire_owned() else {
            let message = format!("{}: too many chats at once", self.name);
            return Err(BindingError::of_kind(Kind::Busy, message));
        };
        let dialled = timeout(CONNECT_WAIT_MAX, transport::dial(&self.dial)).await;
        let dialled = dialled.map_err(|_| self.unreachable("no answer in time"))?;
        let mut transport = dialled.map_err(|error| self.unreachable(&error.to_string()))?;
        let (answers_tx, answers_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        let (commands_tx, mut commands_rx) = commands();
        // The channel is empty, so this cannot fail.
        let _ = commands_tx.try_send(Command { method: "chat.send", params: Some(params), answers_tx });
        let (mut caller, stop) = (Caller::new(&self.name, self.token.clone()), CancellationToken::new());
        let listening = async {
            let outcome = listen(answers_rx, on_event, depth).await;
            stop.cancel();
            outcome
        };
        let pumping = pump(&mut transport, &mut caller, &mut commands_rx, &stop);
        let (outcome, parting) = tokio::join!(listening, pumping);
        match outcome? {
            Ended::Complete(outcome) => Ok(outcome),
            // What the gateway has said counts, and was paid for.
            Ended::CutOff(outcome) => {
                let error = format!("{}: {}", self.name, lost(&parting));
                Ok(Outcome { error: Some(error), ..outcome })
            }
            Ended::BeforeItBegan => Err(self.unreachable(&lost(&parting))),
        }
    }
}

fn lost(parting: &Disconnect) -> String {
    match parting {
        Disconnect::GiveUp { reason } | Disconnect::Close { reason, .. } => reason.clone(),
        Disconnect::Closed { code, reason } => format!("closed with {code} {reason}"),
        Disconnect::Gone => "the connection was lost".to_owned(),
    }
}

/// How the events of a chat ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Complete(Outcome),
    /// The connection ended in the middle of the stream.
    CutOff(Outcome),
    /// The connection ended before the first event.
    BeforeItBegan,
}

/// Takes the events to the end of the stream, or of the connection.
async fn listen(
    mut answers_rx: mpsc::Receiver<Answer>,
    on_event: Option<FunctionRef>,
    depth: u32,
) -> Result<Ended, BindingError> {
    let mut outcome = Outcome::default();
    let mut has_begun = false;
    loop {
        let next = if outcome.error.is_some() {
            timeout(DONE_WAIT_MAX, answers_rx.recv()).await.unwrap_or_default()
        } else {
            answers_rx.recv().await
        };
        match next {
            Some(Answer::Outcome(Err(error))) => {
                return Ok(Ended::Complete(Outcome { error: Some(error), ..outcome }));
            }
            Some(Answer::Outcome(Ok(_))) => return Ok(Ended::Complete(outcome)),
            Some(Answer::Event { event, data }) => {
                has_begun = true;
                outcome.add(&event, data.as_ref());
                if let Some(function) = &on_event {
                    let told = json!({"event": event, "data": data.map(from_plain)});
                    function.call(vec![told], depth).await?;
                }
                if event == "done" {
                    return Ok(Ended::Complete(outcome));
                }
            }
            // How the connection ended says why, unless the gateway did.
            Some(Answer::Lost(_)) | None if outcome.error.is_some() => return Ok(Ended::Complete(outcome)),
            Some(Answer::Lost(_)) | None if has_begun => return Ok(Ended::CutOff(outcome)),
            Some(Answer::Lost(_)) | None => return Ok(Ended::BeforeItBegan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: Value) -> Answer {
        Answer::Event { event: name.to_owned(), data: Some(data) }
    }

    async fn heard(answers: Vec<Answer>) -> Ended {
        let (answers_tx, answers_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        for answer in answers {
            answers_tx.send(answer).await.unwrap();
        }
        drop(answers_tx);
        listen(answers_rx, None, 0).await.unwrap()
    }

    #[tokio::test]
    async fn events_add_up_to_an_outcome() {
        let tool = json!({"id": "c", "name": "echo", "input": {"m": 1}});
        let result = json!({"tool_use_id": "c", "content": "hi", "is_error": false});
        let usage = json!({"input_tokens": 10, "output_tokens": 2});
        let outcome = heard(vec![
            event("text", json!("a")),
            event("tool_use", tool),
            event("usage", usage.clone()),
            event("tool_result", result),
            event("new", json!({})),
            event("text", json!("b")),
            event("usage", usage),
            event("done", Value::Null),
        ])
        .await;
        let Ended::Complete(outcome) = outcome else { panic!("{outcome:?}") };
        let expected = json!({
            "text": "ab", "usage": {"input_tokens": 20, "output_tokens": 4}, "error": null,
            "toolCalls": [{"id": "c", "name": "echo", "input": {"m": 1}, "result": "hi", "isError": false}],
        });
        assert_eq!(json!(outcome), expected);
    }

    #[tokio::test]
    async fn refusal_is_an_outcome_and_a_lost_connection_keeps_the_text_so_far() {
        let refused = heard(vec![Answer::Outcome(Err("no".to_owned()))]).await;
        assert_eq!(refused, Ended::Complete(Outcome { error: Some("no".to_owned()), ..Outcome::default() }));
        let said = Outcome { text: "a".to_owned(), ..Outcome::default() };
        assert_eq!(heard(vec![event("text", json!("a"))]).await, Ended::CutOff(said));
        assert_eq!(heard(Vec::new()).await, Ended::BeforeItBegan);
        assert_eq!(heard(vec![Answer::Lost("no hello".to_owned())]).await, Ended::BeforeItBegan);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_the_chat_even_if_no_done_follows() {
        let (answers_tx, answers_rx) = mpsc::channel(1);
        answers_tx.send(event("error", json!("boom"))).await.unwrap();
        let ended = listen(answers_rx, None, 0).await.unwrap();
        let failed = Outcome { error: Some("boom".to_owned()), ..Outcome::default() };
        assert_eq!(ended, Ended::Complete(failed));
        drop(answers_tx);
    }

    #[test]
    fn the_text_of_the_outcome_has_a_longest_length() {
        let mut outcome = Outcome::default();
        outcome.add("text", Some(&json!("x".repeat(TEXT_BYTES_MAX))));
        assert_eq!(outcome.text.len(), TEXT_BYTES_MAX);
        outcome.add("text", Some(&json!("x")));
        assert_eq!(outcome.text.len(), TEXT_BYTES_MAX);
    }

    #[tokio::test]
    async fn the_outcome_tells_of_so_many_tools_and_no_more() {
        let tool = |n: usize| event("tool_use", json!({"id": n.to_string(), "name": "t", "input": {}}));
        let mut outcome = Outcome::default();
        for n in 0..=TOOL_CALLS_TOLD_MAX {
            let Answer::Event { event, data } = tool(n) else { panic!("an event") };
            outcome.add(&event, data.as_ref());
            assert_eq!(outcome.tool_calls.len(), (n + 1).min(TOOL_CALLS_TOLD_MAX));
        }
    }
}
