//! The Exoclaw protocol at both ends: a gateway whose agents are language models or scripts, and
//! connections to remote gateways for scripts.
//!
//! `wire` and the machines implement the protocol, `chat` the processing of a message. The tools of
//! a model agent are the server's bindings; a script agent is a function that a script registered.

mod agents;
mod budget;
mod chat;
mod config;
mod endpoint;
mod facts;
mod gateway;
mod locks;
mod machine;
mod model;
mod progress;
mod remote;
mod requests;
mod route;
mod store;
mod tool_session;
mod tools;
mod wire;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::routing::get;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::config::{Config, ServeConfig};
use self::endpoint::GatewayEndpoint;
use self::gateway::Gateway;
use self::remote::RemoteGateways;
use self::remote::chat::ChatResult;
use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, typed};
use crate::peering::{Background, Mount, MountGate, MountKind};
use crate::rpc::Kind;

/// The path of the gateway at its own address, which clients of this protocol expect.
const OWN_PATH: &str = "/ws";

/// Seconds since 1970.
fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[derive(Deserialize)]
struct GatewayInput {
    gateway: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatInput {
    gateway: Option<String>,
    #[serde(default)]
    on_event: Value,
    #[serde(flatten)]
    message: ChatMessage,
}

/// The parameters of `chat.send`. Absent ones are omitted.
#[derive(Deserialize, Serialize)]
struct ChatMessage {
    channel: String,
    account: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentInput {
    id: String,
    on_chat: Value,
}

/// Opens the store, mounts the gateway, and creates the links to remote gateways.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::deserialize(&context.config).map_err(|error| error.to_string())?;
    let Config { serve, gateways } = config;
    let mount_config = MountConfig::new(&serve);
    let policies = vec![("/serve/policy", serve.policy.clone())];
    let gateway = Arc::new(Gateway::open(serve, &context.folder)?);
    let (gateways, mut background) = RemoteGateways::new(gateways);
    let local = Arc::clone(&gateway);
    background.push(Background::new(move |host| async move { local.set_host(host) }));
    let mounts = mount_config.create_mounts(&gateway);
    let bindings = context.bind(handlers(&gateway, Arc::new(gateways)));
    Ok(PackageInstance { bindings, mounts, background, policies, ..PackageInstance::default() })
}

/// Where clients reach the gateway.
struct MountConfig {
    path: String,
    listen: Option<String>,
}

impl MountConfig {
    fn new(serve: &ServeConfig) -> Self {
        Self { path: serve.path.clone(), listen: serve.listen.clone() }
    }

    /// A gateway with a token authenticates its clients itself; otherwise the server does.
    fn create_mounts(self, gateway: &Arc<Gateway>) -> Vec<Mount> {
        let gate = if gateway.token.is_some() { MountGate::Own } else { MountGate::Server };
        let endpoint = Arc::new(GatewayEndpoint(Arc::clone(gateway)));
        let mut mounts = vec![Mount::web_socket(self.path, endpoint.clone()).gate(gate)];
        if let Some(listen) = self.listen {
            mounts.push(Mount::web_socket(OWN_PATH, endpoint).gate(gate).on(listen.clone()));
            let health = axum::Router::new().route("/health", get(|| async { "ok" }));
            let (path, kind) = ("/health".to_owned(), MountKind::Http(health));
            mounts.push(Mount { listen: Some(listen), path, gate: MountGate::Own, kind });
        }
        mounts
    }
}

fn handlers(gateway: &Arc<Gateway>, gateways: Arc<RemoteGateways>) -> Handlers {
    let call = |method: &'static str| {
        let gateways = Arc::clone(&gateways);
        typed(move |input: GatewayInput, _| call_gateway(Arc::clone(&gateways), input, method))
    };
    let (gateway, chats, listed) = (Arc::clone(gateway), Arc::clone(&gateways), Arc::clone(&gateways));
    vec![
        ("exoclaw.ping", call("ping")),
        ("exoclaw.status", call("status")),
        ("exoclaw.plugins", call("plugin.list")),
        ("exoclaw.chat", typed(move |input: ChatInput, call| send_chat(Arc::clone(&chats), input, call))),
        ("exoclaw.gateways", typed(move |_: Value, _| list_gateways(Arc::clone(&listed)))),
        (
            "exoclaw.agent",
            typed(move |input: AgentInput, call| register_agent(Arc::clone(&gateway), input, call)),
        ),
    ]
}

async fn call_gateway(
    gateways: Arc<RemoteGateways>,
    input: GatewayInput,
    method: &'static str,
) -> Result<Value, BindingError> {
    gateways.find(input.gateway.as_deref())?.call(method).await
}

async fn list_gateways(gateways: Arc<RemoteGateways>) -> Result<Value, BindingError> {
    Ok(gateways.list())
}

async fn send_chat(
    gateways: Arc<RemoteGateways>,
    input: ChatInput,
    call: Call,
) -> Result<ChatResult, BindingError> {
    let gateway = gateways.find(input.gateway.as_deref())?;
    let on_event = call.function(&input.on_event);
    gateway.chat(json!(input.message), on_event, call.depth).await
}

async fn register_agent(gateway: Arc<Gateway>, input: AgentInput, call: Call) -> Result<(), BindingError> {
    let invalid = |message: String| BindingError::of_kind(Kind::InvalidInput, message);
    if gateway.is_model(&input.id) {
        return Err(invalid(format!("agent `{}` is a configured model", input.id)));
    }
    let on_chat = call.function(&input.on_chat);
    let on_chat = on_chat.ok_or_else(|| invalid("onChat: expected a function".to_owned()))?;
    gateway.scripts.check_available(&input.id, &call)?;
    if !gateway.claim_agent(&input.id, &call.session.principal).await? {
        let message = format!("agent `{}` belongs to another principal", input.id);
        return Err(BindingError::of_kind(Kind::PermissionDenied, message));
    }
    gateway.scripts.register(&input.id, on_chat, &call)
}
