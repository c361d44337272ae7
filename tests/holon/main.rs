//! holon-web on a real server: the recorded vectors of both roles, and behaviour that they do not
//! cover.
#![allow(clippy::unwrap_used, missing_docs)]

mod behaviour;
mod client_vectors;
mod matching;
mod server_vectors;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The `--bindings` folder with a service that serves the methods the vectors call.
fn interop_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/holon/default")
}

/// Loads the vectors of a role. With `SCOMP_ONLY=word`, only those with that word in their name.
fn load_vectors(role: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/holon/vectors.json");
    let all: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let wanted = std::env::var("SCOMP_ONLY").unwrap_or_default();
    let is_wanted = |name: &Value| name.as_str().is_some_and(|name| name.contains(&wanted));
    all.into_iter().filter(|vector| vector["role"] == role && is_wanted(&vector["name"])).collect()
}
