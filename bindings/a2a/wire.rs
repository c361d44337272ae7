//! The envelope: what every frame has around its content, read from text and written back.
//!
//! A frame is read in two steps, because a gateway that wants a token first needs the type before it may look at the
//! content (`content.rs`). Fields that we do not know stay in the frame and travel on with it.

use serde_json::{Map, Value, json};

use super::codes::{ErrorCode, Refusal};
use super::instant;

/// What the gateway calls itself in `from`; nobody else may.
pub(crate) const GATEWAY: &str = "gateway";

/// The version of the protocol that is spoken here.
pub(crate) const PROTOCOL_VERSION: &str = "1.0.0";

/// Longest id, in bytes: of a message, a session, a correlation, a thread, a proposal.
/// They are kept in tables while somebody waits; a longer one is data, and gets 2005.
pub(crate) const ID_BYTES_MAX: usize = 256;

/// Longest name of an agent, in bytes; it is a folder's name too.
pub(crate) const AGENT_BYTES_MAX: usize = 64;

/// The types of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
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

impl Type {
    /// Every type.
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

    /// Its name on the wire.
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

    /// The type of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Whether a client without a token may send it where one is wanted.
    pub(crate) fn is_free(self) -> bool {
        matches!(self, Self::Handshake | Self::Auth | Self::Ping | Self::Pong | Self::Disconnect)
    }
}

/// How urgent a message is. The greater one goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Low,
    #[default]
    Normal,
    High,
    Critical,
}

impl Priority {
    /// The priority of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "low" => Some(Self::Low),
            "normal" => Some(Self::Normal),
            "high" => Some(Self::High),
            "critical" => Some(Self::Critical),
            _ => None,
        }
    }
}

/// What the gateway acts upon in `metadata`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) priority: Priority,
    pub(crate) requires_response: bool,
    pub(crate) parent_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) ttl_ms: Option<u64>,
    /// The sender would rather wait for an agent that is offline or busy than be refused.
    pub(crate) queue: bool,
}

/// A frame with its envelope checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) kind: Type,
    pub(crate) id: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) timestamp_ms: Option<u64>,
    pub(crate) metadata: Metadata,
    /// The whole frame, as it travels on.
    pub(crate) fields: Map<String, Value>,
}

/// A frame that could not be read, with the correlation that its answer carries as far as that could.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unreadable {
    pub(crate) refusal: Refusal,
    pub(crate) correlation_id: Option<String>,
}

impl Envelope {
    /// Reads the envelope of a text.
    pub(crate) fn decode(text: &str) -> Result<Self, Unreadable> {
        let without = |refusal| Unreadable { refusal, correlation_id: None };
        let value = serde_json::from_str(text)
            .map_err(|error| without(Refusal::new(ErrorCode::InvalidJson, format!("not JSON: {error}"))))?;
        match value {
            Value::Object(fields) => Self::of_fields(fields),
            _ => Err(without(Refusal::mistyped("message", "an object"))),
        }
    }

    /// Checks the envelope of a frame that never was a text.
    pub(crate) fn of_fields(fields: Map<String, Value>) -> Result<Self, Unreadable> {
        let correlation_id = readable_correlation(&fields);
        Self::checked(fields).map_err(|refusal| Unreadable { refusal, correlation_id })
    }

    fn checked(fields: Map<String, Value>) -> Result<Self, Refusal> {
        let kind = match fields.get("type") {
            None => return Err(Refusal::missing("type")),
            Some(Value::String(name)) => Type::of(name).ok_or_else(|| {
                Refusal::new(ErrorCode::UnknownType, format!("Unknown message type: {}", cut(name)))
            })?,
            Some(_) => return Err(Refusal::mistyped("type", "a string")),
        };
        let timestamp_ms = match fields.get("timestamp") {
            None | Some(Value::Null) => None,
            Some(time) => Some(
                instant::milliseconds(time)
                    .ok_or_else(|| Refusal::mistyped("timestamp", "milliseconds or a date of ISO 8601"))?,
            ),
        };
        Ok(Self {
            kind,
            id: identifier(&fields, "id")?,
            agent: text(&fields, "agent")?,
            from: text(&fields, "from")?,
            session_id: identifier(&fields, "sessionId")?,
            timestamp_ms,
            metadata: metadata(&fields)?,
            fields,
        })
    }

    /// The content, which some types do without.
    pub(crate) fn content(&self) -> Option<&Value> {
        self.fields.get("content")
    }
}

fn metadata(fields: &Map<String, Value>) -> Result<Metadata, Refusal> {
    let empty = Map::new();
    let given = match fields.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Refusal::mistyped("metadata", "an object")),
    };
    let priority = match text(given, "priority")? {
        None => Priority::default(),
        Some(name) => Priority::of(&name)
            .ok_or_else(|| Refusal::invalid("metadata.priority", "low, normal, high or critical"))?,
    };
    let ttl_ms = match given.get("ttl") {
        None | Some(Value::Null) => None,
        Some(ttl) => {
            let seconds = ttl.as_f64().ok_or_else(|| Refusal::mistyped("metadata.ttl", "seconds"))?;
            if seconds < 0.0 {
                return Err(Refusal::invalid("metadata.ttl", "seconds to live, not below 0"));
            }
            Some((seconds * 1000.0) as u64)
        }
    };
    // A client of the older gateway puts its correlation beside the metadata.
    let correlation_id = match identifier(given, "correlationId")? {
        Some(id) => Some(id),
        None => identifier(fields, "correlationId")?,
    };
    identifier(given, "threadId")?;
    Ok(Metadata {
        priority,
        requires_response: flag(given, "requiresResponse")?,
        parent_id: identifier(given, "parentId")?,
        correlation_id,
        ttl_ms,
        queue: flag(given, "queue")?,
    })
}

/// A string that may be absent; `null` counts as absent.
pub(crate) fn text(of: &Map<String, Value>, field: &str) -> Result<Option<String>, Refusal> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::mistyped(field, "a string")),
    }
}

/// A string that is kept in tables.
pub(crate) fn identifier(of: &Map<String, Value>, field: &str) -> Result<Option<String>, Refusal> {
    match text(of, field)? {
        Some(id) if id.len() > ID_BYTES_MAX => {
            Err(Refusal::invalid(field, &format!("at most {ID_BYTES_MAX} bytes")))
        }
        id => Ok(id),
    }
}

fn flag(of: &Map<String, Value>, field: &str) -> Result<bool, Refusal> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Refusal::mistyped(field, "true or false")),
    }
}

fn readable_correlation(fields: &Map<String, Value>) -> Option<String> {
    let in_metadata = fields.get("metadata").and_then(|metadata| metadata.get("correlationId"));
    let id = in_metadata.or_else(|| fields.get("correlationId"))?.as_str()?;
    (id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}

/// A stranger's word, short enough to be repeated to it.
pub(crate) fn cut(word: &str) -> &str {
    word.get(..word.floor_char_boundary(ID_BYTES_MAX)).unwrap_or_default()
}

/// Whether an agent may be called that: safe as a folder's name, and not the gateway's.
pub(crate) fn is_agent_name(name: &str) -> bool {
    let starts_well = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    starts_well && name.len() <= AGENT_BYTES_MAX && name.bytes().all(is_plain) && name != GATEWAY
}

/// A frame of the gateway's own.
pub(crate) fn from_gateway(kind: Type, content: Value, correlation_id: Option<&str>, now_ms: u64) -> Value {
    let mut frame = json!({"type": kind.name(), "from": GATEWAY, "content": content, "timestamp": now_ms});
    if let Some(id) = correlation_id {
        correlate(&mut frame, id);
    }
    frame
}

/// An error: its name stands at the top too, where the table of types wants it and older clients look.
pub(crate) fn error(refusal: &Refusal, correlation_id: Option<&str>, now_ms: u64) -> Value {
    let (code, name) = refusal.code.parts();
    let content = json!({"error": name, "message": refusal.message, "code": code});
    let mut frame = from_gateway(Type::Error, content, correlation_id, now_ms);
    frame["error"] = json!(name);
    frame
}

/// What either side says before it closes the connection.
pub(crate) fn disconnect(reason: &str) -> Value {
    json!({"type": Type::Disconnect.name(), "content": {"reason": reason}})
}

/// Puts the correlation where the clients of both kinds look for it.
pub(crate) fn correlate(frame: &mut Value, id: &str) {
    if !frame["metadata"].is_object() {
        frame["metadata"] = json!({});
    }
    frame["metadata"]["correlationId"] = json!(id);
    frame["correlationId"] = json!(id);
}

#[cfg(test)]
mod tests;
