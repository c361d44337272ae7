//! A chat of a script with a remote gateway: opens its connection, passes on its events, and
//! collects the result.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::RemoteGateway;
use super::connection::{Command, GatewayConnection};
use super::machine::Answer;
use crate::binding::{BindingError, FunctionRef};
use crate::bindings::exoclaw::wire::{Event, ToolResult, ToolUse, Usage};
use crate::peering::{Disconnect, LinkState, commands, pump};
use crate::protocol::plain::from_plain;
use crate::rpc::Kind;
use crate::transport;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most events that wait for a script. If a gateway sends more, its connection is closed.
const EVENTS_QUEUED_MAX: usize = 1024;

/// How long to wait for `done` after an error event. Some gateways do not send it.
const DONE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most tool calls in the result. `onEvent` gets all of them.
const TOOL_CALLS_LISTED_MAX: usize = 1000;

/// Longest text in the result, the limit for the output of a binding. `onEvent` gets all of it.
const TEXT_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatResult {
    text: String,
    usage: Usage,
    tool_calls: Vec<ToolCall>,
    error: Option<String>,
}

/// A tool call by the agent.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall {
    id: String,
    name: String,
    input: Value,
    /// Absent if no result arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    is_error: bool,
}

impl ChatResult {
    /// Ignores unknown and invalid events, which only `onEvent` gets.
    fn add_event(&mut self, event: &str, data: Option<&Value>) {
        match Event::parse(event, data.cloned().unwrap_or_default()) {
            Ok(Event::Text(text)) if self.text.len() + text.len() <= TEXT_BYTES_MAX => {
                self.text.push_str(&text)
            }
            Ok(Event::ToolUse(ToolUse { id, input, name }))
                if self.tool_calls.len() < TOOL_CALLS_LISTED_MAX =>
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
                // Agents may reuse ids, so the result belongs to the last call with that id.
                let call = self.tool_calls.iter_mut().rev().find(|call| call.id == tool_use_id);
                if let Some(call) = call {
                    (call.result, call.is_error) = (Some(content), is_error);
                }
            }
            Ok(Event::Usage(usage)) => self.usage = self.usage.saturating_add(usage),
            Ok(Event::Error(error)) => self.error = Some(error),
            Ok(Event::Text(_) | Event::ToolUse(_) | Event::Done) | Err(_) => {}
        }
    }
}

impl RemoteGateway {
    /// Sends a message and waits for the end of its answer. Dropping the future closes the
    /// connection, which ends the chat.
    pub(crate) async fn chat(
        self: Arc<Self>,
        params: Value,
        on_event: Option<FunctionRef>,
        depth: u32,
    ) -> Result<ChatResult, BindingError> {
        if let LinkState::GivenUp { reason } = self.link.state() {
            return Err(self.peer_gone(&reason));
        }
        let Ok(_permit) = Arc::clone(&self.chats).try_acquire_owned() else {
            let message = format!("{}: too many concurrent chats", self.name);
            return Err(BindingError::of_kind(Kind::Busy, message));
        };
        let dialed = timeout(CONNECT_TIMEOUT, transport::dial(&self.dial)).await;
        let dialed = dialed.map_err(|_| self.peer_gone("connecting timed out"))?;
        let mut transport = dialed.map_err(|error| self.peer_gone(&error.to_string()))?;
        let (answers_tx, answers_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        let (commands_tx, mut commands_rx) = commands();
        // The channel is empty, so this cannot fail.
        let _ = commands_tx.try_send(Command { method: "chat.send", params: Some(params), answers_tx });
        let mut connection = GatewayConnection::new(&self.name, self.token.clone());
        let stop = CancellationToken::new();
        let collect = async {
            let end = collect_events(answers_rx, on_event, depth).await;
            stop.cancel();
            end
        };
        let serve = pump(&mut transport, &mut connection, &mut commands_rx, &stop);
        let (end, disconnect) = tokio::join!(collect, serve);
        match end? {
            ChatEnd::Complete(result) => Ok(result),
            // The text so far is useful, and its tokens were used.
            ChatEnd::Interrupted(result) => {
                let error = format!("{}: {}", self.name, describe_disconnect(&disconnect));
                Ok(ChatResult { error: Some(error), ..result })
            }
            ChatEnd::NotStarted => Err(self.peer_gone(&describe_disconnect(&disconnect))),
        }
    }
}

fn describe_disconnect(disconnect: &Disconnect) -> String {
    match disconnect {
        Disconnect::GiveUp { reason } | Disconnect::Close { reason, .. } => reason.clone(),
        Disconnect::Closed { code, reason } => format!("closed with {code} {reason}"),
        Disconnect::Gone => "the connection was lost".to_owned(),
    }
}

/// How the events of a chat ended.
#[derive(Debug, PartialEq)]
enum ChatEnd {
    Complete(ChatResult),
    /// The connection ended in the middle of the stream.
    Interrupted(ChatResult),
    /// The connection ended before the first event.
    NotStarted,
}

/// Reads the events up to the end of the stream or of the connection, and passes them to
/// `on_event`.
async fn collect_events(
    mut answers_rx: mpsc::Receiver<Answer>,
    on_event: Option<FunctionRef>,
    depth: u32,
) -> Result<ChatEnd, BindingError> {
    let mut result = ChatResult::default();
    let mut has_events = false;
    loop {
        let next = if result.error.is_some() {
            timeout(DONE_TIMEOUT, answers_rx.recv()).await.unwrap_or_default()
        } else {
            answers_rx.recv().await
        };
        match next {
            Some(Answer::Response(Err(error))) => {
                return Ok(ChatEnd::Complete(ChatResult { error: Some(error), ..result }));
            }
            Some(Answer::Response(Ok(_))) => return Ok(ChatEnd::Complete(result)),
            Some(Answer::Event { event, data }) => {
                has_events = true;
                result.add_event(&event, data.as_ref());
                if let Some(function) = &on_event {
                    let argument = json!({"event": event, "data": data.map(from_plain)});
                    function.call(vec![argument], depth).await?;
                }
                if event == "done" {
                    return Ok(ChatEnd::Complete(result));
                }
            }
            // An error from the gateway takes precedence over the end of the connection.
            Some(Answer::Lost(_)) | None if result.error.is_some() => return Ok(ChatEnd::Complete(result)),
            Some(Answer::Lost(_)) | None if has_events => return Ok(ChatEnd::Interrupted(result)),
            Some(Answer::Lost(_)) | None => return Ok(ChatEnd::NotStarted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: Value) -> Answer {
        Answer::Event { event: name.to_owned(), data: Some(data) }
    }

    async fn collect(answers: Vec<Answer>) -> ChatEnd {
        let (answers_tx, answers_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        for answer in answers {
            answers_tx.send(answer).await.unwrap();
        }
        drop(answers_tx);
        collect_events(answers_rx, None, 0).await.unwrap()
    }

    #[tokio::test]
    async fn events_are_collected_into_the_result() {
        let tool = json!({"id": "c", "name": "echo", "input": {"m": 1}});
        let tool_result = json!({"tool_use_id": "c", "content": "hi", "is_error": false});
        let usage = json!({"input_tokens": 10, "output_tokens": 2});
        let end = collect(vec![
            event("text", json!("a")),
            event("tool_use", tool),
            event("usage", usage.clone()),
            event("tool_result", tool_result),
            event("new", json!({})),
            event("text", json!("b")),
            event("usage", usage),
            event("done", Value::Null),
        ])
        .await;
        let ChatEnd::Complete(result) = end else { panic!("{end:?}") };
        let expected = json!({
            "text": "ab", "usage": {"input_tokens": 20, "output_tokens": 4}, "error": null,
            "toolCalls": [{"id": "c", "name": "echo", "input": {"m": 1}, "result": "hi", "isError": false}],
        });
        assert_eq!(json!(result), expected);
    }

    #[tokio::test]
    async fn lost_connection_keeps_the_text_so_far() {
        let rejected = collect(vec![Answer::Response(Err("no".to_owned()))]).await;
        assert_eq!(
            rejected,
            ChatEnd::Complete(ChatResult { error: Some("no".to_owned()), ..ChatResult::default() })
        );
        let partial = ChatResult { text: "a".to_owned(), ..ChatResult::default() };
        assert_eq!(collect(vec![event("text", json!("a"))]).await, ChatEnd::Interrupted(partial));
        assert_eq!(collect(Vec::new()).await, ChatEnd::NotStarted);
        assert_eq!(collect(vec![Answer::Lost("no hello".to_owned())]).await, ChatEnd::NotStarted);
    }

    #[tokio::test(start_paused = true)]
    async fn error_without_done_ends_the_chat() {
        let (answers_tx, answers_rx) = mpsc::channel(1);
        answers_tx.send(event("error", json!("boom"))).await.unwrap();
        let ended = collect_events(answers_rx, None, 0).await.unwrap();
        let failed = ChatResult { error: Some("boom".to_owned()), ..ChatResult::default() };
        assert_eq!(ended, ChatEnd::Complete(failed));
        drop(answers_tx);
    }

    #[test]
    fn text_of_the_result_is_limited() {
        let mut result = ChatResult::default();
        result.add_event("text", Some(&json!("x".repeat(TEXT_BYTES_MAX))));
        assert_eq!(result.text.len(), TEXT_BYTES_MAX);
        result.add_event("text", Some(&json!("x")));
        assert_eq!(result.text.len(), TEXT_BYTES_MAX);
    }

    #[tokio::test]
    async fn tool_calls_of_the_result_are_limited() {
        let tool = |n: usize| event("tool_use", json!({"id": n.to_string(), "name": "t", "input": {}}));
        let mut result = ChatResult::default();
        for n in 0..=TOOL_CALLS_LISTED_MAX {
            let Answer::Event { event, data } = tool(n) else { panic!("an event") };
            result.add_event(&event, data.as_ref());
            assert_eq!(result.tool_calls.len(), (n + 1).min(TOOL_CALLS_LISTED_MAX));
        }
    }
}
