//! The envelope: the fields that every frame has around its content.
//!
//! A frame is decoded in two steps: a gateway with a token must know the type before it may read
//! the content (`content.rs`). Unknown fields stay in the frame and are forwarded with it.

use serde_json::{Map, Value, json};

use super::codes::{ErrorCode, GatewayError};
use super::timestamp;

/// The name of the gateway in `from`, reserved for it.
pub(crate) const GATEWAY: &str = "gateway";

/// The protocol version that this gateway implements.
pub(crate) const PROTOCOL_VERSION: &str = "1.0.0";

/// Longest id of a message, session, correlation, thread or proposal, in bytes.
/// Ids are kept in tables while a reply is pending; a longer one gets 2005.
pub(crate) const ID_BYTES_MAX: usize = 256;

/// Longest name of an agent, in bytes; it is the name of a folder, too.
pub(crate) const AGENT_BYTES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FrameType {
    Message,
    Status,
    Error,
    Event,
    Handshake,
    Register,
    Discovery,
    Workspace,
    Subscribe,
    Unsubscribe,
    Ping,
    Pong,
    Auth,
    AuthResponse,
    Disconnect,
    Proposal,
    Decision,
    Vote,
    Request,
    Response,
    Broadcast,
}

impl FrameType {
    pub(crate) const ALL: [Self; 21] = [
        Self::Message,
        Self::Status,
        Self::Error,
        Self::Event,
        Self::Handshake,
        Self::Register,
        Self::Discovery,
        Self::Workspace,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Ping,
        Self::Pong,
        Self::Auth,
        Self::AuthResponse,
        Self::Disconnect,
        Self::Proposal,
        Self::Decision,
        Self::Vote,
        Self::Request,
        Self::Response,
        Self::Broadcast,
    ];

    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Status => "status",
            Self::Error => "error",
            Self::Event => "event",
            Self::Handshake => "handshake",
            Self::Register => "register",
            Self::Discovery => "discovery",
            Self::Workspace => "workspace",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Auth => "auth",
            Self::AuthResponse => "auth-response",
            Self::Disconnect => "disconnect",
            Self::Proposal => "proposal",
            Self::Decision => "decision",
            Self::Vote => "vote",
            Self::Request => "request",
            Self::Response => "response",
            Self::Broadcast => "broadcast",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns whether a gateway with a token serves it to clients that have not presented theirs.
    pub(crate) fn is_allowed_before_auth(self) -> bool {
        matches!(self, Self::Handshake | Self::Auth | Self::Ping | Self::Pong | Self::Disconnect)
    }
}

/// The priority of a message; the greatest is delivered first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Low,
    #[default]
    Normal,
    High,
    Critical,
}

impl Priority {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "low" => Some(Self::Low),
            "normal" => Some(Self::Normal),
            "high" => Some(Self::High),
            "critical" => Some(Self::Critical),
            _ => None,
        }
    }
}

/// The fields of `metadata` that the gateway uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) priority: Priority,
    pub(crate) requires_response: bool,
    pub(crate) parent_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) ttl_ms: Option<u64>,
    /// Whether to queue the message for an agent that is offline or busy.
    pub(crate) queue: bool,
}

/// A frame with a valid envelope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) kind: FrameType,
    pub(crate) id: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) timestamp_ms: Option<u64>,
    pub(crate) metadata: Metadata,
    /// The whole frame, with its unknown fields.
    pub(crate) fields: Map<String, Value>,
}

/// An invalid envelope. `correlation_id` is that of the frame if it could be read, for the error
/// frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodeError {
    pub(crate) error: GatewayError,
    pub(crate) correlation_id: Option<String>,
}

impl Envelope {
    pub(crate) fn decode(text: &str) -> Result<Self, DecodeError> {
        let uncorrelated = |error| DecodeError { error, correlation_id: None };
        let value = serde_json::from_str(text).map_err(|error| {
            uncorrelated(GatewayError::new(ErrorCode::InvalidJson, format!("not JSON: {error}")))
        })?;
        match value {
            Value::Object(fields) => Self::from_fields(fields),
            _ => Err(uncorrelated(GatewayError::wrong_type("message", "an object"))),
        }
    }

    /// Decodes a frame that is an object already.
    pub(crate) fn from_fields(fields: Map<String, Value>) -> Result<Self, DecodeError> {
        let correlation_id = find_correlation_id(&fields);
        Self::parse(fields).map_err(|error| DecodeError { error, correlation_id })
    }

    fn parse(fields: Map<String, Value>) -> Result<Self, GatewayError> {
        let kind = match fields.get("type") {
            None => return Err(GatewayError::missing("type")),
            Some(Value::String(name)) => FrameType::from_name(name).ok_or_else(|| {
                GatewayError::new(
                    ErrorCode::UnknownType,
                    format!("Unknown message type: {}", truncate_name(name)),
                )
            })?,
            Some(_) => return Err(GatewayError::wrong_type("type", "a string")),
        };
        let timestamp_ms =
            match fields.get("timestamp") {
                None | Some(Value::Null) => None,
                Some(time) => Some(timestamp::parse_ms(time).ok_or_else(|| {
                    GatewayError::wrong_type("timestamp", "milliseconds or an ISO 8601 date")
                })?),
            };
        Ok(Self {
            kind,
            id: optional_id(&fields, "id")?,
            agent: optional_string(&fields, "agent")?,
            from: optional_string(&fields, "from")?,
            session_id: optional_id(&fields, "sessionId")?,
            timestamp_ms,
            metadata: parse_metadata(&fields)?,
            fields,
        })
    }

    /// Returns the content, which some types lack.
    pub(crate) fn content(&self) -> Option<&Value> {
        self.fields.get("content")
    }
}

fn parse_metadata(fields: &Map<String, Value>) -> Result<Metadata, GatewayError> {
    let empty = Map::new();
    let given = match fields.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(GatewayError::wrong_type("metadata", "an object")),
    };
    let priority = match optional_string(given, "priority")? {
        None => Priority::default(),
        Some(name) => Priority::from_name(&name)
            .ok_or_else(|| GatewayError::invalid("metadata.priority", "low, normal, high or critical"))?,
    };
    let ttl_ms = match given.get("ttl") {
        None | Some(Value::Null) => None,
        Some(ttl) => {
            let seconds = ttl.as_f64().ok_or_else(|| GatewayError::wrong_type("metadata.ttl", "seconds"))?;
            if seconds < 0.0 {
                return Err(GatewayError::invalid("metadata.ttl", "a number of seconds, at least 0"));
            }
            Some((seconds * 1000.0) as u64)
        }
    };
    // Clients of the older gateway put the correlation at the top level.
    let correlation_id = match optional_id(given, "correlationId")? {
        Some(id) => Some(id),
        None => optional_id(fields, "correlationId")?,
    };
    optional_id(given, "threadId")?;
    Ok(Metadata {
        priority,
        requires_response: optional_bool(given, "requiresResponse")?,
        parent_id: optional_id(given, "parentId")?,
        correlation_id,
        ttl_ms,
        queue: optional_bool(given, "queue")?,
    })
}

/// Reads a string that may be absent or `null`.
pub(crate) fn optional_string(of: &Map<String, Value>, field: &str) -> Result<Option<String>, GatewayError> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(GatewayError::wrong_type(field, "a string")),
    }
}

/// Reads an id that may be absent or `null`, and checks its length.
pub(crate) fn optional_id(of: &Map<String, Value>, field: &str) -> Result<Option<String>, GatewayError> {
    match optional_string(of, field)? {
        Some(id) if id.len() > ID_BYTES_MAX => {
            Err(GatewayError::invalid(field, &format!("at most {ID_BYTES_MAX} bytes")))
        }
        id => Ok(id),
    }
}

fn optional_bool(of: &Map<String, Value>, field: &str) -> Result<bool, GatewayError> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(GatewayError::wrong_type(field, "true or false")),
    }
}

fn find_correlation_id(fields: &Map<String, Value>) -> Option<String> {
    let in_metadata = fields.get("metadata").and_then(|metadata| metadata.get("correlationId"));
    let id = in_metadata.or_else(|| fields.get("correlationId"))?.as_str()?;
    (id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}

/// Truncates a name that a client sent, to repeat it in a message or a log.
pub(crate) fn truncate_name(name: &str) -> &str {
    name.get(..name.floor_char_boundary(ID_BYTES_MAX)).unwrap_or_default()
}

/// Returns whether an agent may have that name: safe as the name of a folder, and not reserved.
pub(crate) fn is_agent_name(name: &str) -> bool {
    let has_valid_start = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    has_valid_start && name.len() <= AGENT_BYTES_MAX && name.bytes().all(is_allowed) && name != GATEWAY
}

/// Builds a frame that is from the gateway itself.
pub(crate) fn gateway_frame(
    kind: FrameType,
    content: Value,
    correlation_id: Option<&str>,
    now_ms: u64,
) -> Value {
    let mut frame = json!({"type": kind.name(), "from": GATEWAY, "content": content, "timestamp": now_ms});
    if let Some(id) = correlation_id {
        set_correlation_id(&mut frame, id);
    }
    frame
}

/// Builds an error frame. The name is at the top level too, where the specification and older
/// clients expect it.
pub(crate) fn error_frame(error: &GatewayError, correlation_id: Option<&str>, now_ms: u64) -> Value {
    let (code, name) = error.code.parts();
    let content = json!({"error": name, "message": error.message, "code": code});
    let mut frame = gateway_frame(FrameType::Error, content, correlation_id, now_ms);
    frame["error"] = json!(name);
    frame
}

/// Builds the frame that precedes the close of a connection.
pub(crate) fn disconnect_frame(reason: &str) -> Value {
    json!({"type": FrameType::Disconnect.name(), "content": {"reason": reason}})
}

/// Sets the correlation in `metadata` and at the top level, where older clients expect it.
pub(crate) fn set_correlation_id(frame: &mut Value, id: &str) {
    if !frame["metadata"].is_object() {
        frame["metadata"] = json!({});
    }
    frame["metadata"]["correlationId"] = json!(id);
    frame["correlationId"] = json!(id);
}

#[cfg(test)]
mod tests;
