//! The content of each frame type, decoded into an enum that cannot hold an invalid one.

mod session_request;

use serde_json::{Map, Value};

use super::codes::{ErrorCode, GatewayError};
use super::registry::Status;
use super::timestamp;
use super::triad::Vote;
use super::wire::{
    AGENT_BYTES_MAX, Envelope, FrameType, PROTOCOL_VERSION, is_agent_name, optional_id, optional_string,
    truncate_name,
};
use session_request::decode_session_request;
pub(crate) use session_request::{ArchiveSelection, SessionRequest};

/// Agents that one subscription may name. A subscription to more should leave out the list, which
/// means all.
pub(crate) const AGENTS_SUBSCRIBED_MAX: usize = 256;

/// The service of `request` frames that the gateway itself provides.
pub(crate) const SESSION_SERVICE: &str = "session";

/// The content of a frame that a client may send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Message { role: String, content: Value },
    Status(Status),
    Error,
    Event { event: String },
    Advertise,
    Register { name: String },
    Discovery(Discovery),
    Workspaces { agent: Option<String> },
    Subscribe { channel: Channel, agents: Option<Vec<String>> },
    Unsubscribe { channel: Channel },
    Ping,
    Pong,
    Auth { token: String },
    Disconnect,
    Proposal { deadline_ms: Option<u64> },
    Vote { proposal_id: String, vote: Vote },
    Session(SessionRequest),
    Request,
    Response,
    Broadcast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    Agents,
    Workspaces,
    Services,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Status changes of agents.
    Status,
    /// Frames of type `event`.
    Events,
}

impl Channel {
    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "agent:status",
            Self::Events => "agent:events",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Status, Self::Events].into_iter().find(|channel| channel.name() == name)
    }
}

impl Body {
    /// Decodes the content of a frame by its type.
    pub(crate) fn decode(envelope: &Envelope) -> Result<Self, GatewayError> {
        match envelope.kind {
            FrameType::Ping => return Ok(Self::Ping),
            FrameType::Pong => return Ok(Self::Pong),
            FrameType::Decision | FrameType::AuthResponse => {
                let message = format!("only the gateway sends {}", envelope.kind.name());
                return Err(GatewayError::new(ErrorCode::PermissionDenied, message));
            }
            FrameType::Register => return decode_register(envelope),
            _ => {}
        }
        let content = match envelope.content() {
            None => return Err(GatewayError::missing("content")),
            Some(Value::Object(content)) => content,
            Some(_) => return Err(GatewayError::wrong_type("content", "an object")),
        };
        match envelope.kind {
            FrameType::Message => decode_message(content),
            FrameType::Status => decode_status(content),
            FrameType::Error => decode_error(envelope, content),
            FrameType::Event => decode_event(envelope, content),
            FrameType::Handshake => decode_handshake(content),
            FrameType::Discovery => decode_discovery(content),
            FrameType::Workspace => decode_workspace(content),
            FrameType::Subscribe => decode_subscribe(content),
            FrameType::Unsubscribe => Ok(Self::Unsubscribe { channel: decode_channel(content)? }),
            FrameType::Auth => Ok(Self::Auth { token: required_string(content, "token")? }),
            FrameType::Disconnect => decode_disconnect(content),
            FrameType::Proposal => decode_proposal(content),
            FrameType::Vote => decode_vote(content),
            FrameType::Request => decode_request(envelope, content),
            FrameType::Response => require_field(content, "result").map(|()| Self::Response),
            FrameType::Broadcast => require_field(content, "message").map(|()| Self::Broadcast),
            FrameType::Ping
            | FrameType::Pong
            | FrameType::Decision
            | FrameType::AuthResponse
            | FrameType::Register => Err(GatewayError::invalid("type", "a type with content")),
        }
    }
}

fn prefix_with_content(mut error: GatewayError) -> GatewayError {
    error.message = format!("content.{}", error.message);
    error
}

fn required_string(content: &Map<String, Value>, field: &str) -> Result<String, GatewayError> {
    let found = optional_string(content, field).map_err(prefix_with_content)?;
    found.ok_or_else(|| GatewayError::missing(&format!("content.{field}")))
}

fn optional_content_id(content: &Map<String, Value>, field: &str) -> Result<Option<String>, GatewayError> {
    optional_id(content, field).map_err(prefix_with_content)
}

fn require_field(content: &Map<String, Value>, field: &str) -> Result<(), GatewayError> {
    if content.contains_key(field) { Ok(()) } else { Err(GatewayError::missing(&format!("content.{field}"))) }
}

fn decode_message(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let role = match content.get("role") {
        Some(Value::String(role)) if ["user", "assistant", "system", "agent"].contains(&role.as_str()) => {
            role
        }
        _ => return Err(GatewayError::invalid("content.role", "user, assistant, system or agent")),
    };
    match content.get("content") {
        Some(inner @ (Value::String(_) | Value::Object(_) | Value::Array(_))) => {
            Ok(Body::Message { role: role.clone(), content: inner.clone() })
        }
        _ => Err(GatewayError::invalid("content.content", "a string or an object")),
    }
}

fn decode_status(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let name = required_string(content, "status")?;
    Status::from_name(&name)
        .map(Body::Status)
        .ok_or_else(|| GatewayError::invalid("content.status", "online, offline, busy, idle or error"))
}

/// The documents of the protocol disagree on the place of the name; both are accepted.
fn decode_error(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let has_name = envelope.fields.contains_key("error") || content.contains_key("error");
    if has_name { Ok(Body::Error) } else { Err(GatewayError::missing("error")) }
}

fn decode_event(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let event = match optional_string(&envelope.fields, "event")? {
        Some(event) => Some(event),
        None => optional_string(content, "event").map_err(prefix_with_content)?,
    };
    event.map(|event| Body::Event { event }).ok_or_else(|| GatewayError::missing("event"))
}

fn decode_handshake(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    if required_string(content, "action")? != "advertise" {
        return Err(GatewayError::invalid("content.action", "advertise"));
    }
    let capabilities = match content.get("capabilities") {
        None | Some(Value::Null) => return Ok(Body::Advertise),
        Some(Value::Object(capabilities)) => capabilities,
        Some(_) => return Err(GatewayError::wrong_type("content.capabilities", "an object")),
    };
    let version = optional_string(capabilities, "version")
        .map_err(|_| GatewayError::wrong_type("content.capabilities.version", "a string"))?;
    match version {
        Some(version) if !is_supported_version(&version) => {
            let message = format!(
                "unsupported protocol version {:?}, expected {PROTOCOL_VERSION}",
                truncate_name(&version)
            );
            Err(GatewayError::new(ErrorCode::ProtocolError, message))
        }
        _ => Ok(Body::Advertise),
    }
}

/// Compares major versions.
fn is_supported_version(version: &str) -> bool {
    version.split('.').next() == PROTOCOL_VERSION.split('.').next()
}

/// Decodes the registration of the older gateway, which has the name at the top level.
fn decode_register(envelope: &Envelope) -> Result<Body, GatewayError> {
    let named = optional_string(&envelope.fields, "agentId")?.or_else(|| envelope.from.clone());
    let name = named.ok_or_else(|| GatewayError::missing("agentId"))?;
    Ok(Body::Register { name: validate_agent_name(name)? })
}

/// Returns the name if an agent may have it.
pub(crate) fn validate_agent_name(name: String) -> Result<String, GatewayError> {
    if is_agent_name(&name) {
        Ok(name)
    } else {
        Err(GatewayError::invalid(
            "agent name",
            "letters, digits and - _ . (at most 64), other than \"gateway\"",
        ))
    }
}

fn decode_discovery(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    match required_string(content, "action")?.as_str() {
        "list" | "agents" => Ok(Body::Discovery(Discovery::Agents)),
        "workspaces" => Ok(Body::Discovery(Discovery::Workspaces)),
        "services" => Ok(Body::Discovery(Discovery::Services)),
        _ => Err(GatewayError::invalid("content.action", "list, workspaces or services")),
    }
}

fn decode_workspace(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    match required_string(content, "action")?.as_str() {
        "list" => Ok(Body::Workspaces { agent: None }),
        "get" => Ok(Body::Workspaces { agent: Some(required_string(content, "agent")?) }),
        _ => Err(GatewayError::invalid("content.action", "list or get")),
    }
}

fn decode_channel(content: &Map<String, Value>) -> Result<Channel, GatewayError> {
    let name = required_string(content, "channel")?;
    Channel::from_name(&name)
        .ok_or_else(|| GatewayError::invalid("content.channel", "agent:status or agent:events"))
}

fn decode_subscribe(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let channel = decode_channel(content)?;
    let agents = match content.get("agents") {
        None | Some(Value::Null) => None,
        Some(Value::Array(names)) if names.len() <= AGENTS_SUBSCRIBED_MAX => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            let names =
                names.ok_or_else(|| GatewayError::wrong_type("content.agents", "a list of agent names"))?;
            if names.iter().any(|name| name.len() > AGENT_BYTES_MAX) {
                return Err(GatewayError::invalid("content.agents", "a list of agent names"));
            }
            Some(names)
        }
        Some(Value::Array(_)) => {
            return Err(GatewayError::invalid(
                "content.agents",
                &format!("at most {AGENTS_SUBSCRIBED_MAX} names"),
            ));
        }
        Some(_) => return Err(GatewayError::wrong_type("content.agents", "a list of agent names")),
    };
    Ok(Body::Subscribe { channel, agents })
}

fn decode_disconnect(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    match required_string(content, "reason")?.as_str() {
        "shutdown" | "timeout" | "error" | "manual" => Ok(Body::Disconnect),
        _ => Err(GatewayError::invalid("content.reason", "shutdown, timeout, error or manual")),
    }
}

fn decode_proposal(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    required_string(content, "proposal")?;
    let deadline_ms = match content.get("deadline") {
        None | Some(Value::Null) => None,
        Some(time) => Some(timestamp::parse_ms(time).ok_or_else(|| {
            GatewayError::wrong_type("content.deadline", "milliseconds or an ISO 8601 date")
        })?),
    };
    Ok(Body::Proposal { deadline_ms })
}

fn decode_vote(content: &Map<String, Value>) -> Result<Body, GatewayError> {
    let proposal_id = optional_content_id(content, "proposalId")?
        .ok_or_else(|| GatewayError::missing("content.proposalId"))?;
    let name = required_string(content, "vote")?;
    let vote = Vote::from_name(&name)
        .ok_or_else(|| GatewayError::invalid("content.vote", "approve, reject or abstain"))?;
    Ok(Body::Vote { proposal_id, vote })
}

fn decode_request(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, GatewayError> {
    if required_string(content, "service")? == SESSION_SERVICE {
        decode_session_request(envelope, content).map(Body::Session)
    } else {
        Ok(Body::Request)
    }
}

#[cfg(test)]
mod tests;
