//! The Exoclaw protocol at both ends: a gateway whose agents are models or scripts, and gateways elsewhere for scripts.
//!
//! `wire` and the machines say what is spoken, `chat` what happens to a message. An agent that is a model has the
//! server's bindings as its tools; one that is a script is a function that it registered.

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
mod outward;
mod report;
mod requests;
mod route;
mod store;
mod tools;
mod wire;
mod workspace;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::routing::get;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::config::{Config, Serve};
use self::endpoint::GatewayEndpoint;
use self::gateway::Gateway;
use self::outward::Gateways;
use self::outward::chat::Outcome;
use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, typed};
use crate::peering::{Background, Mount, MountGate, MountKind};
use crate::rpc::Kind;

/// The path at an address of its own, where clients of this protocol look.
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
    message: OutwardMessage,
}

/// The parameters of `chat.send`, with what was not given left out.
#[derive(Deserialize, Serialize)]
struct OutwardMessage {
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

/// Opens the store, mounts the gateway, and prepares the links.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::deserialize(&context.config).map_err(|error| error.to_string())?;
    let Config { serve, gateways } = config;
    let places = Places::of(&serve);
    let policies = vec![("/serve/policy", serve.policy.clone())];
    let gateway = Arc::new(Gateway::open(serve, &context.folder)?);
    let (gateways, mut background) = Gateways::new(gateways);
    let attached = Arc::clone(&gateway);
    background.push(Background::new(move |host| async move { attached.attach(host) }));
    let mounts = places.mounts(&gateway);
    let bindings = context.bind(handlers(&gateway, Arc::new(gateways)));
    Ok(PackageInstance { bindings, mounts, background, policies })
}

/// Where the gateway is reached.
struct Places {
    path: String,
    listen: Option<String>,
}

impl Places {
    fn of(serve: &Serve) -> Self {
        Self { path: serve.path.clone(), listen: serve.listen.clone() }
    }

    /// A gateway with a token decides by itself who may come in; one without leaves it to the server.
    fn mounts(self, gateway: &Arc<Gateway>) -> Vec<Mount> {
        let gate = if gateway.token.is_some() { MountGate::Own } else { MountGate::Server };
        let endpoint = Arc::new(GatewayEndpoint(Arc::clone(gateway)));
        let mut mounts = vec![Mount::web_socket(self.path, endpoint.clone()).gate(gate)];
        if let Some(listen) = self.listen {
            mounts.push(Mount::web_socket(OWN_PATH, endpoint).gate(gate).on(listen.clone()));
            let health = axum::Router::new().route("/health", get(|| async { "ok" }));
            let (path, face) = ("/health".to_owned(), MountKind::Http(health));
            mounts.push(Mount { listen: Some(listen), path, gate: MountGate::Own, face });
        }
        mounts
    }
}

fn handlers(gateway: &Arc<Gateway>, gateways: Arc<Gateways>) -> Handlers {
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
        ("exoclaw.agent", typed(move |input: AgentInput, call| register(Arc::clone(&gateway), input, call))),
    ]
}

async fn call_gateway(
    gateways: Arc<Gateways>,
    input: GatewayInput,
    method: &'static str,
) -> Result<Value, BindingError> {
    gateways.find(input.gateway.as_deref())?.call(method).await
}

async fn list_gateways(gateways: Arc<Gateways>) -> Result<Value, BindingError> {
    Ok(gateways.list())
}

async fn send_chat(gateways: Arc<Gateways>, input: ChatInput, call: Call) -> Result<Outcome, BindingError> {
    let gateway = gateways.find(input.gateway.as_deref())?;
    let on_event = call.function(&input.on_event);
    gateway.chat(json!(input.message), on_event, call.depth).await
}

async fn register(gateway: Arc<Gateway>, input: AgentInput, call: Call) -> Result<(), BindingError> {
    let invalid = |message: String| BindingError::of_kind(Kind::InvalidInput, message);
    if gateway.is_model(&input.id) {
        return Err(invalid(format!("the agent `{}` is a model of the configuration", input.id)));
    }
    let on_chat = call.function(&input.on_chat);
    let on_chat = on_chat.ok_or_else(|| invalid("expected onChat to be a function".to_owned()))?;
    gateway.scripts.check(&input.id, &call)?;
    if !gateway.claim(&input.id, &call.session.principal).await? {
        let message = format!("the agent `{}` belongs to another principal", input.id);
        return Err(BindingError::of_kind(Kind::PermissionDenied, message));
    }
    gateway.scripts.register(&input.id, on_chat, &call)
}
