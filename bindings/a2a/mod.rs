//! OpenClaw A2A: a gateway at `/a2a` whose agents are scripts or connections, and the way to gateways elsewhere.
//!
//! The rules are a pure machine (`machine.rs`) on a thread of its own (`driver.rs`), to which sockets (`endpoint.rs`) and
//! scripts are the same: connections that send frames.

mod answer_limit;
mod answers;
mod auth;
mod codes;
mod config;
mod content;
mod correlation;
mod correspondence;
mod council;
mod desk;
mod driver;
mod endpoint;
mod fipa;
mod handlers;
mod instant;
mod journal;
mod liaison;
mod line;
mod machine;
mod outlet;
mod owner;
mod parked;
mod party;
mod rate;
mod registry;
mod remote_names;
mod sessions;
#[cfg(test)]
mod testing;
mod triad;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{PackageContext, PackageInstance};
use crate::observe::audit::Audit;
use crate::peering::{Background, LinkSettings, Mount, MountGate, link};
use crate::transport::Dial;
use config::{Config, GatewayConfig};
use desk::{Desk, Remote};
use driver::GatewayHandle;
use endpoint::{GatewayEndpoint, SENT_BYTES_MAX, SUBPROTOCOL};
use liaison::Liaison;
use machine::Gateway;
use sessions::DiskSessions;

/// When the gateway's audit log is set aside, and how many such files are kept.
const AUDIT_BYTES_MAX: u64 = 64 << 20;
const AUDIT_FILES_MAX: usize = 4;

/// A connection of the gateway. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// Makes the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::read(&context.config)?;
    let sessions = DiskSessions::new(&config.state_folder(&context.folder), config.fsync);
    let audit = open_audit(config.audit.as_deref(), &context.folder)?;
    let gateway = GatewayHandle::start(Gateway::new(config.settings()), sessions, audit)
        .map_err(|error| format!("the gateway's thread cannot be started: {error}"))?;
    let keep = gateway.clone();
    let background = Background::new(|host| async move {
        host.stop.cancelled().await;
        keep.sync().await;
    });
    let mounts = mounts(&config, &gateway);
    let mut background = vec![background];
    let mut remotes = BTreeMap::new();
    for (name, remote) in config.gateways {
        let (remote, keep_up) = dialled(&name, remote);
        remotes.insert(name, remote);
        background.push(keep_up);
    }
    let desk = Desk::new(gateway, remotes, config.shared);
    let mut handlers = handlers::handlers(&desk);
    handlers.extend(council::handlers(&desk));
    Ok(PackageInstance { bindings: context.bind(handlers), mounts, background, ..PackageInstance::default() })
}

fn dialled(name: &str, config: GatewayConfig) -> (Remote, Background) {
    let dial = Dial {
        url: config.url.clone(),
        subprotocol: Some(SUBPROTOCOL.to_owned()),
        // Where the other server's own tokens count, they are asked for before the protocol begins.
        token: config.token.clone(),
        // What a gateway of our kind sends.
        message_bytes_max: SENT_BYTES_MAX,
    };
    let mut settings = LinkSettings::new(name, dial);
    if let Some(connect_ms) = config.connect_ms {
        settings.connect_max = Duration::from_millis(connect_ms);
    }
    let liaison = Liaison::new(name.to_owned(), config.token);
    let (link, keep_up) = link(settings, |_| liaison);
    (Remote { link, url: config.url }, keep_up)
}

fn open_audit(path: Option<&str>, folder: &Path) -> Result<Audit, String> {
    let Some(path) = path else { return Ok(Audit::default()) };
    Audit::open(&folder.join(path), AUDIT_BYTES_MAX, AUDIT_FILES_MAX)
        .map_err(|error| format!("the audit log cannot be opened: {error}"))
}

/// At `/a2a`, and at `/` where the reference client looks, on the server's own port and on the configured one.
fn mounts(config: &Config, gateway: &GatewayHandle) -> Vec<Mount> {
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
