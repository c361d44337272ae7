//! What a fork goes on with, over the wire.

use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};

use super::support::Wire;
use super::{Live, live, live_with};

pub(super) fn kind(answer: &Value) -> &Value {
    &answer["error"]["data"]["kind"]
}

/// Forks the session of a connection.
pub(super) async fn fork_at(wire: &mut Wire, input: Value) -> Value {
    let answer = wire.invoke("session.fork", input).await;
    let forked = answer["result"]["value"].clone();
    assert!(forked["sessionId"].is_string() && forked["token"].is_string(), "{answer}");
    forked
}

/// Resumes a fork on a connection of its own.
pub(super) async fn resume(live: &Live, forked: &Value) -> Wire {
    resume_with(live, forked, json!([])).await
}

async fn resume_with(live: &Live, forked: &Value, bindings: Value) -> Wire {
    let session = json!({"id": forked["sessionId"], "token": forked["token"]});
    let (wire, result) =
        Wire::live_with(&live.running.url, json!({"session": session, "bindings": bindings})).await;
    assert_eq!(result["sessionId"], forked["sessionId"], "{result}");
    wire
}

pub(super) async fn fork(live: &mut Live) -> Wire {
    let forked = fork_at(&mut live.wire, json!({})).await;
    resume(live, &forked).await
}

const STATES: &str = "
    let n = 1; const next = () => ++n;
    let settle; const waiting = new Promise((r) => { settle = r; });
    const chain = waiting.then((v) => [v, n]);
    function* count() { for (let i = 0; ; i += 1) yield i; }
    const numbers = count(); numbers.next(); numbers.next();
    const map = new Map([['a', { deep: [1, 2, 3] }], [next, 'function']]);
    const weak = new WeakRef(map);
    class Point { #x = 3; get x() { return this.#x; } }
    const point = new Point();
    const pattern = /(\\d+)-(\\d+)/g; pattern.exec('1-2 3-4');
    const big = 2n ** 70n; const buffer = new Uint8Array([1, 2, 3]);
    const agen = (async function* () { for (let i = 0; ; i += 1) yield i; })();
    await agen.next(); const date = new Date(86400000); const sym = Symbol.for('s'); 0";

const LOOK: &str = "
    settle('settled');
    [next(), await chain, numbers.next().value, map.get('a').deep.push(4), map.get(next), weak.deref() === map, point.x,
     pattern.exec('1-2 3-4')?.[1], String(big), [...buffer], (await agen.next()).value, date.toISOString(), String(sym)]";

fn looked() -> Value {
    json!([
        2,
        ["settled", 2],
        2,
        4,
        "function",
        true,
        3,
        "3",
        "1180591620717411303424",
        [1, 2, 3],
        1,
        "1970-01-02T00:00:00.000Z",
        "Symbol(s)"
    ])
}

async fn every_kind_of_state(mut live: Live) {
    live.wire.value(STATES).await;
    let mut first = fork(&mut live).await;
    let mut second = fork(&mut live).await;
    assert_eq!(first.value(LOOK).await, looked());
    assert_eq!(live.wire.value(LOOK).await, looked(), "what the fork did is not seen");
    let mut third = {
        let forked = fork_at(&mut first, json!({})).await;
        resume(&live, &forked).await
    };
    assert_eq!(second.value(LOOK).await, looked());
    for (wire, expected) in [(&mut third, 3), (&mut first, 3), (&mut live.wire, 3), (&mut second, 3)] {
        assert_eq!(wire.value("[next(), numbers.next().value]").await, json!([expected, 3]));
    }
}

#[tokio::test]
async fn fork_has_every_kind_of_state() {
    every_kind_of_state(live_with(SessionSettings::default()).await).await;
}

#[tokio::test]
async fn fork_of_hibernated_sessions_has_every_kind_of_state() {
    every_kind_of_state(live().await).await;
}

async fn checkpoint(wire: &mut Wire) -> Value {
    wire.invoke("session.checkpoint", json!({})).await["result"]["value"]["checkpoint"].clone()
}

async fn call(wire: &mut Wire, reference: &Value) -> Value {
    wire.request("invoke", json!({"ref": reference, "args": []})).await
}

#[tokio::test]
async fn timers_fire_in_the_original_and_in_the_fork() {
    let mut live = live().await;
    live.wire
        .value("let fired = 0; setTimeout(() => { fired += 1; }, 30); setInterval(() => {}, 5); 0")
        .await;
    let mut other = fork(&mut live).await;
    let wait = "while (fired === 0) await new Promise((r) => setTimeout(r, 1)); fired";
    assert_eq!((other.value(wait).await, live.wire.value(wait).await), (json!(1), json!(1)));
}

#[tokio::test]
async fn functions_of_the_script_are_callable_in_the_fork() {
    let mut live = live().await;
    let counter = live.wire.value("let calls = 0; () => ++calls").await["$fn"].clone();
    let mark = checkpoint(&mut live.wire).await;
    let later = live.wire.value("() => 'later'").await["$fn"].clone();
    let mut now = fork(&mut live).await;
    let at_mark = fork_at(&mut live.wire, json!({"checkpoint": mark})).await;
    let mut then = resume(&live, &at_mark).await;
    for wire in [&mut now, &mut then, &mut live.wire] {
        assert_eq!(call(wire, &counter).await["result"]["value"], json!(1));
    }
    assert_eq!(call(&mut now, &later).await["result"]["value"], json!("later"));
    let unknown = call(&mut then, &later).await;
    assert_eq!(*kind(&unknown), json!("UnknownRef"), "{unknown}");
    // Given up in the fork alone.
    let release = json!({"jsonrpc": "2.0", "method": "release_ref", "params": {"ref": counter}});
    now.text(&release.to_string()).await;
    assert_eq!(*kind(&call(&mut now, &counter).await), json!("UnknownRef"));
    assert_eq!(call(&mut live.wire, &counter).await["result"]["value"], json!(2));
}

#[tokio::test]
async fn functions_of_handlers_are_callable_in_the_fork() {
    let mut live = live().await;
    live.wire.value("const next = await counter.make({}); await next()").await;
    let mut other = fork(&mut live).await;
    assert_eq!(other.value("await next()").await, json!(2), "it is one function of the server");
    assert_eq!(live.wire.value("await next()").await, json!(3));
    live.wire.invoke("session.reset", json!({})).await;
    assert_eq!(other.value("await next()").await, json!(4), "the original has dropped it");
}

#[tokio::test]
async fn calls_in_flight_stay_with_the_original() {
    let running = super::Running::on_shards(1, scomp::limits::Limits::default(), SessionSettings::default());
    let running = running.await;
    let bindings = json!([{"name": "ask"}]);
    let (wire, _) = Wire::live_with(&running.url, json!({"bindings": bindings})).await;
    let mut live = Live { running, wire };
    live.wire
        .value(
            "const seen = {}; const note = (name) => [(v) => { seen[name] = v; }, (e) => { seen[name] = e.name; }];
             forever({}).then(...note('server')); ask({ n: 1 }).then(...note('client')); 0",
        )
        .await;
    let asked = live.wire.json().await;
    assert_eq!(asked["params"]["binding"], json!("ask"), "{asked}");
    let forked = fork_at(&mut live.wire, json!({})).await;
    let mut other = resume_with(&live, &forked, json!([{"name": "ask"}])).await;
    assert_eq!(other.value("await null; seen").await, json!({"server": "Forked", "client": "Forked"}));
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": "answered"}});
    live.wire.text(&answer.to_string()).await;
    assert_eq!(live.wire.value("await null; seen").await, json!({"client": "answered"}));
    // The fork calls its own client.
    let eval = other.send("eval", json!({"code": "await ask({ n: 2 })"})).await;
    let asked = other.json().await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": "fork"}});
    other.text(&answer.to_string()).await;
    assert_eq!(other.answer(eval).await["result"]["value"], json!("fork"));
}

#[tokio::test]
async fn functions_of_the_original_client_are_unknown_in_the_fork() {
    let running = super::Running::on_shards(1, scomp::limits::Limits::default(), SessionSettings::default());
    let running = running.await;
    let (wire, _) = Wire::live_with(&running.url, json!({"bindings": [{"name": "give"}]})).await;
    let mut live = Live { running, wire };
    let eval = live.wire.send("eval", json!({"code": "const given = await give({}); 0"})).await;
    let asked = live.wire.json().await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": {"$fn": "c1"}}});
    live.wire.text(&answer.to_string()).await;
    live.wire.answer(eval).await;
    let mut other = fork(&mut live).await;
    assert_eq!(other.value("await given().catch((e) => e.name)").await, json!("UnknownRef"));
}

#[tokio::test]
async fn keyed_outcomes_are_known_in_the_fork() {
    let mut live = live().await;
    let keyed = |code: &str| json!({"code": code, "key": "k"});
    live.wire.value("let runs = 0; 0").await;
    let first = live.wire.request("eval", keyed("++runs")).await;
    let mut other = fork(&mut live).await;
    assert_eq!(other.request("eval", keyed("++runs")).await["result"], first["result"]);
    assert_eq!(*kind(&other.request("eval", keyed("other")).await), json!("KeyConflict"));
    let own = json!({"code": "++runs", "key": "own"});
    assert_eq!(other.request("eval", own.clone()).await["result"]["value"], json!(2));
    assert_eq!(live.wire.request("eval", own).await["result"]["value"], json!(2), "it has not run here");
}

#[tokio::test]
async fn random_numbers_of_forks_differ() {
    let mut live = live().await;
    const DRAW: &str = "[Math.random(), Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(8))].join()]";
    live.wire.value(DRAW).await;
    let mark = checkpoint(&mut live.wire).await;
    let mut drawn = vec![];
    for input in [json!({}), json!({}), json!({"checkpoint": mark}), json!({"checkpoint": mark})] {
        let forked = fork_at(&mut live.wire, input).await;
        drawn.push(resume(&live, &forked).await.value(DRAW).await);
    }
    drawn.push(live.wire.value(DRAW).await);
    for at in 0..4 {
        let values: std::collections::BTreeSet<String> =
            drawn.iter().map(|row| row[at].to_string()).collect();
        assert_eq!(values.len(), drawn.len(), "{drawn:?}");
    }
}

#[tokio::test]
async fn fork_of_a_checkpoint_has_that_checkpoint_and_those_before() {
    let mut live = live().await;
    live.wire.value("let n = 1; 0").await;
    let first = checkpoint(&mut live.wire).await;
    live.wire.value("n = 2").await;
    let second = checkpoint(&mut live.wire).await;
    live.wire.value("n = 3").await;
    let third = checkpoint(&mut live.wire).await;
    let forked = fork_at(&mut live.wire, json!({"checkpoint": second})).await;
    let mut other = resume(&live, &forked).await;
    assert_eq!((other.value("n").await, live.wire.value("n").await), (json!(2), json!(3)));
    let rewind = |number: &Value| json!({"checkpoint": number});
    let unknown = other.invoke("session.rewind", rewind(&third)).await;
    assert_eq!(*kind(&unknown), json!("UnknownCheckpoint"), "{unknown}");
    live.wire.invoke("session.close", json!({})).await;
    other.invoke("session.rewind", rewind(&first)).await;
    assert_eq!(other.value("n").await, json!(1), "the images of the original are still there");
}
