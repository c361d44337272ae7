//! The end of a worker, and what it costs its own sessions and others.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::support::wire::Arrival;
use super::*;

fn kill(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// Waits for something that the system does in its own time.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_worker_costs_its_own_sessions_only() {
    let running = running(Isolation::Principal, Limits::default(), 8).await;
    let (mut lost, worker) = open_apart(&running).await;
    let (mut neighbour, _) = open_apart(&running).await;
    assert_eq!(neighbour.eval("var kept = 7").await["error"], serde_json::Value::Null);
    for signal in ["-KILL", "-ABRT"] {
        let (mut wire, process) = if signal == "-KILL" { (lost, worker) } else { open_apart(&running).await };
        kill(process, signal);
        assert_eq!(wire.next().await, Arrival::Closed(1011), "{signal}");
        until("the process is gone", || !Path::new(&format!("/proc/{process}")).exists()).await;
        assert_eq!(neighbour.eval("kept").await["result"]["value"], 7);
        lost = wire;
    }
    let page = running.metrics().await;
    assert!(page.contains("scomp_workers_total{event=\"lost\"}"), "{page}");
}

/// The conversion of a huge BigInt to text cannot be interrupted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_worker_is_ended_and_neighbours_do_not_notice() {
    let limits = Limits { cpu_ms_max: 100, ..Limits::default() };
    let running = running(Isolation::Principal, limits, 8).await;
    let (mut stuck, worker) = open_apart(&running).await;
    let (mut neighbour, _) = open_apart(&running).await;
    let code = "const big = 2n ** 1000000n; for (;;) String(big)";
    stuck
        .text(&format!(r#"{{"jsonrpc":"2.0","id":"s","method":"eval","params":{{"code":"{code}"}}}}"#))
        .await;
    let mut answers = 0;
    loop {
        match stuck.next_within(Duration::from_millis(20)).await {
            Arrival::Silence => {
                assert_eq!(neighbour.eval("1 + 1").await["result"]["value"], 2);
                answers += 1;
            }
            // A builtin that returned in time is stopped as any script is.
            Arrival::Text(text) => return assert!(text.contains("Timeout"), "{text}"),
            Arrival::Closed(code) => break assert_eq!(code, 1011),
            Arrival::Gone => panic!("closed without a code"),
        }
    }
    assert!(answers > 0);
    until("the process is gone", || !Path::new(&format!("/proc/{worker}")).exists()).await;
    assert_eq!(neighbour.eval("'still here'").await["result"]["value"], "still here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_ends_with_its_last_session() {
    let running = running(Isolation::Principal, Limits::default(), 8).await;
    let (mut wire, worker) = open_apart(&running).await;
    wire.request("invoke", serde_json::json!({"binding": "session.close", "input": {}})).await;
    until("the process is gone", || !Path::new(&format!("/proc/{worker}")).exists()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_past_the_number_of_workers_share_or_wait() {
    let shared = running(Isolation::Principal, Limits::default(), 1).await;
    let (mut first, _) = open_apart(&shared).await;
    let mut second = open(&shared).await;
    assert_eq!(first.eval("globalThis.x = 1").await["result"]["value"], 1);
    assert_eq!(second.eval("typeof x").await["result"]["value"], "undefined");
    let apart = running(Isolation::Session, Limits::default(), 1).await;
    let _first = open(&apart).await;
    let mut refused = Wire::open(&apart.url).await;
    let answer = refused.request("handshake", serde_json::json!({"protocol": "0.1"})).await;
    assert_eq!(answer["error"]["data"]["kind"], "Busy", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_do_not_outlive_a_killed_server() {
    let mut server = Command::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0", "--isolation", "principal"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let url = line.trim().replace("listening on http", "ws");
    let mut wire = Wire::live(&format!("{url}/")).await;
    assert_eq!(wire.eval("1 + 1").await["result"]["value"], 2);
    let workers: Vec<u32> = children_of(server.id()).into_iter().filter(|child| is_worker(*child)).collect();
    assert_eq!(workers.len(), 1);
    server.kill().unwrap();
    server.wait().unwrap();
    until("no orphan", || workers.iter().all(|worker| !is_worker(*worker))).await;
}
