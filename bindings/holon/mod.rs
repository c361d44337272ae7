//! The holon-web protocol at both ends: scripts serve methods at `/holon` and call the methods of
//! configured peers.
//!
//! Connections are symmetric. Requests in either direction are handled by the same registry of
//! methods; only the role of the machine distinguishes a page that connected to us from a peer that
//! we dialed.

mod connection;
mod endpoint;
mod machine;
mod methods;
mod router;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Handlers, PackageContext, PackageInstance};
use crate::binding::{BindingError, Call, typed};
use crate::peering::{Background, Link, LinkSettings, Mount, link};
use crate::rpc::Kind;
use crate::transport::Dial;
use connection::{Command, HolonConnection, call_method};
use endpoint::{HolonEndpoint, SUBPROTOCOL};
use machine::{ConnectionConfig, HeartbeatConfig, Role};
use methods::{MethodRegistry, ScriptHandler, ServeError};
use router::RequestRouter;

/// Default number of our requests that may wait for a response on one connection, as in the
/// reference client.
const PENDING_DEFAULT: usize = 256;

/// Default number of a peer's requests that are handled concurrently.
const REQUESTS_DEFAULT: usize = 1024;

/// Default longest message that is read at `/holon`, as in the reference bridge.
const MESSAGE_BYTES_DEFAULT: usize = 1 << 20;

/// Longest message that is read from a configured peer, which the operator trusts with more.
const LINK_MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Default timeout of a call and of a handler.
const CALL_MS_DEFAULT: u64 = 30_000;

/// Default timeout of dialing a peer.
const CONNECT_MS_DEFAULT: u64 = 10_000;

const HEARTBEAT_DEFAULT: HeartbeatConfig =
    HeartbeatConfig { interval: Duration::from_secs(15), timeout: Duration::from_secs(5) };

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    peers: BTreeMap<String, PeerConfig>,
    /// By method, the binding of the server that handles it.
    #[serde(default)]
    methods: HashMap<String, String>,
    /// By method, the only principal whose scripts may serve it.
    #[serde(default)]
    owners: HashMap<String, String>,
    #[serde(default = "call_ms_default")]
    handler_ms: u64,
    message_bytes_max: Option<usize>,
    requests_max: Option<usize>,
    listen: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PeerConfig {
    url: String,
    token: Option<String>,
    #[serde(default = "call_ms_default")]
    timeout_ms: u64,
    #[serde(default = "connect_ms_default")]
    connect_ms: u64,
    heartbeat_ms: Option<u64>,
    heartbeat_timeout_ms: Option<u64>,
    pending_max: Option<usize>,
}

fn call_ms_default() -> u64 {
    CALL_MS_DEFAULT
}

fn connect_ms_default() -> u64 {
    CONNECT_MS_DEFAULT
}

#[derive(Deserialize)]
struct ServeInput {
    method: String,
    handler: Value,
}

#[derive(Deserialize)]
struct UnserveInput {
    method: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallInput {
    peer: String,
    method: String,
    #[serde(default = "empty_payload")]
    payload: Value,
    timeout_ms: Option<u64>,
}

fn empty_payload() -> Value {
    json!({})
}

struct Peer {
    link: Link<Command>,
    url: String,
    timeout: Duration,
}

type Peers = Arc<BTreeMap<String, Peer>>;

/// Opens the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::deserialize(&context.config).map_err(|error| error.to_string())?;
    let requests_max = config.requests_max.unwrap_or(REQUESTS_DEFAULT);
    let methods =
        MethodRegistry::new(config.methods, config.owners, Duration::from_millis(config.handler_ms));
    let mut background = vec![{
        let methods = Arc::clone(&methods);
        Background::new(move |host| async move { methods.set_host(host) })
    }];
    let mut peers = BTreeMap::new();
    for (name, peer) in config.peers {
        let (peer, keep_connected) = create_peer(&name, peer, requests_max, &methods);
        peers.insert(name, peer);
        background.push(keep_connected);
    }
    let connection_config = ConnectionConfig {
        role: Role::Endpoint,
        pending_max: PENDING_DEFAULT,
        requests_max,
        heartbeat: HEARTBEAT_DEFAULT,
    };
    let message_bytes_max = config.message_bytes_max.unwrap_or(MESSAGE_BYTES_DEFAULT);
    let endpoint = Arc::new(HolonEndpoint {
        methods: Arc::clone(&methods),
        config: connection_config,
        message_bytes_max,
    });
    let mount = Mount::web_socket("/holon", endpoint);
    let mut mounts = vec![mount.clone()];
    mounts.extend(config.listen.map(|listen| mount.on(listen)));
    Ok(PackageInstance {
        bindings: context.bind(handlers(&methods, &Arc::new(peers))),
        mounts,
        background,
        ..PackageInstance::default()
    })
}

/// Also returns the task that dials the peer and keeps the connection up.
fn create_peer(
    name: &str,
    config: PeerConfig,
    requests_max: usize,
    methods: &Arc<MethodRegistry>,
) -> (Peer, Background) {
    let dial = Dial {
        url: config.url.clone(),
        subprotocol: Some(SUBPROTOCOL.to_owned()),
        token: config.token,
        message_bytes_max: LINK_MESSAGE_BYTES_MAX,
    };
    let connect_max = Duration::from_millis(config.connect_ms);
    let settings = LinkSettings { connect_max, ..LinkSettings::new(name, dial) };
    let heartbeat = HeartbeatConfig {
        interval: config.heartbeat_ms.map_or(HEARTBEAT_DEFAULT.interval, Duration::from_millis),
        timeout: config.heartbeat_timeout_ms.map_or(HEARTBEAT_DEFAULT.timeout, Duration::from_millis),
    };
    let pending_max = config.pending_max.unwrap_or(PENDING_DEFAULT);
    let connection_config = ConnectionConfig { role: Role::Client, pending_max, requests_max, heartbeat };
    let router = RequestRouter::new(Arc::clone(methods), Some(name), None);
    let (link, keep_connected) =
        link(settings, |commands_tx| HolonConnection::new(connection_config, commands_tx, router));
    (Peer { link, url: config.url, timeout: Duration::from_millis(config.timeout_ms) }, keep_connected)
}

fn handlers(methods: &Arc<MethodRegistry>, peers: &Peers) -> Handlers {
    let (serving, unserving) = (Arc::clone(methods), Arc::clone(methods));
    let (calling, listing) = (Arc::clone(peers), Arc::clone(peers));
    vec![
        ("holon.serve", typed(move |input, call| serve(Arc::clone(&serving), input, call))),
        ("holon.unserve", typed(move |input, call| unserve(Arc::clone(&unserving), input, call))),
        ("holon.call", typed(move |input, call| call_peer(Arc::clone(&calling), input, call))),
        ("holon.peers", typed(move |_: Value, _| list_peers(Arc::clone(&listing)))),
    ]
}

async fn serve(methods: Arc<MethodRegistry>, input: ServeInput, call: Call) -> Result<(), BindingError> {
    let not_a_function = || BindingError::of_kind(Kind::InvalidInput, "handler: expected a function");
    let function = call.function(&input.handler).ok_or_else(not_a_function)?;
    let handler = ScriptHandler {
        function,
        host_functions: call.host_functions.clone(),
        session: call.session.id.clone(),
        principal: call.session.principal.name.clone(),
    };
    methods.serve(&input.method, handler).map_err(|error| match error {
        ServeError::OwnedByOther(_) => BindingError::of_kind(Kind::PermissionDenied, error.to_string()),
        ServeError::AlreadyServed(_) | ServeError::InvalidName | ServeError::TooManyMethods => error.into(),
    })
}

async fn unserve(
    methods: Arc<MethodRegistry>,
    input: UnserveInput,
    call: Call,
) -> Result<bool, BindingError> {
    Ok(methods.unserve(&input.method, &call.session.id))
}

async fn call_peer(peers: Peers, input: CallInput, call: Call) -> Result<Value, BindingError> {
    let unknown = || {
        let known: Vec<&str> = peers.keys().map(String::as_str).collect();
        let message = format!("unknown peer {:?}; expected one of: {}", input.peer, known.join(", "));
        BindingError::of_kind(Kind::InvalidInput, message)
    };
    let peer = peers.get(&input.peer).ok_or_else(unknown)?;
    let left = call.deadline.saturating_duration_since(Instant::now());
    let timeout = input.timeout_ms.map_or(peer.timeout, Duration::from_millis).min(left);
    call_method(input.method, input.payload, timeout, |command| peer.link.send(command)).await
}

async fn list_peers(peers: Peers) -> Result<Value, BindingError> {
    let entries = peers.iter().map(|(name, peer)| {
        let mut entry = json!({"name": name, "url": peer.url});
        if let (Value::Object(entry), Value::Object(state)) = (&mut entry, peer.link.state().to_json()) {
            entry.extend(state);
        }
        entry
    });
    Ok(entries.collect())
}
