//! Agents that are functions of scripts. They exist as long as the session that registered them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{AgentError, AgentRequest};
use crate::binding::{BindingError, Call, FunctionRef, HostFunctions, handler};
use crate::bindings::exoclaw::model::ANSWER_BYTES_MAX;
use crate::bindings::exoclaw::now_seconds;
use crate::bindings::exoclaw::progress::ProgressSender;
use crate::bindings::exoclaw::store::{Store, Turn, UsageRecord};
use crate::bindings::exoclaw::wire::Event;
use crate::protocol::plain::to_plain;
use crate::rpc::Kind;

/// Most agents of all sessions together. Each holds a function of a script.
pub(crate) const SCRIPT_AGENTS_MAX: usize = 1000;

/// Most events that wait for the client to read. When the queue is full, `emit` waits.
const EVENTS_QUEUED_MAX: usize = 32;

/// The name of the model in the usage records of scripts.
const SCRIPT_MODEL: &str = "script";

/// A function that answers messages.
#[derive(Debug, Clone)]
pub(crate) struct ScriptAgent {
    session: String,
    on_chat: FunctionRef,
    host_functions: HostFunctions,
}

/// The agents of all sessions, by id.
#[derive(Debug, Default)]
pub(crate) struct ScriptAgents(Mutex<HashMap<String, ScriptAgent>>);

impl ScriptAgents {
    /// Registers a function. It replaces an earlier one of the same session, or of a session that
    /// has ended.
    pub(crate) fn register(&self, id: &str, on_chat: FunctionRef, call: &Call) -> Result<(), BindingError> {
        let mut agents = self.0.lock();
        reject_other_session(&mut agents, id, call)?;
        if agents.len() >= SCRIPT_AGENTS_MAX && !agents.contains_key(id) {
            let message = format!("too many agents: at most {SCRIPT_AGENTS_MAX} can be registered");
            return Err(BindingError::of_kind(Kind::Busy, message));
        }
        let agent = ScriptAgent {
            session: call.session.id.clone(),
            on_chat,
            host_functions: call.host_functions.clone(),
        };
        agents.insert(id.to_owned(), agent);
        Ok(())
    }

    /// Fails if another live session has registered the agent.
    pub(crate) fn check_available(&self, id: &str, call: &Call) -> Result<(), BindingError> {
        reject_other_session(&mut self.0.lock(), id, call)
    }

    /// Returns the agent if its session is alive.
    pub(crate) fn get(&self, id: &str) -> Option<ScriptAgent> {
        self.0.lock().get(id).filter(|agent| !agent.on_chat.is_gone()).cloned()
    }
}

fn reject_other_session(
    agents: &mut HashMap<String, ScriptAgent>,
    id: &str,
    call: &Call,
) -> Result<(), BindingError> {
    agents.retain(|_, agent| !agent.on_chat.is_gone());
    if agents.get(id).is_some_and(|agent| agent.session != call.session.id) {
        let message = format!("agent `{id}` is already registered by another session");
        return Err(BindingError::of_kind(Kind::InvalidInput, message));
    }
    Ok(())
}

impl ScriptAgent {
    /// Streams the answer to a message, and returns its text.
    pub(crate) async fn answer(
        &self,
        request: &AgentRequest<'_>,
        store: &Store,
        progress: &ProgressSender,
    ) -> Result<String, AgentError> {
        let (events_tx, mut events_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        let input = json!({
            "content": request.content,
            "session": describe_session(request),
            "history": request.turns.iter().flat_map(to_messages).collect::<Vec<_>>(),
            "facts": request.facts,
            "emit": self.host_functions.export("emit", emit_function(events_tx)),
        });
        let mut relay = EventRelay { request, store, progress, text: String::new() };
        let mut call = std::pin::pin!(self.on_chat.call(vec![input], 0));
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events_rx.recv() => relay.forward(event).await?,
                outcome = &mut call => break outcome,
            }
        };
        // Events emitted before the function returned are sent before its result. Later ones fail
        // to be queued.
        events_rx.close();
        while let Some(event) = events_rx.recv().await {
            relay.forward(event).await?;
        }
        match outcome {
            Ok(Value::String(text)) if !text.is_empty() => relay.forward(Event::Text(text)).await?,
            Ok(_) => {}
            Err(error) => return Err(AgentError::Failed(error.own_message().to_owned())),
        }
        Ok(relay.text)
    }
}

fn describe_session(request: &AgentRequest<'_>) -> Value {
    let session = request.session;
    json!({
        "key": session.to_string(), "agent": session.agent, "channel": session.channel, "account": session.account,
        "peer": session.peer,
    })
}

fn to_messages(turn: &Turn) -> [Value; 2] {
    [json!({"role": "user", "content": turn.user}), json!({"role": "assistant", "content": turn.assistant})]
}

/// The function `emit(event, data)` for the script.
fn emit_function(events_tx: mpsc::Sender<Event>) -> Arc<dyn crate::binding::Handler> {
    handler(move |arguments: Value, _| {
        let events_tx = events_tx.clone();
        async move {
            let invalid = |reason| BindingError::of_kind(Kind::InvalidInput, reason);
            let event = parse_event(arguments).map_err(invalid)?;
            let ended = |_| BindingError::of_kind(Kind::Cancelled, "emit: the chat has ended");
            events_tx.send(event).await.map_err(ended)?;
            Ok(Value::Null)
        }
    })
}

/// Parses the arguments of `emit`.
fn parse_event(arguments: Value) -> Result<Event, String> {
    let invalid = || "emit: expected the name of an event and its data".to_owned();
    let Value::Array(arguments) = arguments else {
        return Err(invalid());
    };
    let mut arguments = arguments.into_iter();
    let (Some(Value::String(name)), Some(data)) = (arguments.next(), arguments.next()) else {
        return Err(invalid());
    };
    let data = to_plain(data).map_err(|error| format!("emit: {error}"))?;
    match Event::parse(&name, data).map_err(|reason| format!("emit: {reason}"))? {
        Event::Error(_) | Event::Done => {
            Err(format!("emit: `{name}` is sent when onChat ends: throw or return instead"))
        }
        event @ (Event::Text(_) | Event::ToolUse(_) | Event::ToolResult(_) | Event::Usage(_)) => Ok(event),
    }
}

/// Forwards the events of a script to the client, collects the text, and records the usage.
struct EventRelay<'a> {
    request: &'a AgentRequest<'a>,
    store: &'a Store,
    progress: &'a ProgressSender,
    text: String,
}

impl EventRelay<'_> {
    async fn forward(&mut self, event: Event) -> Result<(), AgentError> {
        match &event {
            Event::Text(text) => {
                self.text.push_str(text);
                if self.text.len() > ANSWER_BYTES_MAX {
                    let message = format!("answer exceeds {ANSWER_BYTES_MAX} bytes");
                    return Err(AgentError::Failed(message));
                }
            }
            Event::Usage(usage) => self.store.record_usage(UsageRecord {
                session: self.request.session.clone(),
                model: SCRIPT_MODEL.to_owned(),
                usage: *usage,
                seconds: now_seconds(),
            }),
            Event::ToolUse(_) | Event::ToolResult(_) | Event::Error(_) | Event::Done => {}
        }
        Ok(self.progress.send_event(event).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::Callbacks;
    use crate::bindings::exoclaw::wire::Usage;
    use crate::bindings::testing::new_call;
    use crate::protocol::fn_ref::FnRef;

    #[test]
    fn emit_arguments_are_parsed_by_event_name() {
        let event = parse_event(json!(["text", "hi"]));
        assert_eq!(event, Ok(Event::Text("hi".to_owned())));
        let usage = parse_event(json!(["usage", {"input_tokens": 1, "output_tokens": 2}]));
        assert_eq!(usage, Ok(Event::Usage(Usage { input_tokens: 1, output_tokens: 2 })));
    }

    #[test]
    fn agents_past_the_limit_are_rejected() {
        let (agents, call) = (ScriptAgents::default(), new_call("ada"));
        let (link, alive_rx) = Callbacks::channel(1);
        let register =
            |id: &str| agents.register(id, FunctionRef::new(FnRef::Script(1), link.clone()), &call);
        for number in 0..SCRIPT_AGENTS_MAX {
            register(&number.to_string()).unwrap();
        }
        assert_eq!(register("late").unwrap_err().kind(), Some("Busy"));
        register("0").unwrap();
        drop(alive_rx);
        assert!(agents.get("0").is_none());
        register("late").unwrap();
        assert_eq!(agents.0.lock().len(), 1);
    }

    #[test]
    fn invalid_emit_arguments_are_rejected() {
        let error = |arguments: Value| parse_event(arguments).unwrap_err();
        for arguments in [json!([]), json!(["text"]), json!([1, 2]), json!("text")] {
            assert_eq!(error(arguments), "emit: expected the name of an event and its data");
        }
        assert_eq!(error(json!(["text", 5])), "emit: text: invalid type: integer `5`, expected a string");
        assert_eq!(error(json!(["nope", 5])), "emit: unknown event `nope`");
        assert_eq!(
            error(json!(["done", null])),
            "emit: `done` is sent when onChat ends: throw or return instead"
        );
        assert_eq!(error(json!(["text", {"$fn": "f1"}])), "emit: a function cannot be sent as JSON");
    }
}
