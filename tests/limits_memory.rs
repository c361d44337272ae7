//! The limits of memory that sessions and calls share, at their edges. What the whole program takes is measured in
//! `memory_budget`.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use scomp::limits::Limits;
use serde_json::{Value, json};
use support::{Running, Wire};

fn kind(answer: &Value) -> &str {
    answer.pointer("/error/data/kind").and_then(Value::as_str).unwrap_or("no error")
}

#[tokio::test]
async fn calls_in_flight_hold_as_many_bytes_as_the_limit() {
    let limits = Limits { calls_bytes_max: 100_000, ..Limits::default() };
    let running = Running::with(limits).await;
    let (mut wire, _) = Wire::live_with(&running.url, json!({"bindings": [{"name": "ask"}]})).await;
    // The client answers none of them.
    let refused = |lengths: &str| {
        format!(
            "let refused = []; for (const length of {lengths})
                ask('x'.repeat(length)).catch(error => {{ refused.push(error.name); }});
            await null; await null; refused"
        )
    };
    assert_eq!(wire.value(&refused("[60_000, 39_000]")).await, json!([]));
    assert_eq!(wire.value(&refused("[2_000]")).await, json!(["TooManyCalls"]));
    let (mut wire, _) = Wire::live_with(&running.url, json!({"bindings": [{"name": "ask"}]})).await;
    assert_eq!(wire.value(&refused("[100_000]")).await, json!(["ResultTooLarge"]));
    assert_eq!(wire.value(&refused("[99_000]")).await, json!([]));
}

#[tokio::test]
async fn sessions_past_the_total_of_memory_are_busy_until_others_end() {
    let limits = Limits { memory_total_bytes_max: 8 << 20, ..Limits::default() };
    let running = Running::on_shards(1, limits, scomp::server::settings::SessionSettings::default()).await;
    let mut wires = Vec::new();
    let busy = loop {
        let mut wire = Wire::open(&running.url).await;
        let answer = wire.request("handshake", json!({"protocol": "0.1"})).await;
        if answer.get("error").is_some() {
            break answer;
        }
        wires.push(wire);
        assert!(wires.len() <= 16, "a session takes at least half a mebibyte");
    };
    assert_eq!(kind(&busy), "Busy");
    assert!(busy["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    assert!(wires.len() >= 4, "{} sessions have room", wires.len());
    // One that grows past it gets an error that a script may catch, and goes on.
    let mut last = wires.pop().unwrap();
    assert_eq!(last.failure("new Uint8Array(6 << 20).length").await.0, "MemoryLimit");
    assert_eq!(last.value("1 + 1").await, json!(2));
    for mut wire in wires {
        wire.invoke("session.close", json!({})).await;
    }
    while running.server.session_count() > 1 {
        tokio::task::yield_now().await;
    }
    // The context of a session that ended is freed a moment after its entry.
    while last.eval("new Uint8Array(4 << 20).length").await.get("error").is_some() {}
    Wire::live(&running.url).await;
}

#[tokio::test]
async fn evals_of_lost_connections_are_bounded_in_bytes() {
    let limits = Limits { connection_bytes_max: 50_000, ..Limits::default() };
    let running = Running::with(limits).await;
    let (mut wire, mut result) = Wire::live_with(&running.url, json!({})).await;
    wire.send("eval", json!({"code": "await new Promise(done => setTimeout(done, 1e6))"})).await;
    let code = format!("/*{}*/ 1", "x".repeat(40_000));
    let mut refused = None;
    for number in 0..8 {
        let id = wire.send("eval", json!({"code": code, "key": format!("key {number}")})).await;
        wire.info().await;
        let session = json!({"id": result["sessionId"], "token": result["metadata"]["session"]["token"]});
        (wire, result) = Wire::live_with(&running.url, json!({"session": session})).await;
        let queued = result["metadata"]["session"]["evalsQueued"].as_u64().unwrap();
        if queued < number + 2 {
            refused = Some((number, id));
            break;
        }
    }
    assert_eq!(refused.map(|(number, _)| number), Some(3), "three of them take more than twice the budget");
}
