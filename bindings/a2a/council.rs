//! The bindings of the triad and of the sessions.

use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::desk::Desk;
use super::handlers::{fields, plain};
use super::wire::Type;
use crate::binding::{BindingError, Call, Handler, typed};
use crate::bindings::Handlers;
use crate::protocol::plain::from_plain;

#[derive(Deserialize)]
struct ProposeInput {
    proposal: String,
    reasoning: Option<String>,
    deadline: Option<Value>,
    from: Option<String>,
    gateway: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VoteInput {
    from: String,
    proposal_id: String,
    vote: String,
    reasoning: Option<String>,
    confidence: Option<f64>,
    gateway: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionInput {
    agent: Option<String>,
    session_id: Option<String>,
    older_than: Option<Value>,
    data: Option<String>,
    gateway: Option<String>,
}

/// The handlers of the triad and of the sessions.
pub(crate) fn handlers(desk: &Arc<Desk>) -> Handlers {
    let (proposed, voted) = (Arc::clone(desk), Arc::clone(desk));
    let mut handlers: Handlers = vec![
        ("a2a.propose", typed(move |input, call| propose(Arc::clone(&proposed), input, call))),
        ("a2a.vote", typed(move |input, call| vote(Arc::clone(&voted), input, call))),
    ];
    let actions = [
        ("a2a.sessions.create", "create"),
        ("a2a.sessions.list", "list"),
        ("a2a.sessions.get", "get"),
        ("a2a.sessions.commit", "commit"),
        ("a2a.sessions.archive", "archive"),
        ("a2a.sessions.delete", "delete"),
        ("a2a.sessions.export", "export"),
        ("a2a.sessions.import", "import"),
    ];
    handlers.extend(actions.map(|(name, action)| (name, session_handler(desk, action))));
    handlers
}

fn session_handler(desk: &Arc<Desk>, action: &'static str) -> Arc<dyn Handler> {
    let desk = Arc::clone(desk);
    typed(move |input, call| session(Arc::clone(&desk), action, input, call))
}

/// Resolves with the decision, however long the triad takes within the time of the call.
async fn propose(desk: Arc<Desk>, input: ProposeInput, call: Call) -> Result<Value, BindingError> {
    let mut content = fields(json!({"proposal": input.proposal}));
    if let Some(reasoning) = input.reasoning {
        content.insert("reasoning".to_owned(), json!(reasoning));
    }
    if let Some(deadline) = input.deadline {
        content.insert("deadline".to_owned(), plain(deadline)?);
    }
    let mut frame = fields(json!({"type": Type::Proposal.name(), "content": content}));
    if let Some(from) = input.from {
        frame.insert("from".to_owned(), json!(from));
    }
    let patience = call.deadline.saturating_duration_since(Instant::now());
    let decision = desk.ask(input.gateway.as_deref(), frame, Some(patience), &call).await?;
    Ok(from_plain(decision["content"].clone()))
}

async fn vote(desk: Arc<Desk>, input: VoteInput, call: Call) -> Result<(), BindingError> {
    let mut content = fields(json!({"proposalId": input.proposal_id, "vote": input.vote}));
    if let Some(reasoning) = input.reasoning {
        content.insert("reasoning".to_owned(), json!(reasoning));
    }
    if let Some(confidence) = input.confidence {
        content.insert("confidence".to_owned(), json!(confidence));
    }
    let frame = json!({"type": Type::Vote.name(), "from": input.from, "content": content});
    desk.tell(input.gateway.as_deref(), fields(frame), &call).await
}

async fn session(
    desk: Arc<Desk>,
    action: &'static str,
    input: SessionInput,
    call: Call,
) -> Result<Value, BindingError> {
    let mut content = Map::new();
    content.insert("service".to_owned(), json!("session"));
    content.insert("action".to_owned(), json!(action));
    let principal = &call.session.principal.name;
    if let (Some(gateway), Some(agent)) = (&input.gateway, &input.agent) {
        desk.remote_names.check(gateway, agent, principal)?;
    }
    let given = [("agent", input.agent), ("sessionId", input.session_id), ("data", input.data)];
    for (field, value) in given {
        if let Some(value) = value {
            content.insert(field.to_owned(), json!(value));
        }
    }
    if let Some(age) = input.older_than {
        content.insert("olderThan".to_owned(), age);
    }
    let frame = fields(json!({"type": Type::Request.name(), "content": content}));
    let mut answer = desk.ask(input.gateway.as_deref(), frame, None, &call).await?;
    let mut result = answer["content"]["result"].take();
    if let Some(gateway) = &input.gateway {
        desk.remote_names.retain_own(gateway, &mut result, principal);
    }
    Ok(from_plain(result))
}
