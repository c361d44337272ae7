//! A2A against a running server: vectors, script agents, remote gateways, principals and crashes.
#![allow(clippy::unwrap_used, missing_docs)]

mod crash;
mod minimal_gateway;
mod patterns;
mod principals;
mod reference;
mod remote_gateway;
mod reply_loops;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod vector_player;
mod vectors;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use support::wire::Wire;
use support::{Folder, Running};

/// Returns the folder of the profiles and the vectors.
fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/a2a")
}

/// Creates a `--bindings` folder with a gateway.
fn gateway_folder(config: Value) -> Folder {
    Folder::with(&[("a2a.json", &json!({"package": "a2a", "rust": "a2a", "config": config}).to_string())])
}

async fn connect(server: &Running) -> Wire {
    Wire::offering(&format!("{}a2a", server.url), Some("a2a-v1")).await
}

/// Opens a connection and registers it as an agent.
async fn connect_agent(server: &Running, name: &str) -> Wire {
    let mut wire = connect(server).await;
    send(&mut wire, json!({"type": "handshake", "from": name, "content": {"action": "advertise"}})).await;
    assert_eq!(wire.json().await["content"]["action"], "acknowledge");
    wire
}

async fn send(wire: &mut Wire, frame: Value) {
    wire.text(&frame.to_string()).await;
}

async fn exchange(wire: &mut Wire, frame: Value) -> Value {
    send(wire, frame).await;
    wire.json().await
}
