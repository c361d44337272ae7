//! A server is stopped or killed, and another one goes on with its sessions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, Ticket, start, start_with};
use crate::support::{Folder, Wire};

/// State of every kind that a script can have, and the code that shows it.
const KINDS: [(&str, &str, &str); 14] = [
    ("closure", "globalThis.count = (() => { let n = 41; return () => ++n })(); 0", "count()"),
    (
        "promise",
        "globalThis.later = new Promise(r => { globalThis.settle = r }); 0",
        "settle('done'); await later",
    ),
    (
        "map",
        "globalThis.map = new Map([[{ a: 1 }, 'x'], ['k', new Set([1, 2])]]); 0",
        "[...map.get('k')].join() + map.size",
    ),
    (
        "weak",
        "globalThis.key = {}; globalThis.weak = new WeakMap([[key, 7]]); globalThis.ref = new WeakRef(key); 0",
        "weak.get(ref.deref())",
    ),
    (
        "generator",
        "globalThis.steps = (function* () { const got = yield 1; yield got * 2 })(); steps.next(); 0",
        "steps.next(21).value",
    ),
    (
        "async generator",
        "globalThis.stream = (async function* () { yield 1; yield 2 })(); await stream.next(); 0",
        "(await stream.next()).value",
    ),
    (
        "class",
        "class Account { #sum = 1; add(n) { this.#sum += n; return this.#sum } } globalThis.account = new Account(); 0",
        "account.add(4)",
    ),
    (
        "regexp",
        "globalThis.words = /(?<word>\\w+)/g; words.exec('one two'); 0",
        "words.exec('one two').groups.word",
    ),
    ("bytes", "globalThis.bytes = new Uint8Array([1, 2, 255]); 0", "bytes.at(-1)"),
    ("bigint", "globalThis.big = 2n ** 70n; 0", "String(big + 1n)"),
    ("proxy", "globalThis.proxy = new Proxy({}, { get: (_, name) => name + '!' }); 0", "proxy.hello"),
    (
        "symbol",
        "globalThis.mark = Symbol.for('mark'); globalThis.marked = { [mark]: 5 }; 0",
        "marked[Symbol.for('mark')]",
    ),
    ("date", "globalThis.day = new Date(86_400_000); 0", "day.toISOString()"),
    (
        "error",
        "try { null.x } catch (e) { globalThis.caught = e } 0",
        "caught instanceof TypeError && caught.stack.length > 0",
    ),
];

const EXPECTED: [&str; 14] = [
    "42",
    "\"done\"",
    "\"1,22\"",
    "7",
    "42",
    "2",
    "5",
    "\"two\"",
    "255",
    "\"1180591620717411303425\"",
    "\"hello!\"",
    "5",
    "\"1970-01-02T00:00:00.000Z\"",
    "true",
];

async fn make_kinds(wire: &mut Wire) {
    for (_, make, _) in KINDS {
        assert_eq!(wire.value(make).await, json!(0), "{make}");
    }
}

async fn check_kinds(wire: &mut Wire) {
    for ((kind, _, show), expected) in KINDS.iter().zip(EXPECTED) {
        assert_eq!(wire.value(show).await.to_string(), expected, "{kind}");
    }
}

#[tokio::test]
async fn every_kind_of_state_survives_a_stop() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    make_kinds(&mut wire).await;
    let before = wire.value("[performance.now(), performance.timeOrigin]").await;
    server.stop();
    let server = start(&state);
    let (mut wire, ticket) = ticket.resume(&server.url, json!([])).await;
    check_kinds(&mut wire).await;
    let after = wire.value("[performance.now(), performance.timeOrigin, Math.random(), Date.now()]").await;
    assert_eq!(after[1], before[1], "the session began when it began");
    assert!(after[0].as_f64() > before[0].as_f64(), "time goes on: {before} {after}");
    // The same session once more, from the image that the second process wrote.
    server.stop();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    assert_eq!(wire.value("count()").await, json!(43));
    assert_eq!(wire.value("[1, 2, 3].map((n) => n * 2)").await, json!([2, 4, 6]));
}

#[tokio::test]
async fn hibernated_session_survives_a_kill() {
    let state = Folder::with(&[]);
    let server = start_with(&state, &[("SCOMP_SESSIONS_HIBERNATE_AFTER_MS", "20")]);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    make_kinds(&mut wire).await;
    wait_for_image(&ticket, &state).await;
    server.kill();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    check_kinds(&mut wire).await;
}

/// Waits until the image of a session is there.
async fn wait_for_image(ticket: &Ticket, state: &Folder) {
    while !ticket.image(state).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn keyed_outcome_survives_a_restart() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    let keyed = json!({"code": "globalThis.runs = (globalThis.runs ?? 0) + 1", "key": "once"});
    assert_eq!(wire.request("eval", keyed.clone()).await["result"]["value"], json!(1));
    server.stop();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    assert_eq!(wire.request("eval", keyed).await["result"]["value"], json!(1));
    assert_eq!(wire.value("runs").await, json!(1));
}

#[tokio::test]
async fn running_eval_goes_on_after_a_restart() {
    let state = Folder::with(&[]);
    let server = start_with(&state, &[("SCOMP_DRAIN_MS", "0")]);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    let code =
        "globalThis.runs = (globalThis.runs ?? 0) + 1; await new Promise(r => setTimeout(r, 1_500)); runs";
    let keyed = json!({"code": code, "key": "wait"});
    wire.send("eval", keyed.clone()).await;
    while wire.info().await["running"] != json!(true) {}
    server.stop();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    assert_eq!(wire.request("eval", keyed).await["result"]["value"], json!(1));
}

#[tokio::test]
async fn timer_of_a_stored_session_fires_late_and_once() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("globalThis.fired = []; setTimeout(() => fired.push('once'), 50); setInterval(() => fired.push('again'), 100_000); 0")
        .await;
    server.stop();
    let server = start(&state);
    // Without its client: the server wakes it because something is due.
    let mut other = Wire::live(&server.url).await;
    while metric(&server, "scomp_sessions_resident").await != Some(2.0) {
        other.value("await new Promise(r => setTimeout(r, 20))").await;
    }
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    wire.value("await new Promise(r => setTimeout(r, 1))").await;
    assert_eq!(wire.value("fired").await, json!(["once"]));
}

/// A number of `/metrics`.
pub(crate) async fn metric(server: &Server, name: &str) -> Option<f64> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = server.url.trim_start_matches("ws://").trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test]
async fn pending_client_call_fails_after_a_restart() {
    let state = Folder::with(&[]);
    let server = start_with(&state, &[("SCOMP_DRAIN_MS", "0")]);
    let bindings = json!([{"name": "ask"}]);
    let (mut wire, ticket) = Ticket::open(&server.url, bindings.clone()).await;
    let code =
        "globalThis.asked = ask({}).then((v) => 'got ' + v, (e) => e.data?.kind ?? e.kind ?? String(e)); 0";
    assert_eq!(wire.value(code).await, json!(0));
    server.stop();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, bindings).await;
    assert_eq!(wire.value("await asked").await, json!("PeerGone"));
    // The binding of the new connection works.
    let id = wire.send("eval", json!({"code": "await ask({})"})).await;
    let call = wire.json().await;
    assert_eq!(call["method"], json!("invoke"), "{call}");
    wire.text(&json!({"jsonrpc": "2.0", "id": call["id"], "result": {"value": 5}}).to_string()).await;
    assert_eq!(wire.answer(id).await["result"]["value"], json!(5));
}

#[tokio::test]
async fn reference_of_the_connection_before_is_unknown() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([{"name": "keep"}])).await;
    let held = wire.value("globalThis.f = (x) => x * 2; f").await;
    server.stop();
    let server = start(&state);
    let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
    let reference = held["$fn"].clone();
    let answer = wire.request("invoke", json!({"ref": reference, "args": [4]})).await;
    assert_eq!(answer["error"]["data"]["kind"], json!("UnknownRef"), "{answer}");
    // Sent again it has a name that was never used.
    let again = wire.value("f").await;
    assert_ne!(again["$fn"], held["$fn"]);
    let answer = wire.request("invoke", json!({"ref": again["$fn"], "args": [4]})).await;
    assert_eq!(answer["result"]["value"], json!(8), "{answer}");
}

#[tokio::test]
async fn new_sessions_leave_stored_ones_their_windows() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let mut tickets: Vec<(Ticket, u64)> = Vec::new();
    for number in 0..5_u64 {
        let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
        wire.value(&format!("globalThis.mine = {number}; 0")).await;
        tickets.push((ticket, number));
    }
    server.stop();
    let server = start(&state);
    // New sessions get other address windows than those that are stored.
    let mut fresh = Vec::new();
    for _ in 0..4 {
        let mut wire = Wire::live(&server.url).await;
        assert_eq!(wire.value("typeof mine").await, json!("undefined"));
        fresh.push(wire);
    }
    for (ticket, number) in &tickets {
        let (mut wire, _) = ticket.resume(&server.url, json!([])).await;
        assert_eq!(wire.value("mine").await, json!(number));
    }
}

#[tokio::test]
async fn session_without_code_is_not_kept() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (_wire, ticket) = Ticket::open(&server.url, json!([])).await;
    server.stop();
    let server = start(&state);
    let error = ticket.refused(&server.url).await;
    assert_eq!(error["data"]["kind"], json!("SessionRefused"));
}

#[tokio::test]
async fn wrong_token_does_not_wake_a_stored_session() {
    let state = Folder::with(&[]);
    let server = start(&state);
    let (mut wire, ticket) = Ticket::open(&server.url, json!([])).await;
    wire.value("1").await;
    server.stop();
    let server = start(&state);
    let mut wrong: Value = ticket.0.clone();
    wrong["token"] = json!("0".repeat(64));
    let error = Ticket(wrong).refused(&server.url).await;
    assert_eq!(error["data"]["kind"], json!("SessionRefused"));
    assert_eq!(metric(&server, "scomp_sessions_resident").await, Some(0.0));
    ticket.resume(&server.url, json!([])).await;
}
