//! Every limit at its edge: what is just allowed, and what is one past it.
#![allow(clippy::unwrap_used, missing_docs)]

mod counts;
mod memory;
mod sizes;
#[path = "../support/mod.rs"]
mod support;
mod times;

use scomp::limits::Limits;
use serde_json::Value;
use support::{Running, Wire};

async fn live(limits: Limits) -> (Running, Wire) {
    let running = Running::with(limits).await;
    let wire = Wire::live(&running.url).await;
    (running, wire)
}

fn kind(answer: &Value) -> &str {
    answer.pointer("/error/data/kind").and_then(Value::as_str).unwrap_or("no error")
}
