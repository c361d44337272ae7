//! Many concurrent sessions: idle ones beside busy ones, and a burst of connects. All are served, and nothing is leaked.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::time::Duration;

use scomp::client::Client;
use scomp::limits::Limits;
use serde_json::json;
use support::{Running, Wire};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Sessions that do nothing. Over in-process connections, for these take no file descriptors.
const IDLE_SESSIONS: usize = 500;

const BUSY_SESSIONS: usize = 16;

const EVALS_PER_SESSION: usize = 50;

/// Connects at one moment; both ends of each are in this process, within the usual 1 024 descriptors.
const BURST_CONNECTS: usize = 200;

/// How long the server may take to notice that all clients are gone.
const NOTICE_WAIT_MAX: Duration = Duration::from_secs(20);

/// A number from the page that operators see.
async fn measured(running: &Running, name: &str) -> usize {
    let address = running.url.trim_start_matches("ws://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).trim().parse().unwrap()
}

/// Waits until only the asking connection is open, and no session is left.
async fn everybody_gone(running: &Running) {
    let mut every = tokio::time::interval(Duration::from_millis(10));
    let gone = tokio::time::timeout(NOTICE_WAIT_MAX, async {
        while measured(running, "scomp_sessions").await > 0
            || measured(running, "scomp_connections").await > 1
        {
            every.tick().await;
        }
    });
    if gone.await.is_err() {
        let listed = running.server.sessions(3).await;
        panic!("{} sessions are left, such as {listed:?}", running.server.session_count());
    }
    assert_eq!(running.server.session_count(), 0);
}

async fn idle_sessions(running: &Running) -> Vec<Client> {
    let mut opening = JoinSet::new();
    for _ in 0..IDLE_SESSIONS {
        let connection = running.server.connect();
        opening.spawn(async move { Client::builder().connect_transport(connection).await.unwrap() });
    }
    opening.join_all().await
}

/// Runs every eval on state of its own session, so that an answer out of place shows.
async fn busy_session(url: String, number: usize) {
    let mut wire = Wire::live(&url).await;
    for round in 0..EVALS_PER_SESSION {
        let code =
            format!("globalThis.sum = (globalThis.sum ?? {number}) + {round}; [sum, await echo({round})]");
        let sum = number + round * (round + 1) / 2;
        assert_eq!(wire.value(&code).await, json!([sum, round]));
    }
    wire.invoke("session.close", json!({})).await;
}

#[tokio::test]
async fn busy_sessions_are_served_beside_many_idle_ones() {
    let running = Running::with(Limits::default()).await;
    let idle = idle_sessions(&running).await;
    assert_eq!(running.server.session_count(), IDLE_SESSIONS);
    let mut busy = JoinSet::new();
    for number in 0..BUSY_SESSIONS {
        busy.spawn(busy_session(running.url.clone(), number));
    }
    busy.join_all().await;
    assert!(measured(&running, "scomp_sessions").await >= IDLE_SESSIONS);
    // The idle ones are still there, each for itself.
    for (number, client) in idle.iter().enumerate().step_by(50) {
        let own = client.eval(format!("globalThis.own = (globalThis.own ?? 0) + {number}")).await.unwrap();
        assert_eq!(own.value, json!(number));
        client.invoke("session.close", json!({})).await.unwrap();
    }
    drop(idle);
    everybody_gone(&running).await;
}

#[tokio::test]
async fn burst_of_connects_is_served_to_the_last() {
    let running = Running::with(Limits::default()).await;
    let mut burst = JoinSet::new();
    for number in 0..BURST_CONNECTS {
        let url = running.url.clone();
        burst.spawn(async move {
            let mut wire = Wire::live(&url).await;
            assert_eq!(wire.value(&format!("{number} + 1")).await, json!(number + 1));
            wire.invoke("session.close", json!({})).await;
        });
    }
    burst.join_all().await;
    everybody_gone(&running).await;
}
