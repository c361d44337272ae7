//! Plays every script under `tests/hostile_scripts`: each means harm, and none may do any.
//!
//! The first line of a script lists the outcomes that are right, kinds of errors or `value`. While it runs, a
//! neighbour on the same thread gets its eval done; afterwards the same session still works.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scomp::limits::Limits;
use scomp::session::SessionSettings;
use serde_json::{Value, json};
use support::Running;
use support::wire::{Arrival, Wire};

/// Scripts at work at once: all on one thread, so that they are in each other's way.
const RUN_AT_ONCE: usize = 3;

/// How long the server may take to end a script: far more than its limits, for the thread is shared.
const END_WAIT_MAX: Duration = Duration::from_secs(30);

fn limits() -> Limits {
    Limits { cpu_ms_max: 300, wall_ms_max: 3_000, memory_bytes_max: 16 << 20, ..Limits::default() }
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

fn judge(allowed: &str, answer: &Value) -> Result<(), String> {
    let outcome = match answer.pointer("/error/data/kind").and_then(Value::as_str) {
        Some(kind) => kind,
        None if answer.get("result").is_some() => "value",
        None => "an error without kind",
    };
    let lost = answer.pointer("/error/data/sessionLost").is_some();
    if !allowed.split_whitespace().any(|word| word == outcome) {
        let mut text = answer.to_string();
        text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
        return Err(format!("expected {allowed}, got {outcome}: {text}"));
    }
    if lost && !allowed.contains("lost") {
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
    works(&mut wire, "the next eval").await?;
    works(&mut neighbour, "the neighbour afterwards").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_script_harms_nobody() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_scripts");
    let mut scripts = support::files(&folder, "js").into_iter();
    let server = Arc::new(Running::on_shards(1, limits(), SessionSettings::default()).await);
    let mut running = tokio::task::JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while running.len() < RUN_AT_ONCE {
            let Some(path) = scripts.next() else { break };
            let server = Arc::clone(&server);
            running.spawn(async move {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                eprintln!("{name}");
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
