//! Limits on time.

use scomp::limits::Limits;
use serde_json::json;

use crate::{kind, live};

#[tokio::test]
async fn cpu_time_and_time_by_the_clock_end_an_eval() {
    let limits = Limits { cpu_ms_max: 100, wall_ms_max: 200, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(wire.failure("for (;;) ;").await.0, "Timeout");
    assert_eq!(wire.failure("await new Promise(r => setTimeout(r, 1e6))").await.0, "Timeout");
    assert_eq!(wire.value("await new Promise(r => setTimeout(() => r(5), 1))").await, json!(5));
}

#[tokio::test]
async fn binding_has_its_time() {
    let limits = Limits { binding_ms_max: 100, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(kind(&wire.invoke("forever", json!({})).await), "Timeout");
    assert_eq!(wire.value("await forever({}).catch(e => e.name)").await, json!("Timeout"));
}

#[tokio::test]
async fn floating_call_is_answered_or_refused_and_pays_for_itself() {
    let floats = "globalThis.seen = []; setTimeout(async () => { try { seen.push(await echo(1)) } catch (e) { seen.push(e.name) } }, 0); 0";
    let waits = "while (seen.length === 0) await new Promise((done) => setTimeout(done, 1)); seen[0]";
    let (_running, mut wire) = live(Limits { calls_per_eval_max: 1, ..Limits::default() }).await;
    wire.value(floats).await;
    assert_eq!(wire.value(waits).await, json!(1));
    assert_eq!(wire.value("await echo(2)").await, json!(2));
    let (_running, mut wire) = live(Limits { floating_calls: false, ..Limits::default() }).await;
    wire.value(floats).await;
    assert_eq!(wire.value(waits).await, json!("Cancelled"));
}

#[tokio::test]
async fn call_into_a_function_of_the_script_has_its_time() {
    let (_running, mut wire) = live(Limits { wall_ms_max: 100, ..Limits::default() }).await;
    let function = wire.value("() => new Promise(() => {})").await;
    let answer = wire.request("invoke", json!({"ref": function["$fn"], "input": 1})).await;
    assert_eq!(kind(&answer), "Timeout");
    let function = wire.value("() => { for (;;); }").await;
    let answer = wire.request("invoke", json!({"ref": function["$fn"], "input": 1})).await;
    assert_eq!(kind(&answer), "Timeout");
    assert_eq!(wire.value("1 + 1").await, json!(2));
}
