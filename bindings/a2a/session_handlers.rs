//! The bindings of sessions: each calls an action of a gateway's session service.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent_sessions::AgentSessions;
use super::content::SESSION_SERVICE;
use super::handlers::{into_fields, with_sessions};
use super::wire::FrameType;
use crate::binding::{BindingError, Call};
use crate::bindings::Handlers;
use crate::protocol::plain::from_plain;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionInput {
    agent: Option<String>,
    session_id: Option<String>,
    older_than: Option<Value>,
    data: Option<String>,
    gateway: Option<String>,
}

/// Returns the handlers of the sessions.
pub(crate) fn handlers(sessions: &Arc<AgentSessions>) -> Handlers {
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
    let handlers = actions.map(|(name, action)| {
        let call_action = move |sessions, input, call| call_session_service(sessions, action, input, call);
        (name, with_sessions(sessions, call_action))
    });
    handlers.into()
}

async fn call_session_service(
    sessions: Arc<AgentSessions>,
    action: &'static str,
    input: SessionInput,
    call: Call,
) -> Result<Value, BindingError> {
    let mut content = Map::new();
    content.insert("service".to_owned(), json!(SESSION_SERVICE));
    content.insert("action".to_owned(), json!(action));
    let principal = &call.session.principal.name;
    if let (Some(gateway), Some(agent)) = (&input.gateway, &input.agent) {
        sessions.remote_names.check_owner(gateway, agent, principal)?;
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
    let frame = into_fields(json!({"type": FrameType::Request.name(), "content": content}));
    let mut reply = sessions.request(input.gateway.as_deref(), frame, None, &call).await?;
    let mut result = reply["content"]["result"].take();
    if let Some(gateway) = &input.gateway {
        sessions.remote_names.retain_own(gateway, &mut result, principal);
    }
    Ok(from_plain(result))
}
