//! memory/v2: documents that are shared and kept in step, in a store of our own or in another server's.
//!
//! A commit says what it read; if that has changed since, it is refused and nothing is written. Sessions watch
//! documents, through the links between them, and are told when they change. Clients of the protocol are served at
//! `/memory`; scripts reach the same spaces, and those of configured peers, through the bindings.

mod access;
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

use super::{PackageContext, PackageInstance};
use crate::peering::{Endpoint, Mount, MountGate, MountKind};
use blobs::Blobs;
use config::{Config, GateName};
use endpoint::MemoryEndpoint;
use engine::Engine;
use peers::Peers;

/// Where clients look for the protocol.
const PATHS: [&str; 2] = ["/memory", "/api/storage/memory"];

/// Opens the store and what leads to it.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::read(&context.config)?;
    let secret = config.secret(&context.folder)?;
    let admission = config.admission(&secret)?;
    config.warn_of_openness();
    let settings = config.store_settings(&context.folder, &secret)?;
    let engine = Engine::start(&settings).map_err(|error| error.to_string())?;
    let (peers, background) = Peers::new(secret, engine.clone(), &admission, &config);
    let peers = Arc::new(peers);
    let blobs =
        Blobs { engine: engine.clone(), identities: (!admission.is_trusted).then(|| Arc::clone(&peers)) };
    let endpoint = MemoryEndpoint { engine, admission: Arc::new(admission) };
    let mounts = mounts(&config, blobs, Arc::new(endpoint));
    Ok(PackageInstance {
        bindings: context.bind(script::handlers(peers)),
        mounts,
        background,
        ..PackageInstance::default()
    })
}

fn mounts(config: &Config, blobs: Blobs, endpoint: Arc<dyn Endpoint>) -> Vec<Mount> {
    let gate = match config.gate {
        GateName::Server => MountGate::Server,
        GateName::Signature => MountGate::Own,
    };
    let sockets = PATHS.map(|path| Mount::web_socket(path, Arc::clone(&endpoint)).gate(gate));
    let mut mounts: Vec<Mount> = sockets.into_iter().collect();
    if config.blobs {
        let face = MountKind::Http(blobs::router(blobs));
        mounts.push(Mount { listen: None, path: "/{space}/blobs".to_owned(), gate: MountGate::Server, face });
    }
    if let Some(listen) = &config.listen {
        mounts = mounts.into_iter().map(|mount| mount.on(listen.clone())).collect();
    }
    mounts
}
