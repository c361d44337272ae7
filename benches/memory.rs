//! memory/v2 in ratios: commits against raw SQLite, telling watchers, graph queries, and what an idle watch takes.
//!
//! `cargo bench --bench memory`. Server and clients are in one process and talk over loopback sockets. Times depend on
//! the disk and the machine; the ratios are what should hold anywhere.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use rusqlite::{Connection, TransactionBehavior, params};
use scomp::server::Server;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const COMMITS: u64 = 2_000;
const WATCHERS: usize = 1_000;
const SPACE: &str = "bench";

/// A folder that goes with the bench.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("scomp-bench-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn serve(folder: &Path, durability: &str) -> (Server, String) {
    let config = json!({"store": "state", "durability": durability, "authentication": "trusted"});
    let declaration = json!({"package": "memory", "rust": "memory", "config": config});
    std::fs::write(folder.join("memory.json"), declaration.to_string()).unwrap();
    let loaded = scomp::package::loader::load(
        folder,
        &scomp::package::loader::environment(),
        scomp::bindings::BUILT_IN,
    )
    .await
    .unwrap();
    let server = Server::builder().loaded(loaded).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/memory", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    (server, url)
}

struct Peer {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    local_seq: u64,
}

impl Peer {
    async fn connect(url: &str) -> Self {
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let mut peer = Self { socket, local_seq: 0 };
        peer.send(json!({"type": "hello", "protocol": "memory", "flags": {}})).await;
        peer.next().await;
        peer
    }

    async fn open(&mut self, session: &str) {
        self.ask(json!({"type": "session.open", "session": {"sessionId": session}})).await;
    }

    async fn send(&mut self, mut message: Value) {
        message["requestId"] = json!("r");
        message["space"] = json!(SPACE);
        self.socket.feed(Message::text(message.to_string())).await.unwrap();
        self.socket.flush().await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.next().await.unwrap().unwrap() {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        let answer = self.next().await;
        assert!(answer.get("ok").is_some(), "{answer}");
        answer["ok"].clone()
    }

    fn commit(&mut self, session: &str, operations: Value) -> Value {
        self.local_seq += 1;
        let commit = json!({"localSeq": self.local_seq, "reads": {"confirmed": [], "pending": []}, "operations": operations});
        json!({"type": "transact", "sessionId": session, "commit": commit})
    }

    async fn watch(&mut self, session: &str, ids: impl Iterator<Item = String>) {
        let roots: Vec<Value> =
            ids.map(|id| json!({"id": id, "selector": {"path": [], "schema": false}})).collect();
        let watches = json!([{"id": "w", "kind": "graph", "query": {"roots": roots}}]);
        self.ask(json!({"type": "session.watch.set", "sessionId": session, "watches": watches})).await;
    }
}

fn set(id: &str, value: Value) -> Value {
    json!([{"op": "set", "id": id, "value": {"value": value}}])
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The same rows that a commit of ours writes, by SQLite alone.
fn raw_commits(folder: &Path, synchronous: &str) -> f64 {
    let mut connection = Connection::open(folder.join("raw.sqlite")).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE commits (seq INTEGER PRIMARY KEY, session TEXT, local INTEGER, original TEXT, UNIQUE (session, local));
             CREATE TABLE revision (id TEXT, seq INTEGER, op TEXT, data TEXT, PRIMARY KEY (id, seq)) WITHOUT ROWID;
             CREATE TABLE head (id TEXT PRIMARY KEY, seq INTEGER) WITHOUT ROWID;",
        )
        .unwrap();
    let start = Instant::now();
    for seq in 0..COMMITS {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let (id, text) = (format!("of:{}", seq % 100), set("of:x", json!(seq)).to_string());
        let mut commit = transaction.prepare_cached("INSERT INTO commits VALUES (?, 's', ?, ?)").unwrap();
        commit.execute(params![seq, seq, text]).unwrap();
        let mut revision =
            transaction.prepare_cached("INSERT INTO revision VALUES (?, ?, 'set', ?)").unwrap();
        revision.execute(params![id, seq, text]).unwrap();
        let mut head = transaction.prepare_cached("INSERT OR REPLACE INTO head VALUES (?, ?)").unwrap();
        head.execute(params![id, seq]).unwrap();
        drop((commit, revision, head));
        transaction.commit().unwrap();
    }
    per_second(COMMITS, start.elapsed())
}

async fn our_commits(url: &str) -> f64 {
    let mut peer = Peer::connect(url).await;
    peer.open("writer").await;
    let start = Instant::now();
    for number in 0..COMMITS {
        let message = peer.commit("writer", set(&format!("of:{}", number % 100), json!(number)));
        peer.send(message).await;
    }
    for _ in 0..COMMITS {
        peer.next().await;
    }
    per_second(COMMITS, start.elapsed())
}

async fn commits(durability: &str) {
    let folder = Folder::new();
    let raw = raw_commits(&folder.0, durability);
    let (server, url) = serve(&folder.0, durability).await;
    let ours = our_commits(&url).await;
    println!(
        "commits, {durability:<6}  SQLite {raw:>8.0}/s   memory {ours:>8.0}/s   ratio {:.2}",
        raw / ours
    );
    drop(server);
}

async fn median_commit(writer: &mut Peer, id: &str) -> Duration {
    let mut took = Vec::new();
    for number in 0..50 {
        let message = writer.commit("writer", set(id, json!(number)));
        let start = Instant::now();
        writer.ask(message).await;
        took.push(start.elapsed());
    }
    took.sort();
    took[took.len() / 2]
}

async fn fan_out() {
    let folder = Folder::new();
    let (_server, url) = serve(&folder.0, "normal").await;
    let mut writer = Peer::connect(&url).await;
    writer.open("writer").await;
    let alone = median_commit(&mut writer, "of:untouched").await;
    let mut watchers = Vec::new();
    for number in 0..WATCHERS {
        let mut watcher = Peer::connect(&url).await;
        watcher.open(&format!("s{number}")).await;
        watcher.watch(&format!("s{number}"), std::iter::once("of:shared".to_owned())).await;
        watchers.push(watcher);
    }
    let untouched = median_commit(&mut writer, "of:untouched").await;
    let start = Instant::now();
    let message = writer.commit("writer", set("of:shared", json!("news")));
    writer.ask(message).await;
    for watcher in &mut watchers {
        assert_eq!(watcher.next().await["effect"]["upserts"][0]["doc"]["value"], json!("news"));
    }
    let all = start.elapsed();
    let ratio = untouched.as_secs_f64() / alone.as_secs_f64();
    println!(
        "a commit that touches none of {WATCHERS} watching sessions: {ratio:.2} times one with no session"
    );
    println!(
        "a commit sent to all of {WATCHERS} watching sessions: {:.1} ms, 5 of them collecting",
        all.as_secs_f64() * 1e3
    );
}

async fn query_time(peer: &mut Peer, root: &str) -> (f64, usize) {
    let roots = json!([{"id": root, "selector": {"path": [], "schema": true}}]);
    let start = Instant::now();
    let found =
        peer.ask(json!({"type": "graph.query", "sessionId": "writer", "query": {"roots": roots}})).await;
    let count = found["entities"].as_array().unwrap().len();
    (start.elapsed().as_secs_f64() * 1e6 / count as f64, count)
}

/// Writes a chain of linked documents, a thousand in a commit.
async fn write_chain(peer: &mut Peer, name: &str, thousands: usize) {
    let linked = |number: usize| {
        let next = json!({"/": {"link@1": {"id": format!("{name}:{}", number + 1), "path": []}}});
        let value = json!({"name": number, "next": next});
        json!({"op": "set", "id": format!("{name}:{number}"), "value": {"value": value}})
    };
    for chunk in 0..thousands {
        let operations: Vec<Value> = (chunk * 1000..(chunk + 1) * 1000).map(linked).collect();
        let message = peer.commit("writer", json!(operations));
        peer.ask(message).await;
    }
}

async fn graph() {
    let folder = Folder::new();
    let (_server, url) = serve(&folder.0, "normal").await;
    let mut peer = Peer::connect(&url).await;
    peer.open("writer").await;
    // The long chain comes last and takes the short one out of the cache, so both are read from the file.
    write_chain(&mut peer, "short", 1).await;
    write_chain(&mut peer, "long", 10).await;
    let (small, few) = query_time(&mut peer, "short:0").await;
    let (large, many) = query_time(&mut peer, "long:0").await;
    println!(
        "graph query: {few} documents {small:.1} µs each, {many} documents {large:.1} µs each, ratio {:.2}",
        large / small
    );
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

async fn idle_watches() {
    let folder = Folder::new();
    let (_server, url) = serve(&folder.0, "normal").await;
    let mut per_entity = Vec::new();
    for (round, entities) in [10, 100].into_iter().enumerate() {
        let mut peer = Peer::connect(&url).await;
        let before = resident_bytes();
        for number in 0..WATCHERS {
            let session = format!("r{round}s{number}");
            peer.open(&session).await;
            peer.watch(&session, (0..entities).map(|entity| format!("of:{number}:{entity}"))).await;
        }
        let used = resident_bytes().saturating_sub(before);
        per_entity.push(used as f64 / (WATCHERS * entities) as f64);
        println!(
            "idle watches: {WATCHERS} sessions of {entities} documents, {:.0} bytes for each document",
            per_entity[round]
        );
    }
}

#[tokio::main]
async fn main() {
    commits("full").await;
    commits("normal").await;
    fan_out().await;
    graph().await;
    idle_watches().await;
}
