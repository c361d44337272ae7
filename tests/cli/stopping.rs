//! A stop is bounded: by `drain_ms` and a grace, whatever scripts, handlers and threads do.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Program, Running, empty_folder};

/// Far more than `drain_ms` here and the grace of ten seconds, far less than the scripts would take.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Exit code of a stop that had to be forced.
const FORCED: i32 = 1;

/// Starts a server over stdio with a short drain and runs `code` there until it calls `ask`.
fn start_asking(code: &str) -> Running {
    let mut server = Program::new(["--stdio"]).variable(("SCOMP_DRAIN_MS", "300")).start();
    let bindings = json!([{"name": "ask"}]);
    let handshake = json!({"protocol": "0.1", "bindings": bindings});
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "handshake", "params": handshake}).to_string());
    server.line();
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "eval", "params": {"code": code}}).to_string());
    let asked: Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(asked["params"]["binding"], "ask", "{asked}");
    server
}

/// Asks it to stop. Returns its exit code.
fn stop(server: Running) -> i32 {
    let start = Instant::now();
    server.signal("TERM");
    let done = server.end_with_open_input();
    assert!(start.elapsed() < STOP_MAX, "{:?}: {}", start.elapsed(), done.stderr);
    done.code
}

#[test]
fn sigterm_beside_a_shard_stuck_in_a_builtin_ends_in_time() {
    // The check of these keys for duplicates takes a minute, and does not poll. The loop lets the call go out first.
    let code = "const keys = Array.from({length: 5e5}, (_, i) => 'k' + i);
        ask({});
        for (let i = 0; i < 1e5; i++);
        ({...new Proxy({}, {ownKeys: () => keys})})";
    assert_eq!(stop(start_asking(code)), 0);
}

#[test]
fn sigterm_beside_a_handler_that_never_answers_ends_in_time() {
    assert_eq!(stop(start_asking("await ask({})")), 0);
}

#[test]
fn sigterm_beside_an_endless_loop_ends_in_time() {
    assert_eq!(stop(start_asking("ask({}); for (;;);")), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn sigterm_while_the_main_thread_is_blocked_is_forced() {
    // The program reads its tokens from a pipe that has no writer, so it does not get past the opening of the file.
    let folder = empty_folder("blocked");
    let tokens = folder.join(format!("tokens-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&tokens).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_scomp-serve"))
        .args(["--listen", "127.0.0.1:0"])
        .env("SCOMP_DRAIN_MS", "300")
        .env("SCOMP_TOKENS_FILE", &tokens)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let is_guarded = || {
        let mut tasks = std::fs::read_dir(&tasks).unwrap().flatten();
        tasks.any(|task| {
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.trim() == "stop-guard")
        })
    };
    while !is_guarded() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let start = Instant::now();
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    while start.elapsed() < STOP_MAX && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = child.try_wait().unwrap();
    // Only a failed test leaves it running.
    let _ = child.kill();
    std::fs::remove_file(tokens).unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(FORCED));
}
