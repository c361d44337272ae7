//! holon-web, both ends: scripts serve methods at `/holon` and call the methods of configured peers.
//!
//! Every connection is symmetric. Whoever asks, in either direction, is answered by the same hub; the difference
//! between a page that came to us and a peer that we dialled is in the machine's role.

mod endpoint;
mod hub;
mod machine;
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
use endpoint::{Command, Desk, HolonEndpoint, SUBPROTOCOL, Talk};
use hub::{Hub, ServeError, Served};
use machine::{Role, Terms};

/// Requests of ours that may wait on one connection unless the configuration says otherwise: as many as the real
/// client allows itself.
const ASKED_DEFAULT: usize = 256;

/// Requests of one peer that are served at once, unless the configuration says otherwise.
const SERVED_DEFAULT: usize = 1024;

/// Longest message that is read from whoever comes, unless the configuration says otherwise: what the real bridge reads.
const MESSAGE_BYTES_DEFAULT: usize = 1 << 20;

/// Longest message that is read from a peer that the operator chose.
const LINK_MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How long a call, a handler and a dial may take, unless the configuration says otherwise.
const CALL_MS_DEFAULT: u64 = 30_000;
const CONNECT_MS_DEFAULT: u64 = 10_000;

/// How often a client asks for a sign of life, and how long it waits for it.
const HEARTBEAT: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    peers: BTreeMap<String, PeerConfig>,
    /// Methods that a binding of the server answers.
    #[serde(default)]
    methods: HashMap<String, String>,
    /// The principals whose scripts alone may serve a method.
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

/// A configured peer.
struct Peer {
    link: Link<Command>,
    url: String,
    timeout: Duration,
}

type Peers = Arc<BTreeMap<String, Peer>>;

/// Opens the package.
pub fn open(context: &PackageContext<'_>) -> Result<PackageInstance, String> {
    let config = Config::deserialize(context.config).map_err(|error| error.to_string())?;
    let served_max = config.requests_max.unwrap_or(SERVED_DEFAULT);
    let hub = Hub::new(config.methods, config.owners, Duration::from_millis(config.handler_ms));
    let mut background = vec![{
        let hub = Arc::clone(&hub);
        Background::new(move |host| async move { hub.started(host) })
    }];
    let mut peers = BTreeMap::new();
    for (name, peer) in config.peers {
        let (peer, keep_up) = dialled(&name, peer, served_max, &hub);
        peers.insert(name, peer);
        background.push(keep_up);
    }
    let terms = Terms { role: Role::Endpoint, asked_max: ASKED_DEFAULT, served_max, heartbeat: HEARTBEAT };
    let message_bytes_max = config.message_bytes_max.unwrap_or(MESSAGE_BYTES_DEFAULT);
    let endpoint = Arc::new(HolonEndpoint { hub: Arc::clone(&hub), terms, message_bytes_max });
    let mount = Mount::web_socket("/holon", endpoint);
    let mut mounts = vec![mount.clone()];
    mounts.extend(config.listen.map(|listen| mount.on(listen)));
    Ok(PackageInstance {
        handlers: handlers(&hub, &Arc::new(peers)),
        mounts,
        background,
        ..PackageInstance::default()
    })
}

fn dialled(name: &str, config: PeerConfig, served_max: usize, hub: &Arc<Hub>) -> (Peer, Background) {
    let dial = Dial {
        url: config.url.clone(),
        subprotocol: Some(SUBPROTOCOL.to_owned()),
        token: config.token,
        message_bytes_max: LINK_MESSAGE_BYTES_MAX,
    };
    let connect_max = Duration::from_millis(config.connect_ms);
    let settings = LinkSettings { connect_max, ..LinkSettings::new(name, dial) };
    let heartbeat = (
        config.heartbeat_ms.map_or(HEARTBEAT.0, Duration::from_millis),
        config.heartbeat_timeout_ms.map_or(HEARTBEAT.1, Duration::from_millis),
    );
    let asked_max = config.pending_max.unwrap_or(ASKED_DEFAULT);
    let terms = Terms { role: Role::Client, asked_max, served_max, heartbeat };
    let desk = Desk::new(Arc::clone(hub), Some(name), None);
    let (link, keep_up) = link(settings, |commands_tx| Talk::new(terms, commands_tx, desk));
    (Peer { link, url: config.url, timeout: Duration::from_millis(config.timeout_ms) }, keep_up)
}

fn handlers(hub: &Arc<Hub>, peers: &Peers) -> Handlers {
    let (serving, unserving) = (Arc::clone(hub), Arc::clone(hub));
    let (calling, listing) = (Arc::clone(peers), Arc::clone(peers));
    vec![
        ("holon.serve", typed(move |input, call| serve(Arc::clone(&serving), input, call))),
        ("holon.unserve", typed(move |input, call| unserve(Arc::clone(&unserving), input, call))),
        ("holon.call", typed(move |input, call| call_peer(Arc::clone(&calling), input, call))),
        ("holon.peers", typed(move |_: Value, _| list_peers(Arc::clone(&listing)))),
    ]
}

async fn serve(hub: Arc<Hub>, input: ServeInput, call: Call) -> Result<(), BindingError> {
    let wrong = || BindingError::of_kind(Kind::InvalidInput, "handler: expected a function");
    let handler = call.function(&input.handler).ok_or_else(wrong)?;
    let served = Served {
        handler,
        host_functions: call.host_functions.clone(),
        session: call.session.id.clone(),
        principal: call.session.principal.name.clone(),
    };
    hub.serve(&input.method, served).map_err(|error| match error {
        ServeError::Foreign(_) => BindingError::of_kind(Kind::PermissionDenied, error.to_string()),
        ServeError::Taken(_) | ServeError::BadName | ServeError::TooMany => error.into(),
    })
}

async fn unserve(hub: Arc<Hub>, input: UnserveInput, call: Call) -> Result<bool, BindingError> {
    Ok(hub.unserve(&input.method, &call.session.id))
}

async fn call_peer(peers: Peers, input: CallInput, call: Call) -> Result<Value, BindingError> {
    let unknown = || {
        let known: Vec<&str> = peers.keys().map(String::as_str).collect();
        let message = format!("no peer {:?}; there are {}", input.peer, known.join(", "));
        BindingError::of_kind(Kind::InvalidInput, message)
    };
    let peer = peers.get(&input.peer).ok_or_else(unknown)?;
    let left = call.deadline.saturating_duration_since(Instant::now());
    let timeout = input.timeout_ms.map_or(peer.timeout, Duration::from_millis).min(left);
    endpoint::ask(input.method, input.payload, timeout, |command| peer.link.send(command)).await
}

async fn list_peers(peers: Peers) -> Result<Value, BindingError> {
    let listed = peers.iter().map(|(name, peer)| {
        let mut told = json!({"name": name, "url": peer.url});
        if let (Value::Object(told), Value::Object(state)) = (&mut told, peer.link.state().to_json()) {
            told.extend(state);
        }
        told
    });
    Ok(listed.collect())
}
