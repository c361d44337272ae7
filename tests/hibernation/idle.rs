//! Sessions that are hibernated because they are idle.

use scomp::server::settings::SessionSettings;
use serde_json::json;

use super::support::Wire;
use super::{live_with, metric};

fn settings(hibernate_after_ms: u64) -> SessionSettings {
    SessionSettings { hibernate_after_ms, ..SessionSettings::default() }
}

#[tokio::test]
async fn idle_session_leaves_memory_and_the_next_eval_wakes_it() {
    let mut live = live_with(settings(10)).await;
    live.wire.value("let n = 41; 0").await;
    live.hibernated(1.0).await;
    assert_eq!(live.metric("scomp_sessions_resident").await, 0.0);
    assert!(live.metric("scomp_hibernated_bytes").await > 100_000.0);
    let info = live.wire.info().await;
    assert!(info["memoryBytes"].as_u64().unwrap() > 100_000, "{info}");
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 1.0, "info needs no heap");
    assert_eq!(live.wire.value("++n").await, json!(42));
    live.hibernated(1.0).await;
    assert_eq!(live.wire.value("++n").await, json!(43));
}

#[tokio::test]
async fn idle_detached_session_leaves_memory() {
    let live = live_with(settings(10)).await;
    let (mut wire, hello) = Wire::live_with(&live.running.url, json!({})).await;
    wire.value("let n = 1; 0").await;
    wire.close().await;
    live.hibernated(2.0).await;
    let resume =
        json!({"session": {"id": hello["sessionId"], "token": hello["metadata"]["session"]["token"]}});
    let (mut wire, _) = Wire::live_with(&live.running.url, resume).await;
    assert_eq!(wire.value("n").await, json!(1));
}

#[tokio::test]
async fn session_that_is_reset_while_hibernated_is_in_memory() {
    let mut live = live_with(settings(10)).await;
    live.wire.value("let n = 1; 0").await;
    live.hibernated(1.0).await;
    live.wire.invoke("session.reset", json!({})).await;
    let eval = live.wire.send("eval", json!({"code": "for (;;) {}"})).await;
    live.wire.info().await;
    assert_eq!(live.metric("scomp_sessions_resident").await, 1.0);
    let cancel = live.wire.send("invoke", json!({"binding": "session.cancel", "input": {}})).await;
    live.wire.answer(cancel).await;
    live.wire.answer(eval).await;
    assert_eq!(live.wire.value("typeof n").await, json!("undefined"));
}

#[tokio::test]
async fn session_with_zero_stays_in_memory() {
    let mut live = live_with(settings(0)).await;
    live.wire.value("await new Promise((r) => setTimeout(r, 50))").await;
    assert_eq!(live.metric("scomp_sessions_hibernated").await, 0.0);
    assert_eq!(live.metric("scomp_sessions_resident").await, 1.0);
}

#[tokio::test]
async fn ended_sessions_leave_no_bytes_behind() {
    let live = live_with(settings(10)).await;
    let mut wires = Vec::new();
    for _ in 0..5 {
        let mut wire = Wire::live(&live.running.url).await;
        wire.value("let list = Array.from({length: 1000}, (_, i) => ({i})); 0").await;
        wires.push(wire);
    }
    live.hibernated(6.0).await;
    for mut wire in wires {
        wire.invoke("session.close", json!({})).await;
    }
    while live.metric("scomp_sessions_hibernated").await > 1.0 {
        tokio::task::yield_now().await;
    }
    assert!(metric(&live.running, "scomp_hibernated_bytes").await < 1e6);
}
