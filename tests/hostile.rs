//! Plays every script under `tests/hostile_scripts`: each means harm, and none may do any.
//!
//! The first line of a script lists the outcomes that are right, kinds of errors or `value`, and `lost` where it may
//! cost the session its state. While it runs, a neighbour on the same thread gets its eval done; afterwards the same
//! session still works. How fast the machine is decides only which of several limits a script meets first.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scomp::limits::Limits;
use scomp::server::settings::SessionSettings;
use serde_json::{Value, json};
use support::Running;
use support::wire::{Arrival, Wire};

/// Scripts that run concurrently: all on one thread, so that they compete.
const CONCURRENT_SCRIPTS_MAX: usize = 3;

/// How long the server may take to end a script: far more than its limits, for the thread is shared.
const END_WAIT_MAX: Duration = Duration::from_secs(30);

/// The wall time is long beside the CPU time: on a busy machine a script has a fraction of a core.
fn limits() -> Limits {
    Limits { cpu_ms_max: 300, wall_ms_max: 5_000, memory_bytes_max: 16 << 20, ..Limits::default() }
}

/// Reads the answer with this id.
async fn answer(wire: &mut Wire, id: u64) -> Result<Value, String> {
    loop {
        match wire.next_within(END_WAIT_MAX).await {
            Arrival::Text(text) => {
                let message: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
                if message["id"] == json!(id) && message.get("method").is_none() {
                    return Ok(message);
                }
            }
            other => return Err(format!("no answer, but {other:?}")),
        }
    }
}

async fn works(wire: &mut Wire, whose: &str) -> Result<(), String> {
    let id = wire.send("eval", json!({"code": "1 + 1"})).await;
    let answer = answer(wire, id).await.map_err(|message| format!("{whose}: {message}"))?;
    match answer.pointer("/result/value") {
        Some(value) if *value == json!(2) => Ok(()),
        _ => Err(format!("{whose}: 1 + 1 is {answer}")),
    }
}

/// Whether the session was given up, and a fresh one stands in its place.
fn is_lost(answer: &Value) -> bool {
    answer.pointer("/error/data/sessionLost").is_some()
}

/// A script that was stopped just before it was out of memory leaves a full session: the next eval may be what goes
/// over the limit, and the one after that has a fresh session.
async fn works_again(wire: &mut Wire, may_lose: bool) -> Result<(), String> {
    if may_lose {
        let id = wire.send("eval", json!({"code": "1 + 1"})).await;
        let first = answer(wire, id).await?;
        if first.pointer("/result/value") != Some(&json!(2)) && !is_lost(&first) {
            return Err(format!("the next eval: 1 + 1 is {first}"));
        }
    }
    works(wire, "the next eval").await
}

fn may_lose(allowed: &str) -> bool {
    allowed.split_whitespace().any(|word| word == "lost")
}

fn judge(allowed: &str, answer: &Value) -> Result<(), String> {
    let outcome = match answer.pointer("/error/data/kind").and_then(Value::as_str) {
        Some(kind) => kind,
        None if answer.get("result").is_some() => "value",
        None => "an error without kind",
    };
    if !allowed.split_whitespace().any(|word| word == outcome) {
        let mut text = answer.to_string();
        text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
        return Err(format!("expected {allowed}, got {outcome}: {text}"));
    }
    if is_lost(answer) && !may_lose(allowed) {
        return Err("the session's state is lost".to_owned());
    }
    Ok(())
}

async fn attack(url: &str, code: &str) -> Result<(), String> {
    let allowed =
        code.lines().next().and_then(|line| line.strip_prefix("//")).ok_or("no outcomes in line 1")?;
    let mut neighbour = Wire::live(url).await;
    let mut wire = Wire::live(url).await;
    let attack = wire.send("eval", json!({"code": code})).await;
    works(&mut neighbour, "the neighbour meanwhile").await?;
    let outcome = answer(&mut wire, attack).await?;
    judge(allowed, &outcome)?;
    works_again(&mut wire, may_lose(allowed)).await?;
    // What a script leaves in the engine may do harm when the context is freed.
    let close = wire.send("invoke", json!({"binding": "session.close", "input": {}})).await;
    answer(&mut wire, close).await?;
    works(&mut neighbour, "the neighbour afterwards").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_script_affects_no_other_session() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_scripts");
    let mut scripts = support::files(&folder, "js").into_iter();
    let server = Arc::new(Running::on_shards(1, limits(), SessionSettings::default()).await);
    let mut running = tokio::task::JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while running.len() < CONCURRENT_SCRIPTS_MAX {
            let Some(path) = scripts.next() else { break };
            let server = Arc::clone(&server);
            running.spawn(async move {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let code = std::fs::read_to_string(&path).unwrap();
                attack(&server.url, &code).await.map_err(|message| format!("{name}: {message}"))
            });
        }
        match running.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(failure))) => failures.push(failure),
            Some(Err(panic)) => failures.push(panic.to_string()),
            None => break,
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
