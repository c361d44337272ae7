//! Agents that are functions of scripts. They are there for as long as the session that registered them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{AgentError, Question};
use crate::binding::{BindingError, Call, FunctionRef, HostFunctions, handler};
use crate::bindings::exoclaw::model::ANSWER_BYTES_MAX;
use crate::bindings::exoclaw::now_seconds;
use crate::bindings::exoclaw::report::Report;
use crate::bindings::exoclaw::store::{Spent, Store, Turn};
use crate::bindings::exoclaw::wire::Event;
use crate::protocol::plain::to_plain;
use crate::rpc::Kind;

/// Agents that scripts may register, over all sessions: each holds a function of a script.
pub(crate) const SCRIPT_AGENTS_MAX: usize = 1000;

/// Events of a script that wait for the client to read. Then `emit` waits.
const EVENTS_QUEUED_MAX: usize = 32;

/// What the record of usage calls the model of a script.
const SCRIPT_MODEL: &str = "script";

/// A function that answers messages.
#[derive(Debug, Clone)]
pub(crate) struct ScriptAgent {
    session: String,
    on_chat: FunctionRef,
    host_functions: HostFunctions,
}

/// All of them, by their ids.
#[derive(Debug, Default)]
pub(crate) struct ScriptAgents(Mutex<HashMap<String, ScriptAgent>>);

impl ScriptAgents {
    /// Registers a function, in place of an earlier one of the same session or of one that has ended.
    pub(crate) fn register(&self, id: &str, on_chat: FunctionRef, call: &Call) -> Result<(), BindingError> {
        let mut agents = self.0.lock();
        refuse_other(&mut agents, id, call)?;
        if agents.len() >= SCRIPT_AGENTS_MAX && !agents.contains_key(id) {
            let message = format!("there are {SCRIPT_AGENTS_MAX} agents already");
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

    /// Refuses an agent of another session that is alive.
    pub(crate) fn check(&self, id: &str, call: &Call) -> Result<(), BindingError> {
        refuse_other(&mut self.0.lock(), id, call)
    }

    /// The agent of that id, if its session is alive.
    pub(crate) fn get(&self, id: &str) -> Option<ScriptAgent> {
        self.0.lock().get(id).filter(|agent| !agent.on_chat.is_gone()).cloned()
    }
}

fn refuse_other(
    agents: &mut HashMap<String, ScriptAgent>,
    id: &str,
    call: &Call,
) -> Result<(), BindingError> {
    agents.retain(|_, agent| !agent.on_chat.is_gone());
    if agents.get(id).is_some_and(|agent| agent.session != call.session.id) {
        let message = format!("another session is the agent `{id}` already");
        return Err(BindingError::of_kind(Kind::InvalidInput, message));
    }
    Ok(())
}

impl ScriptAgent {
    /// Answers a message; gives all that was said.
    pub(crate) async fn answer(
        &self,
        question: &Question<'_>,
        store: &Store,
        report: &Report,
    ) -> Result<String, AgentError> {
        let (events_tx, mut events_rx) = mpsc::channel(EVENTS_QUEUED_MAX);
        let input = json!({
            "content": question.content,
            "session": described(question),
            "history": question.turns.iter().flat_map(messages_of).collect::<Vec<_>>(),
            "facts": question.facts,
            "emit": self.host_functions.provide("emit", emitter(events_tx)),
        });
        let mut relay = Relay { question, store, report, text: String::new() };
        let mut returned = std::pin::pin!(self.on_chat.call(vec![input], 0));
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events_rx.recv() => relay.pass_on(event).await?,
                outcome = &mut returned => break outcome,
            }
        };
        // What was emitted before the end is told before it; what comes later finds nobody.
        events_rx.close();
        while let Some(event) = events_rx.recv().await {
            relay.pass_on(event).await?;
        }
        match outcome {
            Ok(Value::String(text)) if !text.is_empty() => relay.pass_on(Event::Text(text)).await?,
            Ok(_) => {}
            Err(error) => return Err(AgentError::Failed(error.own_message().to_owned())),
        }
        Ok(relay.text)
    }
}

fn described(question: &Question<'_>) -> Value {
    let session = question.session;
    json!({
        "key": session.to_string(), "agent": session.agent, "channel": session.channel, "account": session.account,
        "peer": session.peer,
    })
}

fn messages_of(turn: &Turn) -> [Value; 2] {
    [json!({"role": "user", "content": turn.user}), json!({"role": "assistant", "content": turn.assistant})]
}

/// `emit(event, data)`, as the script gets it.
fn emitter(events_tx: mpsc::Sender<Event>) -> Arc<dyn crate::binding::Handler> {
    handler(move |arguments: Value, _| {
        let events_tx = events_tx.clone();
        async move {
            let event = emitted(arguments).map_err(|why| BindingError::of_kind(Kind::InvalidInput, why))?;
            let over = |_| BindingError::of_kind(Kind::Cancelled, "emit: the chat is over");
            events_tx.send(event).await.map_err(over)?;
            Ok(Value::Null)
        }
    })
}

fn emitted(arguments: Value) -> Result<Event, String> {
    let wrong = || "emit: expected the name of an event and its data".to_owned();
    let Value::Array(arguments) = arguments else {
        return Err(wrong());
    };
    let mut arguments = arguments.into_iter();
    let (Some(Value::String(name)), Some(data)) = (arguments.next(), arguments.next()) else {
        return Err(wrong());
    };
    let data = to_plain(data).map_err(|error| format!("emit: {error}"))?;
    match Event::read(&name, data).map_err(|why| format!("emit: {why}"))? {
        Event::Error(_) | Event::Done => {
            Err(format!("emit: `{name}` is sent when onChat ends: throw, or return"))
        }
        event @ (Event::Text(_) | Event::ToolUse(_) | Event::ToolResult(_) | Event::Usage(_)) => Ok(event),
    }
}

/// Between the script and the client: what is said is kept, what was used is put down.
struct Relay<'a> {
    question: &'a Question<'a>,
    store: &'a Store,
    report: &'a Report,
    text: String,
}

impl Relay<'_> {
    async fn pass_on(&mut self, event: Event) -> Result<(), AgentError> {
        match &event {
            Event::Text(text) => {
                self.text.push_str(text);
                if self.text.len() > ANSWER_BYTES_MAX {
                    let message = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
                    return Err(AgentError::Failed(message));
                }
            }
            Event::Usage(usage) => self.store.spend(Spent {
                session: self.question.session.clone(),
                model: SCRIPT_MODEL.to_owned(),
                usage: *usage,
                seconds: now_seconds(),
            }),
            Event::ToolUse(_) | Event::ToolResult(_) | Event::Error(_) | Event::Done => {}
        }
        Ok(self.report.event(event).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::{Callbacks, DroppedRefs};
    use crate::bindings::exoclaw::wire::Usage;
    use crate::bindings::testing::new_call;

    #[test]
    fn events_are_read_by_name_and_data() {
        let event = emitted(json!(["text", "hi"]));
        assert_eq!(event, Ok(Event::Text("hi".to_owned())));
        let usage = emitted(json!(["usage", {"input_tokens": 1, "output_tokens": 2}]));
        assert_eq!(usage, Ok(Event::Usage(Usage { input_tokens: 1, output_tokens: 2 })));
    }

    #[test]
    fn so_many_agents_may_be_registered_and_one_more_is_refused() {
        let (agents, call) = (ScriptAgents::default(), new_call("ada"));
        let (requests_tx, alive_rx) = mpsc::channel(1);
        let link = Callbacks { requests_tx, dropped_refs: DroppedRefs::default() };
        let register = |id: &str| agents.register(id, FunctionRef::new(id.to_owned(), link.clone()), &call);
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
    fn what_is_no_event_of_an_agent_is_refused_with_what_was_expected() {
        let refused = |arguments: Value| emitted(arguments).unwrap_err();
        for arguments in [json!([]), json!(["text"]), json!([1, 2]), json!("text")] {
            assert_eq!(refused(arguments), "emit: expected the name of an event and its data");
        }
        assert_eq!(refused(json!(["text", 5])), "emit: text: invalid type: integer `5`, expected a string");
        assert_eq!(refused(json!(["nope", 5])), "emit: no event is called `nope`");
        assert_eq!(refused(json!(["done", null])), "emit: `done` is sent when onChat ends: throw, or return");
        assert_eq!(refused(json!(["text", {"$fn": "f1"}])), "emit: a function cannot be sent as JSON");
    }
}
