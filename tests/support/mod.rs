//! What the tests of the whole server share: a server on a free port, a raw WebSocket client, a transcript player.
//!
//! Nothing here uses the client library of this crate: what is tested is the wire, and a fault that both ends share
//! would go unseen.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub, unused_imports)]

pub mod bindings;
pub mod folder;
pub mod pattern;
pub mod player;
pub mod principals;
pub mod script;
pub mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use scomp::limits::Limits;
use scomp::server::settings::{Isolation, IsolationSettings, SessionSettings};
use scomp::server::{Server, ServerBuilder};
use tokio::net::TcpListener;

pub use folder::Folder;
pub use wire::Wire;

/// A server that runs as long as this lives.
pub struct Running {
    pub server: Server,
    pub url: String,
}

impl Running {
    /// Starts a server with the bindings of the tests.
    pub async fn start(limits: Limits, sessions: SessionSettings) -> Self {
        Self::on_shards(2, limits, sessions).await
    }

    /// The same with a given number of threads for scripts.
    pub async fn on_shards(shards: usize, limits: Limits, sessions: SessionSettings) -> Self {
        let mut sessions = sessions;
        sessions.hibernate_every_turn |= hibernates_every_turn();
        let server = Server::builder()
            .name("orders-scomp")
            .package(bindings::package())
            .limits(limits)
            .sessions(sessions)
            .shards(shards)
            .isolation(isolation())
            .build()
            .unwrap();
        Self::listening(server).await
    }

    /// Serves on a port of its own.
    pub async fn listening(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { server, url }
    }

    /// The page of `/metrics`.
    pub async fn metrics(&self) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let address = self.url.trim_start_matches("ws://").trim_end_matches('/');
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    }

    /// Waits until every service script runs; one that fails is the end of the test.
    pub async fn services_run(&self) {
        use scomp::server::ServiceState;
        self.server.services().wait_until_started().await;
        let services = self.server.services().list();
        assert!(services.iter().all(|service| service.state == ServiceState::Running), "{services:?}");
    }

    /// Starts a server with the packages and services of a folder, as `--bindings` does.
    pub async fn folder(folder: &Path) -> Self {
        Self::folder_with(folder, []).await
    }

    /// The same with something more in the environment that configurations are filled from.
    pub async fn folder_with<const N: usize>(folder: &Path, variables: [(&str, &str); N]) -> Self {
        let mut environment = scomp::package::loader::environment();
        environment.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self::loaded(folder, environment, |builder| builder).await
    }

    /// The same with tokens, an audit log, or whatever else `set_up` adds to the server.
    pub async fn folder_and(folder: &Path, set_up: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self::loaded(folder, scomp::package::loader::environment(), set_up).await
    }

    async fn loaded(
        folder: &Path,
        environment: HashMap<String, String>,
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let loaded =
            scomp::package::loader::load(folder, &environment, scomp::bindings::BUILT_IN).await.unwrap();
        let services = loaded.services.clone();
        let server =
            set_up(Server::builder().loaded(loaded).shards(2).isolation(isolation())).build().unwrap();
        server.start(services);
        Self::listening(server).await
    }

    /// The same with default session settings.
    pub async fn with(limits: Limits) -> Self {
        Self::start(limits, SessionSettings::default()).await
    }
}

/// Whether the heap of every session is to leave memory after every turn: `SCOMP_TEST_HIBERNATE=turn` runs a suite so.
pub fn hibernates_every_turn() -> bool {
    std::env::var("SCOMP_TEST_HIBERNATE").is_ok_and(|when| when == "turn")
}

/// Where sessions run: with the server, or as `SCOMP_TEST_ISOLATION=principal` says for a suite.
pub fn isolation() -> IsolationSettings {
    let isolation = match std::env::var("SCOMP_TEST_ISOLATION").as_deref() {
        Ok("principal") => Isolation::Principal,
        Ok("session") => Isolation::Session,
        Ok(_) | Err(_) => Isolation::Thread,
    };
    let program = Some(env!("CARGO_BIN_EXE_scomp-serve").into());
    IsolationSettings { isolation, program, ..IsolationSettings::default() }
}

/// The files of a folder in order; `SCOMP_ONLY=word` leaves those with that word in their name.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    if let Ok(wanted) = std::env::var("SCOMP_ONLY") {
        files.retain(|path| path.to_string_lossy().contains(&wanted));
    }
    files.sort();
    files
}
