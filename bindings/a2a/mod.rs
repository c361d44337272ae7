//! OpenClaw A2A: a gateway at `/a2a` whose agents are scripts or connections, and the way to gateways elsewhere.
//!
//! The rules are a pure machine ([`machine`]) on a thread of its own ([`driver`]), to which sockets ([`endpoint`]) and
//! scripts are the same: connections that send frames.

mod auth;
mod codes;
mod config;
mod content;
mod correlation;
mod driver;
mod endpoint;
mod fipa;
mod instant;
mod journal;
mod machine;
mod parked;
mod rate;
mod registry;
mod sessions;
#[cfg(test)]
mod testing;
mod triad;
mod wire;

use std::path::Path;
use std::sync::Arc;

use super::{Opened, Setup};
use crate::observe::audit::Audit;
use crate::peering::{Background, Mount, MountGate};
use config::Config;
use driver::GatewayHandle;
use endpoint::GatewayEndpoint;
use machine::Gateway;
use sessions::DiskSessions;

/// When the gateway's audit log is set aside, and how many such files are kept.
const AUDIT_BYTES_MAX: u64 = 64 << 20;
const AUDIT_FILES_MAX: usize = 4;

/// A connection of the gateway. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// Makes the package.
pub fn open(setup: &Setup<'_>) -> Result<Opened, String> {
    let config = Config::read(setup.config)?;
    let sessions = DiskSessions::new(&config.state_folder(setup.folder), config.fsync);
    let audit = open_audit(config.audit.as_deref(), setup.folder)?;
    let gateway = GatewayHandle::start(Gateway::new(config.settings()), sessions, audit)
        .map_err(|error| format!("the gateway's thread cannot be started: {error}"))?;
    let keep = gateway.clone();
    let background = Background::new(|host| async move {
        host.stop.cancelled().await;
        keep.sync().await;
    });
    let handlers = Vec::new();
    Ok(Opened { handlers, mounts: mounts(&config, &gateway), background: vec![background] })
}

fn open_audit(path: Option<&str>, folder: &Path) -> Result<Audit, String> {
    let Some(path) = path else { return Ok(Audit::default()) };
    Audit::open(&folder.join(path), AUDIT_BYTES_MAX, AUDIT_FILES_MAX)
        .map_err(|error| format!("the audit log cannot be opened: {error}"))
}

/// On the server's own port at `/a2a`; on a port of its own also where the reference client looks.
fn mounts(config: &Config, gateway: &GatewayHandle) -> Vec<Mount> {
    let message_bytes_max = config.message_bytes_max();
    let endpoint = Arc::new(GatewayEndpoint { gateway: gateway.clone(), message_bytes_max });
    let gate = if config.has_token() { MountGate::Own } else { MountGate::Server };
    let mount = |path: &str| Mount::web_socket(path, endpoint.clone()).gate(gate);
    let mut mounts = vec![mount("/a2a")];
    if let Some(listen) = &config.listen {
        mounts.extend(["/", "/a2a"].map(|path| mount(path).on(listen.clone())));
    }
    mounts
}
