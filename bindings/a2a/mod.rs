//! OpenClaw A2A: a gateway at `/a2a` whose agents are scripts or connections, and links to remote
//! gateways.
//!
//! The rules are a pure machine (`machine.rs`) on its own thread (`driver.rs`). Sockets
//! (`endpoint.rs`) and scripts (`gateway_connection.rs`) are connections that send it frames, under
//! the same rules.

mod agent_sessions;
mod agent_task;
mod auth;
mod codes;
mod config;
mod content;
mod correlation;
mod delivery;
mod driver;
mod endpoint;
mod fipa;
mod gateway_connection;
mod handlers;
mod journal;
mod machine;
mod owner;
mod pending_replies;
mod priority_queue;
mod rate_limit;
mod registry;
mod remote_gateway;
mod remote_names;
mod replies;
mod reply_limit;
mod session_handlers;
mod sessions;
#[cfg(test)]
mod testing;
mod timestamp;
mod triad;
mod triad_handlers;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{PackageContext, PackageInstance};
use crate::observe::audit::Audit;
use crate::peering::{Background, LinkSettings, Mount, MountGate, link};
use crate::transport::Dial;
use agent_sessions::{AgentSessions, GatewayLink};
use config::{Config, GatewayConfig};
use driver::GatewayHandle;
use endpoint::{GatewayEndpoint, SENT_BYTES_MAX, SUBPROTOCOL};
use machine::Gateway;
use remote_gateway::RemoteGateway;
use sessions::DiskSessionStore;

/// Size at which the gateway's audit log is rotated, and the number of rotated files that are kept.
const AUDIT_BYTES_MAX: u64 = 64 << 20;
const AUDIT_FILES_MAX: usize = 4;

/// A connection of the gateway. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// Opens the package: starts the gateway, and the links to remote gateways.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::read(&context.config)?;
    let store = DiskSessionStore::new(&config.state_folder(&context.folder), config.fsync);
    let audit = open_audit(config.audit.as_deref(), &context.folder)?;
    let gateway = GatewayHandle::start(Gateway::new(config.to_settings()), store, audit)
        .map_err(|error| format!("cannot start the gateway thread: {error}"))?;
    let synced = gateway.clone();
    let background = Background::new(|host| async move {
        host.stop.cancelled().await;
        synced.sync().await;
    });
    let mounts = build_mounts(&config, &gateway);
    let mut background = vec![background];
    let mut remotes = BTreeMap::new();
    for (name, remote) in config.gateways {
        let (link, task) = dial(&name, remote);
        remotes.insert(name, link);
        background.push(task);
    }
    let sessions = AgentSessions::new(gateway, remotes, config.shared);
    let mut handlers = handlers::handlers(&sessions);
    handlers.extend(triad_handlers::handlers(&sessions));
    handlers.extend(session_handlers::handlers(&sessions));
    Ok(PackageInstance { bindings: context.bind(handlers), mounts, background, ..PackageInstance::default() })
}

fn dial(name: &str, config: GatewayConfig) -> (GatewayLink, Background) {
    let dial = Dial {
        url: config.url.clone(),
        subprotocol: Some(SUBPROTOCOL.to_owned()),
        // A server that checks its own tokens does so before the protocol begins.
        token: config.token.clone(),
        // The most that a gateway of this kind sends.
        message_bytes_max: SENT_BYTES_MAX,
    };
    let mut settings = LinkSettings::new(name, dial);
    if let Some(connect_ms) = config.connect_ms {
        settings.connect_max = Duration::from_millis(connect_ms);
    }
    let remote = RemoteGateway::new(name.to_owned(), config.token);
    let (link, task) = link(settings, |_| remote);
    (GatewayLink { link, url: config.url }, task)
}

fn open_audit(path: Option<&str>, folder: &Path) -> Result<Audit, String> {
    let Some(path) = path else { return Ok(Audit::default()) };
    Audit::open(&folder.join(path), AUDIT_BYTES_MAX, AUDIT_FILES_MAX)
        .map_err(|error| format!("cannot open the audit log: {error}"))
}

/// Mounts the gateway at `/a2a`, and at `/` for the reference client, on the server's port and the
/// configured one.
fn build_mounts(config: &Config, gateway: &GatewayHandle) -> Vec<Mount> {
    let message_bytes_max = config.message_bytes_max();
    let endpoint = Arc::new(GatewayEndpoint { gateway: gateway.clone(), message_bytes_max });
    let gate = if config.has_token() { MountGate::Own } else { MountGate::Server };
    let mount = |path: &str| Mount::web_socket(path, endpoint.clone()).gate(gate);
    let mut mounts = ["/", "/a2a"].map(mount).to_vec();
    if let Some(listen) = &config.listen {
        mounts.extend(mounts.clone().into_iter().map(|mount| mount.on(listen.clone())));
    }
    mounts
}
