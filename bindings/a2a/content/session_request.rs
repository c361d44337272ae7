//! Requests to the session service, decoded from the content of `request` frames.

use serde_json::{Map, Value};

use super::super::codes::GatewayError;
use super::super::wire::{Envelope, optional_string};
use super::{optional_content_id, prefix_with_content, required_string};

/// A request to the session service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionRequest {
    Create { agent: String, session_id: Option<String> },
    List { agent: Option<String> },
    Get { agent: String, session_id: String },
    Commit { agent: String, session_id: String },
    Archive { agent: String, selection: ArchiveSelection },
    Delete { agent: String, session_id: String },
    Export { agent: String, session_id: String },
    Import { agent: String, session_id: Option<String>, data: String },
}

impl SessionRequest {
    /// Returns the agent whose sessions the request concerns; `None` means all agents.
    pub(crate) fn agent(&self) -> Option<&str> {
        match self {
            Self::List { agent } => agent.as_deref(),
            Self::Create { agent, .. }
            | Self::Get { agent, .. }
            | Self::Commit { agent, .. }
            | Self::Archive { agent, .. }
            | Self::Delete { agent, .. }
            | Self::Export { agent, .. }
            | Self::Import { agent, .. } => Some(agent),
        }
    }
}

/// The sessions to archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArchiveSelection {
    One(String),
    OlderThan { age_ms: u64 },
}

/// Decodes a request. Agent and session may be named in the content or in the envelope.
pub(super) fn decode_session_request(
    envelope: &Envelope,
    content: &Map<String, Value>,
) -> Result<SessionRequest, GatewayError> {
    let action = required_string(content, "action")?;
    let agent =
        optional_string(content, "agent").map_err(prefix_with_content)?.or_else(|| envelope.agent.clone());
    let session_id = optional_content_id(content, "sessionId")?.or_else(|| envelope.session_id.clone());
    let require_agent = |agent: Option<String>| agent.ok_or_else(|| GatewayError::missing("content.agent"));
    let require_id = |id: Option<String>| id.ok_or_else(|| GatewayError::missing("content.sessionId"));
    Ok(match action.as_str() {
        "create" => SessionRequest::Create { agent: require_agent(agent)?, session_id },
        "list" => SessionRequest::List { agent },
        "get" => SessionRequest::Get { agent: require_agent(agent)?, session_id: require_id(session_id)? },
        "commit" => {
            SessionRequest::Commit { agent: require_agent(agent)?, session_id: require_id(session_id)? }
        }
        "delete" => {
            SessionRequest::Delete { agent: require_agent(agent)?, session_id: require_id(session_id)? }
        }
        "export" => {
            SessionRequest::Export { agent: require_agent(agent)?, session_id: require_id(session_id)? }
        }
        "import" => SessionRequest::Import {
            agent: require_agent(agent)?,
            session_id,
            data: required_string(content, "data")?,
        },
        "archive" => {
            let selection = match content.get("olderThan") {
                None | Some(Value::Null) => ArchiveSelection::One(require_id(session_id)?),
                Some(age) => ArchiveSelection::OlderThan { age_ms: parse_age_ms(age)? },
            };
            SessionRequest::Archive { agent: require_agent(agent)?, selection }
        }
        _ => {
            let actions = "create, list, get, commit, archive, delete, export or import";
            return Err(GatewayError::invalid("content.action", actions));
        }
    })
}

/// Parses `"7d"`, `"12h"`, `"30m"`, `"45s"`, or a number of milliseconds.
pub(super) fn parse_age_ms(age: &Value) -> Result<u64, GatewayError> {
    let invalid = || GatewayError::invalid("content.olderThan", "an age such as \"7d\", or milliseconds");
    if let Some(age) = age.as_u64() {
        return Ok(age);
    }
    let text = age.as_str().ok_or_else(invalid)?;
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let (count, unit) = units
        .into_iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|count| (count, unit)))
        .ok_or_else(invalid)?;
    count.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(invalid)
}
