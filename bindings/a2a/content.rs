//! What stands in the content of each type, checked: an enum that cannot hold a frame which lacks what its type needs.

use serde_json::{Map, Value};

use super::codes::{ErrorCode, Refusal};
use super::instant;
use super::registry::Status;
use super::triad::Vote;
use super::wire::{AGENT_BYTES_MAX, Envelope, PROTOCOL_VERSION, Type, cut, identifier, is_agent_name, text};

/// Most agents that one subscription may name: all that a gateway keeps would be no list any more.
pub(crate) const AGENTS_SUBSCRIBED_MAX: usize = 256;

/// The service that the gateway itself provides.
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

/// What is to be discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    Agents,
    Workspaces,
    Services,
}

/// What can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Changes of the agents' states.
    Status,
    /// What agents announce with frames of type `event`.
    Events,
}

impl Channel {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "agent:status",
            Self::Events => "agent:events",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Status, Self::Events].into_iter().find(|channel| channel.name() == name)
    }
}

/// What a client wants of the session store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionRequest {
    Create {
        agent: String,
        session_id: Option<String>,
    },
    List {
        agent: Option<String>,
    },
    Get {
        agent: String,
        session_id: String,
    },
    Commit {
        agent: String,
        session_id: String,
    },
    Archive {
        agent: String,
        which: Archived,
    },
    Delete {
        agent: String,
        session_id: String,
    },
    /// The lines of a session, to be imported elsewhere.
    Export {
        agent: String,
        session_id: String,
    },
    Import {
        agent: String,
        session_id: Option<String>,
        data: String,
    },
}

impl SessionRequest {
    /// The agent whose sessions are meant; none means all.
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

/// Which sessions are to be set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Archived {
    One(String),
    OlderThan { age_ms: u64 },
}

impl Body {
    /// Checks the content of a frame against its type.
    pub(crate) fn decode(envelope: &Envelope) -> Result<Self, Refusal> {
        match envelope.kind {
            Type::Ping => return Ok(Self::Ping),
            Type::Pong => return Ok(Self::Pong),
            Type::Decision | Type::AuthResponse => {
                let message = format!("only the gateway sends {}", envelope.kind.name());
                return Err(Refusal::new(ErrorCode::PermissionDenied, message));
            }
            Type::Register => return register(envelope),
            _ => {}
        }
        let content = match envelope.content() {
            None => return Err(Refusal::missing("content")),
            Some(Value::Object(content)) => content,
            Some(_) => return Err(Refusal::mistyped("content", "an object")),
        };
        match envelope.kind {
            Type::Message => message(content),
            Type::Status => status(content),
            Type::Error => error(envelope, content),
            Type::Event => event(envelope, content),
            Type::Handshake => handshake(content),
            Type::Discovery => discovery(content),
            Type::Workspace => workspace(content),
            Type::Subscribe => subscribe(content),
            Type::Unsubscribe => Ok(Self::Unsubscribe { channel: channel(content)? }),
            Type::Auth => Ok(Self::Auth { token: required(content, "token")? }),
            Type::Disconnect => disconnect(content),
            Type::Proposal => proposal(content),
            Type::Vote => vote(content),
            Type::Request => request(envelope, content),
            Type::Response => present(content, "result").map(|()| Self::Response),
            Type::Broadcast => present(content, "message").map(|()| Self::Broadcast),
            Type::Ping | Type::Pong | Type::Decision | Type::AuthResponse | Type::Register => {
                Err(Refusal::invalid("type", "one that has a content"))
            }
        }
    }
}

fn in_content(mut refusal: Refusal) -> Refusal {
    refusal.message = format!("content.{}", refusal.message);
    refusal
}

fn required(content: &Map<String, Value>, field: &str) -> Result<String, Refusal> {
    let found = text(content, field).map_err(in_content)?;
    found.ok_or_else(|| Refusal::missing(&format!("content.{field}")))
}

fn optional_id(content: &Map<String, Value>, field: &str) -> Result<Option<String>, Refusal> {
    identifier(content, field).map_err(in_content)
}

fn present(content: &Map<String, Value>, field: &str) -> Result<(), Refusal> {
    if content.contains_key(field) { Ok(()) } else { Err(Refusal::missing(&format!("content.{field}"))) }
}

fn message(content: &Map<String, Value>) -> Result<Body, Refusal> {
    let role = match content.get("role") {
        Some(Value::String(role)) if ["user", "assistant", "system", "agent"].contains(&role.as_str()) => {
            role
        }
        _ => return Err(Refusal::invalid("content.role", "user, assistant, system or agent")),
    };
    match content.get("content") {
        Some(inner @ (Value::String(_) | Value::Object(_) | Value::Array(_))) => {
            Ok(Body::Message { role: role.clone(), content: inner.clone() })
        }
        _ => Err(Refusal::invalid("content.content", "a string or an object")),
    }
}

fn status(content: &Map<String, Value>) -> Result<Body, Refusal> {
    let name = required(content, "status")?;
    Status::of(&name)
        .map(Body::Status)
        .ok_or_else(|| Refusal::invalid("content.status", "online, offline, busy, idle or error"))
}

/// Two documents disagree on where the name of an error stands; both places will do.
fn error(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, Refusal> {
    let is_named = envelope.fields.contains_key("error") || content.contains_key("error");
    if is_named { Ok(Body::Error) } else { Err(Refusal::missing("error")) }
}

fn event(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, Refusal> {
    let event = match text(&envelope.fields, "event")? {
        Some(event) => Some(event),
        None => text(content, "event").map_err(in_content)?,
    };
    event.map(|event| Body::Event { event }).ok_or_else(|| Refusal::missing("event"))
}

fn handshake(content: &Map<String, Value>) -> Result<Body, Refusal> {
    if required(content, "action")? != "advertise" {
        return Err(Refusal::invalid("content.action", "advertise"));
    }
    let capabilities = match content.get("capabilities") {
        None | Some(Value::Null) => return Ok(Body::Advertise),
        Some(Value::Object(capabilities)) => capabilities,
        Some(_) => return Err(Refusal::mistyped("content.capabilities", "an object")),
    };
    match text(capabilities, "version").map_err(in_content)? {
        Some(version) if !is_spoken(&version) => {
            let message = format!("unsupported version {}, expected {PROTOCOL_VERSION}", cut(&version));
            Err(Refusal::new(ErrorCode::ProtocolError, message))
        }
        _ => Ok(Body::Advertise),
    }
}

/// Versions differ where it matters only in their first number.
fn is_spoken(version: &str) -> bool {
    version.split('.').next() == PROTOCOL_VERSION.split('.').next()
}

/// A word of the older gateway: its name stands beside the type.
fn register(envelope: &Envelope) -> Result<Body, Refusal> {
    let named = text(&envelope.fields, "agentId")?.or_else(|| envelope.from.clone());
    let name = named.ok_or_else(|| Refusal::missing("agentId"))?;
    Ok(Body::Register { name: agent_name(name)? })
}

/// A name that an agent may bear.
pub(crate) fn agent_name(name: String) -> Result<String, Refusal> {
    if is_agent_name(&name) {
        Ok(name)
    } else {
        Err(Refusal::invalid("agent name", "letters, digits, - _ and ., at most 64, and not gateway"))
    }
}

fn discovery(content: &Map<String, Value>) -> Result<Body, Refusal> {
    match required(content, "action")?.as_str() {
        "list" | "agents" => Ok(Body::Discovery(Discovery::Agents)),
        "workspaces" => Ok(Body::Discovery(Discovery::Workspaces)),
        "services" => Ok(Body::Discovery(Discovery::Services)),
        _ => Err(Refusal::invalid("content.action", "list, workspaces or services")),
    }
}

fn workspace(content: &Map<String, Value>) -> Result<Body, Refusal> {
    match required(content, "action")?.as_str() {
        "list" => Ok(Body::Workspaces { agent: None }),
        "get" => Ok(Body::Workspaces { agent: Some(required(content, "agent")?) }),
        _ => Err(Refusal::invalid("content.action", "list or get")),
    }
}

fn channel(content: &Map<String, Value>) -> Result<Channel, Refusal> {
    let name = required(content, "channel")?;
    Channel::of(&name).ok_or_else(|| Refusal::invalid("content.channel", "agent:status or agent:events"))
}

fn subscribe(content: &Map<String, Value>) -> Result<Body, Refusal> {
    let channel = channel(content)?;
    let agents = match content.get("agents") {
        None | Some(Value::Null) => None,
        Some(Value::Array(names)) if names.len() <= AGENTS_SUBSCRIBED_MAX => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            let names = names.ok_or_else(|| Refusal::mistyped("content.agents", "names of agents"))?;
            if names.iter().any(|name| name.len() > AGENT_BYTES_MAX) {
                return Err(Refusal::invalid("content.agents", "names of agents"));
            }
            Some(names)
        }
        Some(Value::Array(_)) => {
            return Err(Refusal::invalid(
                "content.agents",
                &format!("at most {AGENTS_SUBSCRIBED_MAX} names"),
            ));
        }
        Some(_) => return Err(Refusal::mistyped("content.agents", "names of agents")),
    };
    Ok(Body::Subscribe { channel, agents })
}

fn disconnect(content: &Map<String, Value>) -> Result<Body, Refusal> {
    match required(content, "reason")?.as_str() {
        "shutdown" | "timeout" | "error" | "manual" => Ok(Body::Disconnect),
        _ => Err(Refusal::invalid("content.reason", "shutdown, timeout, error or manual")),
    }
}

fn proposal(content: &Map<String, Value>) -> Result<Body, Refusal> {
    required(content, "proposal")?;
    let deadline_ms = match content.get("deadline") {
        None | Some(Value::Null) => None,
        Some(time) => Some(
            instant::milliseconds(time)
                .ok_or_else(|| Refusal::mistyped("content.deadline", "milliseconds or a date of ISO 8601"))?,
        ),
    };
    Ok(Body::Proposal { deadline_ms })
}

fn vote(content: &Map<String, Value>) -> Result<Body, Refusal> {
    let proposal_id =
        optional_id(content, "proposalId")?.ok_or_else(|| Refusal::missing("content.proposalId"))?;
    let name = required(content, "vote")?;
    let vote =
        Vote::of(&name).ok_or_else(|| Refusal::invalid("content.vote", "approve, reject or abstain"))?;
    Ok(Body::Vote { proposal_id, vote })
}

fn request(envelope: &Envelope, content: &Map<String, Value>) -> Result<Body, Refusal> {
    if required(content, "service")? == SESSION_SERVICE {
        session(envelope, content).map(Body::Session)
    } else {
        Ok(Body::Request)
    }
}

fn session(envelope: &Envelope, content: &Map<String, Value>) -> Result<SessionRequest, Refusal> {
    let action = required(content, "action")?;
    let agent = text(content, "agent").map_err(in_content)?.or_else(|| envelope.agent.clone());
    let session_id = optional_id(content, "sessionId")?.or_else(|| envelope.session_id.clone());
    let agent_of = |agent: Option<String>| agent.ok_or_else(|| Refusal::missing("content.agent"));
    let id_of = |id: Option<String>| id.ok_or_else(|| Refusal::missing("content.sessionId"));
    Ok(match action.as_str() {
        "create" => SessionRequest::Create { agent: agent_of(agent)?, session_id },
        "list" => SessionRequest::List { agent },
        "get" => SessionRequest::Get { agent: agent_of(agent)?, session_id: id_of(session_id)? },
        "commit" => SessionRequest::Commit { agent: agent_of(agent)?, session_id: id_of(session_id)? },
        "delete" => SessionRequest::Delete { agent: agent_of(agent)?, session_id: id_of(session_id)? },
        "export" => SessionRequest::Export { agent: agent_of(agent)?, session_id: id_of(session_id)? },
        "import" => {
            SessionRequest::Import { agent: agent_of(agent)?, session_id, data: required(content, "data")? }
        }
        "archive" => {
            let which = match content.get("olderThan") {
                None | Some(Value::Null) => Archived::One(id_of(session_id)?),
                Some(age) => Archived::OlderThan { age_ms: age_ms(age)? },
            };
            SessionRequest::Archive { agent: agent_of(agent)?, which }
        }
        _ => {
            let actions = "create, list, get, commit, archive, delete, export or import";
            return Err(Refusal::invalid("content.action", actions));
        }
    })
}

/// `"7d"`, `"12h"`, `"30m"`, `"45s"`, or milliseconds.
fn age_ms(age: &Value) -> Result<u64, Refusal> {
    let wrong = || Refusal::invalid("content.olderThan", "an age such as \"7d\", or milliseconds");
    if let Some(age) = age.as_u64() {
        return Ok(age);
    }
    let text = age.as_str().ok_or_else(wrong)?;
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let (count, unit) = units
        .into_iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|count| (count, unit)))
        .ok_or_else(wrong)?;
    count.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
