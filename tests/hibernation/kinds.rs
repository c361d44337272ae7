//! What a session may hold between two turns, each with its heap out of memory in between.

use serde_json::json;

use super::live;
use super::support::Wire;

#[tokio::test]
async fn closures_generators_and_promises_go_on() {
    let mut live = live().await;
    let wire = &mut live.wire;
    wire.value("let n = 0; const next = () => ++n; const gen = (function* () { let i = 0; for (;;) yield i++; })(); 0").await;
    wire.value("let settle; const waiting = new Promise((r) => { settle = r; }).then((x) => x * 2); 0").await;
    wire.value(
        "class Point { #x = 3; get x() { return this.#x++; } } const point = new Point(); gen.next().value",
    )
    .await;
    assert_eq!(wire.value("[next(), next(), gen.next().value, point.x]").await, json!([1, 2, 1, 3]));
    assert_eq!(wire.value("settle(21); await waiting").await, json!(42));
    assert_eq!(wire.value("[next(), gen.next().value, point.x]").await, json!([3, 2, 4]));
    assert!(live.metric("scomp_wake_duration_seconds_count").await >= 4.0);
}

#[tokio::test]
async fn timer_wakes_the_session() {
    let mut live = live().await;
    live.wire.value("let fired = 0; setTimeout(() => { fired = 1; }, 30); 0").await;
    let answer = live.wire.value("await new Promise((r) => setTimeout(() => r(fired), 60))").await;
    assert_eq!(answer, json!(1));
}

#[tokio::test]
async fn functions_of_both_sides_stay_callable() {
    let mut live = live().await;
    let wire = &mut live.wire;
    let function = wire.value("let calls = 0; (x) => x + ++calls").await["$fn"].clone();
    for n in 1..4 {
        let answer = wire.request("invoke", json!({"ref": function, "input": 10})).await;
        assert_eq!(answer["result"]["value"], json!(10 + n), "{answer}");
    }
    // A function of the client that the script keeps.
    let keep = wire.value("let kept; (f) => { kept = f; return 'kept'; }").await["$fn"].clone();
    wire.request("invoke", json!({"ref": keep, "input": {"$fn": "c1"}})).await;
    let eval = wire.send("eval", json!({"code": "await kept(20)"})).await;
    let call = wire.json().await;
    assert_eq!(call["params"]["ref"], json!("c1"), "{call}");
    wire.text(&json!({"jsonrpc": "2.0", "id": call["id"], "result": {"value": 22}}).to_string()).await;
    assert_eq!(wire.answer(eval).await["result"]["value"], json!(22));
    assert_eq!(wire.value("const c = await counter.make({}); await c()").await, json!(1));
    assert_eq!(wire.value("await c()").await, json!(2));
}

#[tokio::test]
async fn handler_calls_a_function_of_a_hibernated_session() {
    let mut live = live().await;
    let wire = &mut live.wire;
    wire.value("let seen = []; await keeper.keep({fn: (x) => { seen.push(x); return seen.length; }})").await;
    assert_eq!(wire.invoke("keeper.call", json!({"a": 1})).await["result"]["value"], json!(1));
    assert_eq!(wire.invoke("keeper.call", json!({"a": 2})).await["result"]["value"], json!(2));
    assert_eq!(wire.value("seen").await, json!([{"a": 1}, {"a": 2}]));
}

#[tokio::test]
async fn pending_calls_are_settled_after_a_wake() {
    let mut live = live().await;
    let wire = &mut live.wire;
    let eval = wire
        .send("eval", json!({"code": "const all = await Promise.all([kept2(1), echo(2)]); all", "key": "k"}))
        .await;
    drop(wire.answer(eval).await);
    let extra = json!({"bindings": [{"name": "ask"}]});
    let (mut wire, _) = Wire::live_with(&live.running.url, extra).await;
    let eval = wire
        .send("eval", json!({"code": "const [a, b] = await Promise.all([ask({q: 1}), echo(5)]); [a, b]"}))
        .await;
    let call = wire.json().await;
    assert_eq!(call["params"]["binding"], json!("ask"), "{call}");
    // Its answer comes when the heap has long been out of memory.
    wire.info().await;
    wire.text(&json!({"jsonrpc": "2.0", "id": call["id"], "result": {"value": 7}}).to_string()).await;
    assert_eq!(wire.answer(eval).await["result"]["value"], json!([7, 5]));
    let forever = wire.send("eval", json!({"code": "await forever({})"})).await;
    wire.info().await;
    wire.invoke("session.cancel", json!({"evalId": forever})).await;
}

#[tokio::test]
async fn keyed_outcome_is_answered_without_its_heap() {
    let mut live = live().await;
    let keyed =
        json!({"code": "globalThis.runs = (globalThis.runs ?? 0) + 1; [runs, () => runs]", "key": "once"});
    let first = live.wire.request("eval", keyed.clone()).await;
    let second = live.wire.request("eval", keyed).await;
    assert_eq!(first["result"]["value"][0], second["result"]["value"][0]);
    let function = &second["result"]["value"][1]["$fn"];
    let answer = live.wire.request("invoke", json!({"ref": function, "input": null})).await;
    assert_eq!(answer["result"]["value"], json!(1), "{answer}");
}

#[tokio::test]
async fn session_is_resumed_while_hibernated() {
    let sessions =
        scomp::server::settings::SessionSettings { hibernate_every_turn: true, ..Default::default() };
    let running = super::Running::on_shards(2, scomp::limits::Limits::default(), sessions).await;
    let (mut wire, hello) = Wire::live_with(&running.url, json!({})).await;
    wire.value("let kept = {deep: [1, 2, 3]}; 0").await;
    wire.close().await;
    let resume =
        json!({"session": {"id": hello["sessionId"], "token": hello["metadata"]["session"]["token"]}});
    let (mut wire, again) = Wire::live_with(&running.url, resume).await;
    assert_eq!(again["sessionId"], hello["sessionId"]);
    assert_eq!(wire.value("kept").await, json!({"deep": [1, 2, 3]}));
}

#[tokio::test]
async fn reset_drops_the_image() {
    let mut live = live().await;
    live.wire.value("let big = new Uint8Array(1 << 20).fill(7); 0").await;
    let before = live.metric("scomp_hibernated_bytes").await;
    assert!(before > f64::from(1 << 20), "{before}");
    live.wire.invoke("session.reset", json!({})).await;
    assert_eq!(live.wire.value("typeof big").await, json!("undefined"));
    let after = live.metric("scomp_hibernated_bytes").await;
    assert!(after < f64::from(1 << 20), "{after}");
}
