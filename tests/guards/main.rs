//! Built-ins that are guarded because they never poll: a script cannot distinguish them from the originals.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use scomp::limits::Limits;
use serde_json::json;
use support::{Running, Wire};

#[tokio::test]
async fn guarded_builtins_behave_as_specified() {
    // Long searches in JavaScript take a while on a busy machine.
    let limits = Limits { cpu_ms_max: 60_000, ..Limits::default() };
    let running = Running::with(limits).await;
    let mut wire = Wire::live(&running.url).await;
    assert_eq!(wire.value(include_str!("semantics.js")).await, json!([]));
}
