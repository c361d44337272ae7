//! The bindings of agents and messages: what scripts call, turned into frames.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{reply, spoken};
use super::desk::{Desk, Place, What};
use super::driver::now_ms;
use super::fipa;
use super::party::Script;
use super::wire::Type;
use crate::binding::{BindingError, Call, FunctionRef, handler, typed};
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

/// Whom to say something, and how.
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

/// The handlers of agents and messages.
pub(crate) fn handlers(desk: &Arc<Desk>) -> Handlers {
    let shared = || Arc::clone(desk);
    let (register_at, unregister_at, send_at, request_at) = (shared(), shared(), shared(), shared());
    let (reply_at, broadcast_at, discover_at) = (shared(), shared(), shared());
    let (subscribe_at, status_at, list_at) = (shared(), shared(), shared());
    vec![
        ("a2a.register", typed(move |input, call| register(Arc::clone(&register_at), input, call))),
        ("a2a.unregister", typed(move |input, call| unregister(Arc::clone(&unregister_at), input, call))),
        ("a2a.send", typed(move |input, call| send(Arc::clone(&send_at), input, call))),
        ("a2a.request", typed(move |input, call| request(Arc::clone(&request_at), input, call))),
        ("a2a.reply", typed(move |input, call| reply_to(Arc::clone(&reply_at), input, call))),
        ("a2a.broadcast", typed(move |input, call| broadcast(Arc::clone(&broadcast_at), input, call))),
        ("a2a.discover", typed(move |input, call| discover(Arc::clone(&discover_at), input, call))),
        ("a2a.subscribe", typed(move |input, call| subscribe(Arc::clone(&subscribe_at), input, call))),
        ("a2a.status", typed(move |input, call| status(Arc::clone(&status_at), input, call))),
        ("a2a.gateways", typed(move |_: Value, _| gateways(Arc::clone(&list_at)))),
        ("a2a.fipa.toFipa", typed(|input, _| translate(input, fipa::to_fipa))),
        ("a2a.fipa.fromFipa", typed(|input, _| translate(input, |acl| fipa::from_fipa(acl, now_ms())))),
    ]
}

/// The fields of an object that is made here.
pub(crate) fn fields(frame: Value) -> Map<String, Value> {
    match frame {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A value of a script as other programs read it.
pub(crate) fn plain(value: Value) -> Result<Value, BindingError> {
    to_plain(value).map_err(|error| BindingError::of_kind(Kind::InvalidInput, error.to_string()))
}

fn function(call: &Call, place: &Value, name: &str) -> Result<FunctionRef, BindingError> {
    let wrong = || BindingError::of_kind(Kind::InvalidInput, format!("{name}: expected a function"));
    call.function(place).ok_or_else(wrong)
}

async fn register(desk: Arc<Desk>, input: RegisterInput, call: Call) -> Result<Value, BindingError> {
    let script = Script {
        function: function(&call, &input.on_message, "onMessage")?,
        agent: Some(input.name.clone()),
    };
    let mut content = json!({"action": "advertise", "capabilities": {"supportedAgents": [input.name]}});
    if let Some(role) = input.role {
        content["role"] = json!(role);
    }
    let hello = json!({"type": Type::Handshake.name(), "from": input.name, "content": content});
    let place = Place { gateway: input.gateway, what: What::Agent(input.name.clone()) };
    desk.keep(place, script, fields(hello), &call).await?;
    Ok(json!({"name": input.name}))
}

async fn unregister(desk: Arc<Desk>, input: UnregisterInput, call: Call) -> Result<bool, BindingError> {
    let place = Place { gateway: input.gateway, what: What::Agent(input.name) };
    Ok(desk.give_up(&place, &call.session.id))
}

impl MessageInput {
    /// The frame: a `request` if a service is named, else a `message`.
    fn frame(&self) -> Result<Map<String, Value>, BindingError> {
        let (kind, content) = match (&self.service, &self.content) {
            (Some(service), _) => {
                let args = plain(self.args.clone().unwrap_or(Value::Null))?;
                (Type::Request, json!({"service": service, "args": args}))
            }
            (None, Some(content)) => {
                let role = self.role.as_deref().unwrap_or("user");
                (Type::Message, spoken(plain(content.clone())?, role))
            }
            (None, None) => {
                let message = "expected content, or a service";
                return Err(BindingError::of_kind(Kind::InvalidInput, message));
            }
        };
        let mut frame = fields(json!({"type": kind.name(), "agent": self.agent, "content": content}));
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

async fn send(desk: Arc<Desk>, input: MessageInput, call: Call) -> Result<Value, BindingError> {
    let mut frame = input.frame()?;
    let id = json!(format!("msg-{}", uuid::Uuid::new_v4()));
    frame.insert("id".to_owned(), id.clone());
    desk.tell(input.gateway.as_deref(), frame, &call).await?;
    Ok(json!({"id": id}))
}

async fn request(desk: Arc<Desk>, input: MessageInput, call: Call) -> Result<Value, BindingError> {
    let mut frame = input.frame()?;
    if let Some(metadata) = frame.get_mut("metadata") {
        metadata["requiresResponse"] = json!(true);
    }
    let timeout = input.timeout_ms.map(Duration::from_millis);
    desk.ask(input.gateway.as_deref(), frame, timeout, &call).await.map(from_plain)
}

/// Answers a message later than by returning from `onMessage`.
async fn reply_to(desk: Arc<Desk>, input: ReplyInput, call: Call) -> Result<(), BindingError> {
    let to = plain(input.to)?;
    let Some(agent) = to["agent"].as_str() else {
        return Err(BindingError::of_kind(Kind::InvalidInput, "to: expected a message that an agent got"));
    };
    let frame = if to["type"] == Type::Request.name() {
        let result = plain(input.result.or(input.content).unwrap_or(Value::Null))?;
        reply(agent, &to, Type::Response, json!({"result": result}))
    } else {
        let said = plain(input.content.or(input.result).unwrap_or(Value::Null))?;
        reply(agent, &to, Type::Message, spoken(said, input.role.as_deref().unwrap_or("assistant")))
    };
    desk.tell(input.gateway.as_deref(), frame, &call).await
}

async fn broadcast(desk: Arc<Desk>, input: BroadcastInput, call: Call) -> Result<Value, BindingError> {
    let mut frame =
        fields(json!({"type": Type::Broadcast.name(), "content": {"message": plain(input.message)?}}));
    if let Some(from) = input.from {
        frame.insert("from".to_owned(), json!(from));
    }
    let answer = desk.ask(input.gateway.as_deref(), frame, None, &call).await?;
    Ok(from_plain(answer["content"]["result"].clone()))
}

async fn discover(desk: Arc<Desk>, input: DiscoverInput, call: Call) -> Result<Value, BindingError> {
    let (action, place) = match input.what {
        Discoverable::Agents => ("list", "agents"),
        Discoverable::Workspaces => ("workspaces", "workspaces"),
        Discoverable::Services => ("services", "services"),
    };
    let frame = fields(json!({"type": Type::Discovery.name(), "content": {"action": action}}));
    let answer = desk.ask(input.gateway.as_deref(), frame, None, &call).await?;
    Ok(from_plain(answer["content"][place].clone()))
}

/// Gives back a function that ends the subscription.
async fn subscribe(desk: Arc<Desk>, input: SubscribeInput, call: Call) -> Result<Value, BindingError> {
    let script = Script { function: function(&call, &input.on_event, "onEvent")?, agent: None };
    let mut content = json!({"channel": input.channel});
    if let Some(agents) = input.agents {
        content["agents"] = json!(agents);
    }
    let hello = fields(json!({"type": Type::Subscribe.name(), "content": content}));
    let place = Place { gateway: input.gateway, what: What::Subscription(desk.next_number()) };
    desk.keep(place.clone(), script, hello, &call).await?;
    let unsubscribe = handler(move |_, call: Call| {
        let ended = desk.give_up(&place, &call.session.id);
        async move { Ok(json!(ended)) }
    });
    Ok(call.export("unsubscribe", unsubscribe))
}

/// Tells the state of an agent of this session, or asks for that of any agent.
async fn status(desk: Arc<Desk>, input: StatusInput, call: Call) -> Result<Value, BindingError> {
    let gateway = input.gateway.as_deref();
    if let Some(status) = input.status {
        let frame = json!({"type": Type::Status.name(), "from": input.agent, "content": {"status": status}});
        desk.tell(gateway, fields(frame), &call).await?;
    }
    let frame = fields(json!({"type": Type::Discovery.name(), "content": {"action": "list"}}));
    let answer = desk.ask(gateway, frame, None, &call).await?;
    let agents = answer["content"]["agents"].as_array();
    let found = agents.and_then(|agents| agents.iter().find(|agent| agent["name"] == input.agent.as_str()));
    found.map(|agent| agent["status"].clone()).ok_or_else(|| {
        BindingError::with_code(3001, format!("Agent not found: {}", input.agent))
            .data(json!({"kind": "AGENT_NOT_FOUND"}))
    })
}

async fn gateways(desk: Arc<Desk>) -> Result<Value, BindingError> {
    Ok(desk.gateways())
}

async fn translate(
    input: Value,
    translate: impl FnOnce(&Map<String, Value>) -> Result<Value, super::codes::Refusal>,
) -> Result<Value, BindingError> {
    let wrong = |message: String| BindingError::of_kind(Kind::InvalidInput, message);
    let message = plain(input)?;
    let fields = message.as_object().ok_or_else(|| wrong("expected a message".to_owned()))?;
    Ok(from_plain(translate(fields).map_err(|refusal| wrong(refusal.to_string()))?))
}
