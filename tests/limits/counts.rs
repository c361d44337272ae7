//! Limits on numbers: evals, timers, references, calls, requests, keys.

use scomp::limits::Limits;
use serde_json::json;

use crate::{kind, live};

#[tokio::test]
async fn as_many_evals_wait_as_the_limit_says() {
    let limits = Limits { queued_evals_max: 2, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let running = wire.send("eval", json!({"code": "await forever({})"})).await;
    wire.info().await;
    let second = wire.send("eval", json!({"code": "2"})).await;
    let third = wire.send("eval", json!({"code": "3"})).await;
    let refused = wire.request("eval", json!({"code": "4"})).await;
    assert_eq!(kind(&refused), "QueueFull");
    wire.invoke("session.info", json!({})).await;
    wire.send("invoke", json!({"binding": "session.cancel", "input": {"evalId": running}})).await;
    assert_eq!(kind(&wire.answer(running).await), "Cancelled");
    assert_eq!(wire.answer(second).await["result"]["value"], json!(2));
    assert_eq!(wire.answer(third).await["result"]["value"], json!(3));
}

#[tokio::test]
async fn timers_are_counted() {
    let limits = Limits { timers_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let set = "const ids = []; for (let i = 0; i < 3; i++) ids.push(setTimeout(() => {}, 1e6)); ids.length";
    assert_eq!(wire.value(set).await, json!(3));
    let (_, message) = wire.failure("setTimeout(() => {}, 1e6)").await;
    assert!(message.starts_with("RangeError"), "{message}");
    assert_eq!(wire.value("clearTimeout(ids[0]); setInterval(() => {}, 1e6) > 0").await, json!(true));
}

#[tokio::test]
async fn references_are_counted_each_way() {
    let limits = Limits { references_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    assert_eq!(
        wire.value("globalThis.f = [() => 1, () => 2, () => 3]; f").await.as_array().unwrap().len(),
        3
    );
    assert_eq!(wire.failure("() => 4").await.0, "TooManyRefs");
    assert_eq!(wire.value("f[0]").await["$fn"], json!("f1"));
    let release = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": "f1", "count": 2}});
    wire.text(&release.to_string()).await;
    assert_eq!(wire.value("() => 4").await["$fn"], json!("f4"));
}

#[tokio::test]
async fn calls_of_one_eval_are_counted() {
    let limits = Limits { calls_per_eval_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let calls = |n: u32| format!("for (let i = 0; i < {n}; i++) await echo(i); 'done'");
    assert_eq!(wire.value(&calls(3)).await, json!("done"));
    let answer = wire.eval(&calls(4)).await;
    assert!(answer.to_string().contains("TooManyCalls"), "{answer}");
    assert_eq!(wire.value(&calls(3)).await, json!("done"));
}

#[tokio::test]
async fn invokes_inside_invokes_are_counted() {
    let limits = Limits { invoke_depth_max: 4, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let nested = |n: u32| {
        format!(
            "let i = {{ binding: 'echo', input: 1 }}; for (let n = 0; n < {n}; n++) i = {{ binding: 'relay', input: i }}; await relay(i)"
        )
    };
    assert_eq!(wire.value(&nested(1)).await, json!(1));
    let answer = wire.eval(&nested(8)).await;
    assert!(answer.to_string().contains("TooDeep"), "{answer}");
}

#[tokio::test]
async fn open_requests_are_counted() {
    let limits = Limits { requests_open_max: 3, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(wire.send("invoke", json!({"binding": "forever", "input": {}})).await);
    }
    let refused = wire.request("invoke", json!({"binding": "echo", "input": 1})).await;
    assert_eq!(kind(&refused), "Busy");
}

#[tokio::test]
async fn outcomes_of_keys_are_forgotten_oldest_first() {
    let limits = Limits { keyed_outcomes_max: 2, ..Limits::default() };
    let (_running, mut wire) = live(limits).await;
    let code = "globalThis.n = (globalThis.n ?? 0) + 1";
    let mut run = async |key: &str| {
        let answer = wire.request("eval", json!({"code": code, "key": key})).await;
        answer["result"]["value"].as_u64().unwrap()
    };
    assert_eq!((run("a").await, run("b").await, run("a").await), (1, 2, 1));
    assert_eq!((run("c").await, run("b").await), (3, 2));
    assert_eq!(run("a").await, 4);
}

#[tokio::test]
async fn stored_outcome_that_cannot_be_resent_holds_no_references() {
    let (_running, mut wire) = live(Limits { references_max: 3, ..Limits::default() }).await;
    let keyed = json!({"code": "[() => 1, () => 2]", "key": "k"});
    let stored = wire.request("eval", keyed.clone()).await;
    for function in stored["result"]["value"].as_array().unwrap() {
        let released = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": function["$fn"]}});
        wire.text(&released.to_string()).await;
    }
    wire.value("[() => 3, () => 4]").await;
    assert_eq!(kind(&wire.request("eval", keyed).await), "TooManyRefs");
    assert_eq!(wire.info().await["functionsHeld"], json!(2));
}

#[tokio::test]
async fn refused_call_leaves_none_of_its_functions_held() {
    let (_running, mut wire) = live(Limits { calls_per_eval_max: 1, ..Limits::default() }).await;
    let refused = "const said = [];
        for (const call of [() => echo(() => 1), () => echo(() => 2)]) await call().catch(e => said.push(e.name));
        said";
    assert_eq!(wire.value(refused).await, json!(["TooManyCalls"]));
    // One that a handler was given and did not keep is released when the handler is done.
    assert_eq!(wire.value("1").await, json!(1));
    assert_eq!(wire.info().await["functionsHeld"], json!(0));
}
