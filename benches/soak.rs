//! The soak: idle sessions, busy ones, and connects at a steady rate for minutes, with memory and counts printed.
//!
//! `cargo bench --bench soak -- --idle 10000 --busy 64 --connects 1000 --seconds 180`. Everything is in one process;
//! idle sessions come over in-process connections, so that file descriptors are left for the rest. It fails when an
//! answer is wrong or anything is left at the end; whether memory stayed flat is for the reader of the table.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use parking_lot::Mutex;
use scomp::client::Client;
use scomp::server::Server;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connects that wait for their answer; past it the rate is not held, and the table shows that.
const CONNECTS_OPEN_MAX: usize = 1_000;

/// How long the server may take to notice that all clients are gone.
const NOTICE_WAIT_MAX: Duration = Duration::from_secs(30);

/// When memory is sampled for the last time: the server releases it after a quiet moment.
const MEMORY_BACK_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Parser)]
struct Figures {
    /// Sessions that do nothing.
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// Sessions that evaluate without pause.
    #[arg(long, default_value_t = 64)]
    busy: usize,
    /// Connects a second, each with a handshake, an eval and a close.
    #[arg(long, default_value_t = 1_000)]
    connects: u64,
    /// How long.
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// Seconds between two lines of the table.
    #[arg(long, default_value_t = 10)]
    every: u64,
    /// What `cargo bench` says to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What the clients count.
#[derive(Default)]
struct Counts {
    evals: AtomicU64,
    connects: AtomicU64,
    /// Of the line at hand.
    latencies: Mutex<Vec<Duration>>,
}

#[tokio::main]
async fn main() {
    let figures = Figures::parse();
    let server = Server::builder().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    println!("{figures:?}");
    line("empty", &server, &Counts::default());

    let idle = open_idle(&server, figures.idle).await;
    line("idle", &server, &Counts::default());

    let counts = Arc::new(Counts::default());
    let stop = CancellationToken::new();
    let mut work = JoinSet::new();
    for _ in 0..figures.busy {
        work.spawn(keep_busy(url.clone(), Arc::clone(&counts), stop.clone()));
    }
    work.spawn(keep_connecting(url, figures.connects, Arc::clone(&counts), stop.clone()));
    print_lines(&figures, &server, &counts).await;
    stop.cancel();
    work.join_all().await;
    drop(idle);
    everybody_gone(&server).await;
    line("closed", &server, &counts);
    tokio::time::sleep(MEMORY_BACK_AFTER).await;
    line("later", &server, &counts);
    server.stop(Duration::ZERO).await;
}

async fn open_idle(server: &Server, sessions: usize) -> Vec<Client> {
    let mut idle = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        idle.push(Client::builder().connect_transport(server.connect()).await.unwrap());
    }
    idle
}

async fn keep_busy(url: String, counts: Arc<Counts>, stop: CancellationToken) {
    let client = Client::connect(url).await.unwrap();
    let mut round = 0_u64;
    while !stop.is_cancelled() {
        let started = Instant::now();
        let output = client.eval(format!("globalThis.n = (globalThis.n ?? 0) + 1; await null; [n, {round}]"));
        assert_eq!(output.await.unwrap().value, json!([round + 1, round]));
        counts.latencies.lock().push(started.elapsed());
        counts.evals.fetch_add(1, Ordering::Relaxed);
        round += 1;
    }
    close(&client).await;
}

async fn keep_connecting(url: String, per_second: u64, counts: Arc<Counts>, stop: CancellationToken) {
    let Some(pause) = Duration::from_secs(1).checked_div(u32::try_from(per_second).unwrap_or(u32::MAX))
    else {
        return;
    };
    let mut tick = tokio::time::interval(pause);
    let mut open = JoinSet::new();
    while !stop.is_cancelled() {
        tick.tick().await;
        open.spawn(connect_once(url.clone(), Arc::clone(&counts)));
        while let Some(done) = open.try_join_next() {
            done.unwrap();
        }
        if open.len() >= CONNECTS_OPEN_MAX {
            open.join_next().await.transpose().unwrap();
        }
    }
    open.join_all().await;
}

async fn connect_once(url: String, counts: Arc<Counts>) {
    let client = Client::connect(url).await.unwrap();
    assert_eq!(client.eval("6 * 7").await.unwrap().value, json!(42));
    close(&client).await;
    counts.connects.fetch_add(1, Ordering::Relaxed);
}

/// Ends the session too: a connection alone would leave it for its client to come back.
async fn close(client: &Client) {
    // The server may close before the answer is read.
    let _ = client.invoke("session.close", json!({})).await;
}

async fn print_lines(figures: &Figures, server: &Server, counts: &Counts) {
    let every = Duration::from_secs(figures.every.max(1));
    let end = Instant::now() + Duration::from_secs(figures.seconds);
    let mut tick = tokio::time::interval(every);
    tick.tick().await;
    while Instant::now() < end {
        tick.tick().await;
        line("load", server, counts);
    }
}

/// One line of the table.
fn line(what: &str, server: &Server, counts: &Counts) {
    let mut latencies = std::mem::take(&mut *counts.latencies.lock());
    latencies.sort_unstable();
    let at = |per_cent: usize| latencies.get(latencies.len() * per_cent / 100).copied().unwrap_or_default();
    println!(
        "{what:6} sessions {:6}  rss {:8} kB  threads {:3}  tasks {:6}  evals {:8}  p50 {:?}  p99 {:?}  connects {:8}",
        server.session_count(),
        status("VmRSS:"),
        status("Threads:"),
        tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        counts.evals.load(Ordering::Relaxed),
        at(50),
        at(99),
        counts.connects.load(Ordering::Relaxed),
    );
}

/// A figure of this process from the kernel's account; 0 where it keeps none.
fn status(name: &str) -> u64 {
    let page = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure =
        page.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    figure.unwrap_or(0)
}

async fn everybody_gone(server: &Server) {
    let mut every = tokio::time::interval(Duration::from_millis(50));
    let gone = tokio::time::timeout(NOTICE_WAIT_MAX, async {
        while server.session_count() > 0 {
            every.tick().await;
        }
    });
    assert!(gone.await.is_ok(), "{} sessions are left", server.session_count());
}
