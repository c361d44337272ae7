//! The bindings of the triad: proposals and votes.

use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::agent_sessions::AgentSessions;
use super::handlers::{into_fields, to_plain_json, with_sessions};
use super::wire::FrameType;
use crate::binding::{BindingError, Call};
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

/// Returns the handlers of the triad.
pub(crate) fn handlers(sessions: &Arc<AgentSessions>) -> Handlers {
    vec![("a2a.propose", with_sessions(sessions, propose)), ("a2a.vote", with_sessions(sessions, vote))]
}

/// Returns the decision. The only time limit is the deadline of the call.
async fn propose(
    sessions: Arc<AgentSessions>,
    input: ProposeInput,
    call: Call,
) -> Result<Value, BindingError> {
    let mut content = into_fields(json!({"proposal": input.proposal}));
    if let Some(reasoning) = input.reasoning {
        content.insert("reasoning".to_owned(), json!(reasoning));
    }
    if let Some(deadline) = input.deadline {
        content.insert("deadline".to_owned(), to_plain_json(deadline)?);
    }
    let mut frame = into_fields(json!({"type": FrameType::Proposal.name(), "content": content}));
    if let Some(from) = input.from {
        frame.insert("from".to_owned(), json!(from));
    }
    let wait = call.deadline.saturating_duration_since(Instant::now());
    let decision = sessions.request(input.gateway.as_deref(), frame, Some(wait), &call).await?;
    Ok(from_plain(decision["content"].clone()))
}

async fn vote(sessions: Arc<AgentSessions>, input: VoteInput, call: Call) -> Result<(), BindingError> {
    let mut content = into_fields(json!({"proposalId": input.proposal_id, "vote": input.vote}));
    if let Some(reasoning) = input.reasoning {
        content.insert("reasoning".to_owned(), json!(reasoning));
    }
    if let Some(confidence) = input.confidence {
        content.insert("confidence".to_owned(), json!(confidence));
    }
    let frame = json!({"type": FrameType::Vote.name(), "from": input.from, "content": content});
    sessions.send(input.gateway.as_deref(), into_fields(frame), &call).await
}
