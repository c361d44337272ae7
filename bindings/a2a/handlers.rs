//! The bindings of agents and messages: they turn calls of scripts into frames.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::agent_sessions::{AgentSessions, RegistrationKey, RegistrationKind};
use super::agent_task::ScriptCallback;
use super::codes::GatewayError;
use super::driver::now_ms;
use super::fipa;
use super::replies::{message_content, reply_frame};
use super::wire::FrameType;
use crate::binding::{BindingError, Call, FunctionRef, Handler, handler, typed};
use crate::bindings::Handlers;
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegisterInput {
    name: String,
    role: Option<String>,
    on_message: Value,
    gateway: Option<String>,
}

#[derive(Deserialize)]
struct UnregisterInput {
    name: String,
    gateway: Option<String>,
}

/// The input of `a2a.send` and `a2a.request`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageInput {
    agent: String,
    content: Option<Value>,
    service: Option<String>,
    args: Option<Value>,
    role: Option<String>,
    session_id: Option<String>,
    priority: Option<String>,
    ttl: Option<f64>,
    thread_id: Option<String>,
    #[serde(default)]
    queue: bool,
    from: Option<String>,
    gateway: Option<String>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
struct ReplyInput {
    to: Value,
    content: Option<Value>,
    result: Option<Value>,
    role: Option<String>,
    gateway: Option<String>,
}

#[derive(Deserialize)]
struct BroadcastInput {
    message: Value,
    from: Option<String>,
    gateway: Option<String>,
}

#[derive(Deserialize)]
struct DiscoverInput {
    #[serde(default)]
    what: Discoverable,
    gateway: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Discoverable {
    #[default]
    Agents,
    Workspaces,
    Services,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscribeInput {
    channel: String,
    agents: Option<Vec<String>>,
    on_event: Value,
    gateway: Option<String>,
}

#[derive(Deserialize)]
struct StatusInput {
    agent: String,
    status: Option<String>,
    gateway: Option<String>,
}

/// Returns the handlers of agents and messages.
pub(crate) fn handlers(sessions: &Arc<AgentSessions>) -> Handlers {
    vec![
        ("a2a.register", with_sessions(sessions, register)),
        ("a2a.unregister", with_sessions(sessions, unregister)),
        ("a2a.send", with_sessions(sessions, send)),
        ("a2a.request", with_sessions(sessions, request)),
        ("a2a.reply", with_sessions(sessions, reply)),
        ("a2a.broadcast", with_sessions(sessions, broadcast)),
        ("a2a.discover", with_sessions(sessions, discover)),
        ("a2a.subscribe", with_sessions(sessions, subscribe)),
        ("a2a.status", with_sessions(sessions, status)),
        ("a2a.gateways", with_sessions(sessions, list_gateways)),
        ("a2a.fipa.toFipa", typed(|input, _| translate(input, fipa::to_fipa))),
        ("a2a.fipa.fromFipa", typed(|input, _| translate(input, |acl| fipa::from_fipa(acl, now_ms())))),
    ]
}

/// Makes a handler from a function that takes the shared agent sessions as well.
pub(crate) fn with_sessions<I, O, F, Fut>(sessions: &Arc<AgentSessions>, function: F) -> Arc<dyn Handler>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    F: Fn(Arc<AgentSessions>, I, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
{
    let sessions = Arc::clone(sessions);
    typed(move |input, call| function(Arc::clone(&sessions), input, call))
}

/// Returns the fields of a frame that this module built as an object.
pub(crate) fn into_fields(frame: Value) -> Map<String, Value> {
    match frame {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Converts a value of a script to the JSON that other programs read.
pub(crate) fn to_plain_json(value: Value) -> Result<Value, BindingError> {
    to_plain(value).map_err(|error| BindingError::of_kind(Kind::InvalidInput, error.to_string()))
}

fn function_param(call: &Call, value: &Value, name: &str) -> Result<FunctionRef, BindingError> {
    let wrong = || BindingError::of_kind(Kind::InvalidInput, format!("{name}: expected a function"));
    call.function(value).ok_or_else(wrong)
}

async fn register(
    sessions: Arc<AgentSessions>,
    input: RegisterInput,
    call: Call,
) -> Result<Value, BindingError> {
    let callback = ScriptCallback {
        function: function_param(&call, &input.on_message, "onMessage")?,
        agent: Some(input.name.clone()),
    };
    let mut content = json!({"action": "advertise", "capabilities": {"supportedAgents": [input.name]}});
    if let Some(role) = input.role {
        content["role"] = json!(role);
    }
    let handshake = json!({"type": FrameType::Handshake.name(), "from": input.name, "content": content});
    let key = RegistrationKey { gateway: input.gateway, kind: RegistrationKind::Agent(input.name.clone()) };
    sessions.register(key, callback, into_fields(handshake), &call).await?;
    Ok(json!({"name": input.name}))
}

async fn unregister(
    sessions: Arc<AgentSessions>,
    input: UnregisterInput,
    call: Call,
) -> Result<bool, BindingError> {
    let key = RegistrationKey { gateway: input.gateway, kind: RegistrationKind::Agent(input.name) };
    Ok(sessions.unregister(&key, &call.session.id))
}

impl MessageInput {
    /// Builds a `request` if a service is named, else a `message`.
    fn to_frame(&self) -> Result<Map<String, Value>, BindingError> {
        let (kind, content) = match (&self.service, &self.content) {
            (Some(service), _) => {
                let args = to_plain_json(self.args.clone().unwrap_or(Value::Null))?;
                (FrameType::Request, json!({"service": service, "args": args}))
            }
            (None, Some(content)) => {
                let role = self.role.as_deref().unwrap_or("user");
                (FrameType::Message, message_content(to_plain_json(content.clone())?, role))
            }
            (None, None) => {
                let message = "expected `content` or `service`";
                return Err(BindingError::of_kind(Kind::InvalidInput, message));
            }
        };
        let mut frame = into_fields(json!({"type": kind.name(), "agent": self.agent, "content": content}));
        let envelope = [("from", &self.from), ("sessionId", &self.session_id)];
        for (field, value) in envelope {
            if let Some(value) = value {
                frame.insert(field.to_owned(), json!(value));
            }
        }
        let mut metadata = json!({});
        if let Some(priority) = &self.priority {
            metadata["priority"] = json!(priority);
        }
        if let Some(ttl) = self.ttl {
            metadata["ttl"] = json!(ttl);
        }
        if let Some(thread_id) = &self.thread_id {
            metadata["threadId"] = json!(thread_id);
        }
        if self.queue {
            metadata["queue"] = json!(true);
        }
        frame.insert("metadata".to_owned(), metadata);
        Ok(frame)
    }
}

async fn send(sessions: Arc<AgentSessions>, input: MessageInput, call: Call) -> Result<Value, BindingError> {
    let mut frame = input.to_frame()?;
    let id = json!(format!("msg-{}", uuid::Uuid::new_v4()));
    frame.insert("id".to_owned(), id.clone());
    sessions.send(input.gateway.as_deref(), frame, &call).await?;
    Ok(json!({"id": id}))
}

async fn request(
    sessions: Arc<AgentSessions>,
    input: MessageInput,
    call: Call,
) -> Result<Value, BindingError> {
    let mut frame = input.to_frame()?;
    if let Some(metadata) = frame.get_mut("metadata") {
        metadata["requiresResponse"] = json!(true);
    }
    let timeout = input.timeout_ms.map(Duration::from_millis);
    sessions.request(input.gateway.as_deref(), frame, timeout, &call).await.map(from_plain)
}

/// Replies to a message after `onMessage` has returned.
async fn reply(sessions: Arc<AgentSessions>, input: ReplyInput, call: Call) -> Result<(), BindingError> {
    let to = to_plain_json(input.to)?;
    let Some(agent) = to["agent"].as_str() else {
        return Err(BindingError::of_kind(
            Kind::InvalidInput,
            "to: expected a message that an agent received",
        ));
    };
    let frame = if to["type"] == FrameType::Request.name() {
        let result = to_plain_json(input.result.or(input.content).unwrap_or(Value::Null))?;
        reply_frame(agent, &to, FrameType::Response, json!({"result": result}))
    } else {
        let content = to_plain_json(input.content.or(input.result).unwrap_or(Value::Null))?;
        reply_frame(
            agent,
            &to,
            FrameType::Message,
            message_content(content, input.role.as_deref().unwrap_or("assistant")),
        )
    };
    sessions.send(input.gateway.as_deref(), frame, &call).await
}

async fn broadcast(
    sessions: Arc<AgentSessions>,
    input: BroadcastInput,
    call: Call,
) -> Result<Value, BindingError> {
    let mut frame = into_fields(
        json!({"type": FrameType::Broadcast.name(), "content": {"message": to_plain_json(input.message)?}}),
    );
    if let Some(from) = input.from {
        frame.insert("from".to_owned(), json!(from));
    }
    let reply = sessions.request(input.gateway.as_deref(), frame, None, &call).await?;
    Ok(from_plain(reply["content"]["result"].clone()))
}

async fn discover(
    sessions: Arc<AgentSessions>,
    input: DiscoverInput,
    call: Call,
) -> Result<Value, BindingError> {
    let (action, field) = match input.what {
        Discoverable::Agents => ("list", "agents"),
        Discoverable::Workspaces => ("workspaces", "workspaces"),
        Discoverable::Services => ("services", "services"),
    };
    let frame = into_fields(json!({"type": FrameType::Discovery.name(), "content": {"action": action}}));
    let reply = sessions.request(input.gateway.as_deref(), frame, None, &call).await?;
    Ok(from_plain(reply["content"][field].clone()))
}

/// Returns a function that ends the subscription.
async fn subscribe(
    sessions: Arc<AgentSessions>,
    input: SubscribeInput,
    call: Call,
) -> Result<Value, BindingError> {
    let callback =
        ScriptCallback { function: function_param(&call, &input.on_event, "onEvent")?, agent: None };
    let mut content = json!({"channel": input.channel});
    if let Some(agents) = input.agents {
        content["agents"] = json!(agents);
    }
    let frame = into_fields(json!({"type": FrameType::Subscribe.name(), "content": content}));
    let kind = RegistrationKind::Subscription(sessions.next_id());
    let key = RegistrationKey { gateway: input.gateway, kind };
    sessions.register(key.clone(), callback, frame, &call).await?;
    let unsubscribe = handler(move |_, call: Call| {
        let ended = sessions.unregister(&key, &call.session.id);
        async move { Ok(json!(ended)) }
    });
    Ok(call.export("unsubscribe", unsubscribe))
}

/// Sets the status of an agent of this session if one is given, and returns the status of the
/// agent.
async fn status(sessions: Arc<AgentSessions>, input: StatusInput, call: Call) -> Result<Value, BindingError> {
    let gateway = input.gateway.as_deref();
    if let Some(status) = input.status {
        let frame =
            json!({"type": FrameType::Status.name(), "from": input.agent, "content": {"status": status}});
        sessions.send(gateway, into_fields(frame), &call).await?;
    }
    let frame = into_fields(json!({"type": FrameType::Discovery.name(), "content": {"action": "list"}}));
    let reply = sessions.request(gateway, frame, None, &call).await?;
    let agents = reply["content"]["agents"].as_array();
    let found = agents.and_then(|agents| agents.iter().find(|agent| agent["name"] == input.agent.as_str()));
    found.map(|agent| agent["status"].clone()).ok_or_else(|| {
        BindingError::with_code(3001, format!("Agent not found: {}", input.agent))
            .data(json!({"kind": "AGENT_NOT_FOUND"}))
    })
}

async fn list_gateways(sessions: Arc<AgentSessions>, _: Value, _: Call) -> Result<Value, BindingError> {
    Ok(sessions.list_gateways())
}

async fn translate(
    input: Value,
    translate: impl FnOnce(&Map<String, Value>) -> Result<Value, GatewayError>,
) -> Result<Value, BindingError> {
    let invalid = |message: String| BindingError::of_kind(Kind::InvalidInput, message);
    let message = to_plain_json(input)?;
    let fields = message.as_object().ok_or_else(|| invalid("expected a message object".to_owned()))?;
    Ok(from_plain(translate(fields).map_err(|error| invalid(error.to_string()))?))
}
