//! memory/v2: documents that are shared and kept in step, in a store of our own or in another server's.
//!
//! A commit says what it read; if that has changed since, it is refused and nothing is written. Sessions watch
//! documents, through the links between them, and are told when they change. Clients of the protocol are served at
//! `/memory`; scripts reach the same spaces, and those of configured peers, through the bindings.

mod auth;
mod blobs;
mod client;
mod codec;
mod commit;
mod config;
mod endpoint;
mod engine;
mod hash;
mod hub;
mod machine;
mod names;
mod outlet;
mod patch;
mod path;
mod peers;
mod schema;
mod script;
mod store;
mod traverse;
mod watch;
mod wire;

use std::sync::Arc;

use super::{Opened, Setup};
use crate::peering::{Endpoint, Face, Mount, MountGate};
use config::{Authentication, Config};
use endpoint::MemoryEndpoint;
use engine::Engine;
use peers::Peers;

/// Where clients look for the protocol.
const PATHS: [&str; 2] = ["/memory", "/api/storage/memory"];

/// Opens the store and what leads to it.
pub fn open(setup: &Setup<'_>) -> Result<Opened, String> {
    let config = Config::read(setup.config)?;
    let secret = config.secret(setup.folder)?;
    let admission = config.admission(&secret)?;
    let engine = Engine::start(&config.store_settings(setup.folder)).map_err(|error| error.to_string())?;
    let (peers, background) = Peers::new(secret, engine.clone(), &admission, &config.peers);
    let endpoint = MemoryEndpoint { engine: engine.clone(), admission: Arc::new(admission) };
    let mounts = mounts(&config, engine, Arc::new(endpoint));
    Ok(Opened { handlers: script::handlers(Arc::new(peers)), mounts, background, ..Opened::default() })
}

fn mounts(config: &Config, engine: Engine, endpoint: Arc<dyn Endpoint>) -> Vec<Mount> {
    // Where openings are signed, that is the check; where they are not, it is the server's tokens.
    let gate = match config.authentication {
        Authentication::Signed | Authentication::Strict => MountGate::Own,
        Authentication::Trusted => MountGate::Server,
    };
    let sockets = PATHS.map(|path| Mount::web_socket(path, Arc::clone(&endpoint)).gate(gate));
    let mut mounts: Vec<Mount> = sockets.into_iter().collect();
    if config.blobs {
        let face = Face::Http(blobs::router(engine));
        mounts.push(Mount { listen: None, path: "/{space}/blobs".to_owned(), gate: MountGate::Server, face });
    }
    if let Some(listen) = &config.listen {
        mounts = mounts.into_iter().map(|mount| mount.on(listen.clone())).collect();
    }
    mounts
}
