//! A server that is killed while it writes: every acknowledged message survives.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::wire::{Arrival, Wire};
use crate::{exchange, gateway_folder, send};

/// How often the server is killed; `SCOMP_CRASHES` overrides it.
const CRASHES: usize = 5;

/// Messages per run that are in flight when the server is killed.
const IN_FLIGHT: usize = 64;

struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
        command.arg("--bindings").arg(folder).args(["--listen", "127.0.0.1:0"]).env("SCOMP_LOG", "off");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("127.0.0.1:").nth(1).unwrap_or_else(|| panic!("{line}"));
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        Self { child, url: format!("ws://127.0.0.1:{port}/a2a") }
    }
}

/// Kills the process, without a chance to clean up.
impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn message(id: &str) -> Value {
    json!({
        "type": "message", "agent": "examiner", "id": id, "sessionId": "s",
        "content": {"role": "user", "content": "x".repeat(500)}, "correlationId": id
    })
}

async fn entries(wire: &mut Wire) -> Vec<String> {
    let get = json!({"service": "session", "action": "get", "agent": "examiner", "sessionId": "s"});
    let reply = exchange(wire, json!({"type": "request", "content": get})).await;
    let entries = reply["content"]["result"]["entries"].as_array().unwrap_or_else(|| panic!("{reply}"));
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

/// Kills the server after `replies` replies; returns the ids of the messages that were
/// acknowledged.
async fn send_until_killed(server: Process, run: usize, replies: usize) -> Vec<String> {
    let mut wire = Wire::offering(&server.url, Some("a2a-v1")).await;
    for number in 0..replies + IN_FLIGHT {
        send(&mut wire, message(&format!("m-{run}-{number}"))).await;
    }
    let mut acknowledged = Vec::new();
    let mut server = Some(server);
    loop {
        match wire.next().await {
            Arrival::Text(text) => {
                let reply: Value = serde_json::from_str(&text).unwrap();
                // The agent is offline, but the message was stored before this error was sent.
                assert_eq!(reply["content"]["code"], 3002, "{reply}");
                acknowledged.push(reply["correlationId"].as_str().unwrap().to_owned());
            }
            Arrival::Closed(_) | Arrival::Gone => return acknowledged,
            Arrival::Silence => panic!("no reply and no close"),
        }
        if acknowledged.len() == replies
            && let Some(server) = server.take()
        {
            drop(server);
        }
    }
}

#[tokio::test]
async fn acknowledged_messages_survive_every_crash() {
    let crashes = std::env::var("SCOMP_CRASHES").map_or(CRASHES, |count| count.parse().unwrap());
    let folder = gateway_folder(json!({"messagesPerSecond": 1_000_000, "messagesBurst": 1_000_000}));
    let mut acknowledged = Vec::new();
    for run in 0..crashes {
        let server = Process::start(folder.path());
        acknowledged.extend(send_until_killed(server, run, 20 + run * 7 % 50).await);
    }
    let server = Process::start(folder.path());
    let mut wire = Wire::offering(&server.url, Some("a2a-v1")).await;
    let found = entries(&mut wire).await;
    drop(server);
    let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains(id)).collect();
    assert!(lost.is_empty(), "lost {lost:?} of {}", acknowledged.len());
    let mut unique = found.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), found.len(), "no duplicates");
}
