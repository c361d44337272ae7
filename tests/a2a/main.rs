//! A2A against the real server: the vectors, script agents, gateways that talk to each other, and crashes.
#![allow(clippy::unwrap_used, missing_docs)]

mod bare_gateway;
mod crash;
mod elsewhere;
mod loops;
mod matching;
mod player;
mod principals;
mod reference;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod vectors;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use support::wire::Wire;
use support::{Folder, Running};

/// The folder with the profiles and the vectors.
fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/a2a")
}

/// A `--bindings` folder with a gateway.
fn gateway(config: Value) -> Folder {
    Folder::with(&[("a2a.json", &json!({"package": "a2a", "rust": "a2a", "config": config}).to_string())])
}

/// A connection to the gateway of a server.
async fn connect(server: &Running) -> Wire {
    Wire::offering(&format!("{}a2a", server.url), Some("a2a-v1")).await
}

/// A connection that is an agent.
async fn agent(server: &Running, name: &str) -> Wire {
    let mut wire = connect(server).await;
    send(&mut wire, json!({"type": "handshake", "from": name, "content": {"action": "advertise"}})).await;
    assert_eq!(wire.json().await["content"]["action"], "acknowledge");
    wire
}

async fn send(wire: &mut Wire, frame: Value) {
    wire.text(&frame.to_string()).await;
}

async fn ask(wire: &mut Wire, frame: Value) -> Value {
    send(wire, frame).await;
    wire.json().await
}
