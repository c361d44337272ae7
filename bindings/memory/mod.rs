//! memory/v2: shared documents, in the embedded store or on another server.
//!
//! A commit lists what it read; if any of that has changed since, the commit is rejected and
//! nothing is written. Sessions watch documents, through the links between them, and receive their
//! changes. Clients of the protocol connect to `/memory`; scripts use the same spaces, and those of
//! configured peers, through the bindings.

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
mod machine;
mod message_sender;
mod names;
mod patch;
mod path;
mod peers;
mod schema;
mod script;
mod space_table;
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

/// The second path is the one that the original client uses.
const PATHS: [&str; 2] = ["/memory", "/api/storage/memory"];

/// Opens the store, and the bindings, mounts and background work that use it.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let config = Config::parse(&context.config)?;
    let secret = config.secret(&context.folder)?;
    let auth_policy = config.auth_policy(&secret)?;
    config.warn_about_open_access();
    let settings = config.store_settings(&context.folder, &secret)?;
    let engine = Engine::start(&settings).map_err(|error| error.to_string())?;
    let (peers, background) = Peers::new(secret, engine.clone(), &auth_policy, &config);
    let peers = Arc::new(peers);
    let blobs =
        Blobs { engine: engine.clone(), identities: (!auth_policy.is_trusted).then(|| Arc::clone(&peers)) };
    let endpoint = MemoryEndpoint { engine, auth_policy: Arc::new(auth_policy) };
    let mounts = build_mounts(&config, blobs, Arc::new(endpoint));
    Ok(PackageInstance {
        bindings: context.bind(script::build_handlers(peers)),
        mounts,
        background,
        ..PackageInstance::default()
    })
}

fn build_mounts(config: &Config, blobs: Blobs, endpoint: Arc<dyn Endpoint>) -> Vec<Mount> {
    let gate = match config.gate {
        GateName::Server => MountGate::Server,
        GateName::Signature => MountGate::Own,
    };
    let sockets = PATHS.map(|path| Mount::web_socket(path, Arc::clone(&endpoint)).gate(gate));
    let mut mounts: Vec<Mount> = sockets.into_iter().collect();
    if config.blobs {
        let kind = MountKind::Http(blobs::build_router(blobs));
        mounts.push(Mount { listen: None, path: "/{space}/blobs".to_owned(), gate: MountGate::Server, kind });
    }
    if let Some(listen) = &config.listen {
        mounts = mounts.into_iter().map(|mount| mount.on(listen.clone())).collect();
    }
    mounts
}
