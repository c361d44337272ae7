//! A client that goes away in every phase and comes back: nothing runs twice, nothing hangs, nothing is left over.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use scomp::limits::Limits;
use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};
use support::wire::Arrival;
use support::{Running, Wire};

fn ticket(welcome: &Value) -> Value {
    json!({"id": welcome["sessionId"], "token": welcome["metadata"]["session"]["token"]})
}

/// Resumes a session; returns the new connection and the ticket for the next time.
async fn resume(url: &str, ticket: &Value, bindings: Value) -> (Wire, Value) {
    let (wire, welcome) = Wire::live_with(url, json!({"session": ticket, "bindings": bindings})).await;
    assert_eq!(welcome["metadata"]["session"]["resumed"], json!(true));
    let next = self::ticket(&welcome);
    (wire, next)
}

/// Nothing of the script waits, and no reference is held.
async fn assert_nothing_left(wire: &mut Wire) {
    let info = wire.info().await;
    for count in ["evalsQueued", "callsInFlight", "functionsHeld", "functionsImported"] {
        assert_eq!(info[count], json!(0), "{count} in {info}");
    }
    assert_eq!(info["running"], json!(false));
}

#[tokio::test]
async fn leaving_before_the_handshake_leaves_no_session() {
    let running = Running::with(Limits::default()).await;
    for _ in 0..20 {
        drop(Wire::open(&running.url).await);
        let mut wire = Wire::open(&running.url).await;
        wire.send("handshake", json!({"protocol": "0.1"})).await;
        drop(wire);
    }
    let mut wire = Wire::live(&running.url).await;
    assert_eq!(wire.value("1").await, json!(1));
    let server = &running.server;
    for _ in 0..100 {
        if server.session_count() == 1 {
            return;
        }
        // After a round trip the server has noticed.
        wire.value("await new Promise(r => setTimeout(r, 20))").await;
    }
    panic!("{} sessions are left", server.session_count());
}

#[tokio::test]
async fn eval_of_a_lost_connection_runs_once_to_its_end() {
    let running = Running::with(Limits::default()).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({})).await;
    wire.value("globalThis.starts = 0; globalThis.ends = 0").await;
    let code = "starts++; await new Promise(r => setTimeout(r, 100)); ends++; [starts, ends]";
    wire.send("eval", json!({"code": code, "key": "once"})).await;
    wire.info().await;
    drop(wire);
    let (mut wire, next) = resume(&running.url, &ticket(&welcome), json!([])).await;
    let joined = wire.request("eval", json!({"code": code, "key": "once"})).await;
    assert_eq!(joined["result"]["value"], json!([1, 1]));
    drop(wire);
    let (mut wire, _) = resume(&running.url, &next, json!([])).await;
    let stored = wire.request("eval", json!({"code": code, "key": "once"})).await;
    assert_eq!(stored["result"]["value"], json!([1, 1]));
    assert_eq!(wire.value("[starts, ends]").await, json!([1, 1]));
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn functions_in_an_undelivered_value_are_released() {
    let running = Running::with(Limits::default()).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({})).await;
    wire.value("globalThis.over = false").await;
    let code = "await new Promise(r => setTimeout(r, 50)); over = true; () => 1";
    wire.send("eval", json!({"code": code})).await;
    wire.info().await;
    drop(wire);
    let (mut wire, _) = resume(&running.url, &ticket(&welcome), json!([])).await;
    assert_eq!(wire.value("over").await, json!(true));
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn loop_of_a_lost_connection_can_be_cancelled_by_the_next() {
    let running = Running::with(Limits { cpu_ms_max: 2_000, ..Limits::default() }).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({})).await;
    wire.value("1").await;
    wire.send("eval", json!({"code": "for (;;) ;"})).await;
    wire.info().await;
    drop(wire);
    let (mut wire, _) = resume(&running.url, &ticket(&welcome), json!([])).await;
    wire.invoke("session.cancel", json!({})).await;
    assert_eq!(wire.value("1 + 1").await, json!(2));
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn call_to_a_client_that_left_fails_and_the_eval_goes_on() {
    let running = Running::with(Limits::default()).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({"bindings": [{"name": "ask"}]})).await;
    let code = "globalThis.f = () => 1; globalThis.out = await ask({ f }).catch(e => e.name)";
    wire.send("eval", json!({"code": code})).await;
    let call = wire.json().await;
    assert_eq!(call["method"], json!("invoke"));
    drop(wire);
    let (mut wire, _) = resume(&running.url, &ticket(&welcome), json!([{"name": "ask"}])).await;
    assert_eq!(wire.value("out").await, json!("PeerGone"));
    // The answer to the old call means nothing here.
    wire.text(&json!({"jsonrpc": "2.0", "id": call["id"], "result": {"value": "late"}}).to_string()).await;
    assert_eq!(wire.value("out").await, json!("PeerGone"));
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn client_in_its_grace_answers_after_it_came_back() {
    let running = Running::with(Limits { client_grace_ms: 10_000, ..Limits::default() }).await;
    let bindings = json!([{"name": "ask"}]);
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({"bindings": bindings})).await;
    wire.value("1").await;
    wire.send(
        "eval",
        json!({"code": "await new Promise(r => setTimeout(r, 200)); globalThis.out = await ask()"}),
    )
    .await;
    wire.info().await;
    drop(wire);
    let (mut wire, _) = resume(&running.url, &ticket(&welcome), bindings).await;
    let call = wire.json().await;
    assert_eq!(call["params"]["binding"], json!("ask"), "{call}");
    wire.text(&json!({"jsonrpc": "2.0", "id": call["id"], "result": {"value": "here"}}).to_string()).await;
    assert_eq!(wire.value("out").await, json!("here"));
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn functions_go_with_the_connection_that_held_them() {
    let running = Running::with(Limits::default()).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({})).await;
    wire.value("Array.from({ length: 100 }, () => () => 1)").await;
    assert_eq!(wire.info().await["functionsHeld"], json!(100));
    drop(wire);
    let (mut wire, _) = resume(&running.url, &ticket(&welcome), json!([])).await;
    assert_nothing_left(&mut wire).await;
}

#[tokio::test]
async fn taking_over_again_and_again_runs_nothing_twice() {
    let running = Running::with(Limits::default()).await;
    let (mut wire, welcome) = Wire::live_with(&running.url, json!({})).await;
    wire.value("globalThis.n = 0").await;
    let mut ticket = ticket(&welcome);
    let mut old = Vec::new();
    for round in 0..20 {
        let key = format!("k{round}");
        wire.send("eval", json!({"code": "await null; ++n", "key": key})).await;
        let (next_wire, next_ticket) = resume(&running.url, &ticket, json!([])).await;
        old.push(std::mem::replace(&mut wire, next_wire));
        ticket = next_ticket;
        let answer = wire.request("eval", json!({"code": "await null; ++n", "key": key})).await;
        assert_eq!(answer["result"]["value"], json!(round + 1));
    }
    assert_eq!(wire.value("n").await, json!(20));
    assert_nothing_left(&mut wire).await;
}

/// The memory of ten contexts is not in use any more, and what is left is that of one session and a context in reserve.
async fn assert_contexts_are_freed(running: &Running) {
    let mut wire = Wire::live(&running.url).await;
    let mut page = String::new();
    for _ in 0..100 {
        page = running.metrics().await;
        let bytes = page.lines().find_map(|line| line.strip_prefix("scomp_session_memory_bytes ")).unwrap();
        if bytes.parse::<usize>().unwrap() < 2 << 20 {
            return;
        }
        // After a round trip the server has noticed.
        wire.value("await new Promise(r => setTimeout(r, 20))").await;
    }
    panic!("contexts are left: {page}");
}

/// A session with functions on both sides: the client holds 20 of the script, the script 20 of the client.
async fn entangled(url: &str) -> (Wire, Value) {
    let (mut wire, welcome) = Wire::live_with(url, json!({})).await;
    let functions = wire
        .value("globalThis.kept = []; Array.from({ length: 20 }, () => (f) => { kept.push(f); return f; })")
        .await;
    for (index, function) in functions.as_array().unwrap().iter().enumerate() {
        let input = json!({"$fn": format!("c{index}"), "name": "g"});
        wire.request("invoke", json!({"ref": function["$fn"], "input": input})).await;
    }
    (wire, ticket(&welcome))
}

#[tokio::test]
async fn reset_of_a_lost_connection_frees_the_old_context() {
    let running = Running::on_shards(1, Limits::default(), SessionSettings::default()).await;
    for round in 0..10 {
        let (mut wire, ticket) = entangled(&running.url).await;
        // In some rounds JavaScript is on the stack when the two arrive, in others a keyed outcome holds a function.
        match round % 3 {
            0 => drop(
                wire.send("eval", json!({"code": "await new Promise(() => setTimeout(f => f, 5e3))"})).await,
            ),
            1 => drop(wire.send("eval", json!({"code": "for (;;) ;"})).await),
            _ => drop(wire.request("eval", json!({"code": "() => 1", "key": "k"})).await),
        }
        wire.send("invoke", json!({"binding": "session.reset", "input": {}})).await;
        drop(wire);
        let (mut wire, _) = resume(&running.url, &ticket, json!([])).await;
        assert_eq!(wire.value("typeof kept").await, json!("undefined"), "round {round}");
        assert_nothing_left(&mut wire).await;
        wire.invoke("session.close", json!({})).await;
    }
    assert_contexts_are_freed(&running).await;
}

#[tokio::test]
async fn session_that_ends_with_its_connection_frees_its_context() {
    let running = Running::on_shards(1, Limits::default(), SessionSettings::default()).await;
    for round in 0..10 {
        let (mut wire, ticket) = entangled(&running.url).await;
        if round % 2 == 0 {
            wire.send("eval", json!({"code": "for (;;) ;", "key": "k"})).await;
        }
        if round % 3 == 0 {
            wire.send("invoke", json!({"binding": "session.reset", "input": {}})).await;
        }
        wire.send("invoke", json!({"binding": "session.close", "input": {}})).await;
        drop(wire);
        let mut wire = Wire::open(&running.url).await;
        let answer = wire.request("handshake", json!({"protocol": "0.1", "session": ticket})).await;
        match answer.pointer("/error/data/kind") {
            Some(kind) => assert_eq!(*kind, json!("SessionRefused")),
            // A session that has not read the request yet is taken over first, and then ends.
            None => assert!(matches!(wire.next().await, Arrival::Closed(_)), "round {round}"),
        }
    }
    assert_contexts_are_freed(&running).await;
}

#[tokio::test]
async fn session_closed_from_another_shard_is_not_kept() {
    let running = Running::on_shards(2, Limits::default(), SessionSettings::default()).await;
    for _ in 0..100 {
        let (mut first, welcome) = Wire::live_with(&running.url, json!({})).await;
        assert_eq!(first.value("1").await, json!(1));
        // The first connection weighs on its shard, so the second goes to the other.
        let (mut second, _) = resume(&running.url, &ticket(&welcome), json!([])).await;
        second.invoke("session.close", json!({})).await;
        assert_eq!(second.next().await, Arrival::Closed(1000));
        assert_eq!(running.server.session_count(), 0);
    }
}
