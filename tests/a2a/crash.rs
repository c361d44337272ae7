//! A server that is killed while it writes: everything that it acknowledged is there afterwards.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::wire::{Arrival, Wire};
use crate::{ask, gateway, send};

/// How often the server is killed; `SCOMP_CRASHES` asks for another number.
const CRASHES: usize = 5;

/// Messages of one life that are on their way at once.
const IN_FLIGHT: usize = 64;

/// A server process.
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

/// Killed, with no chance to clean up.
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
    let answer = ask(wire, json!({"type": "request", "content": get})).await;
    let entries = answer["content"]["result"]["entries"].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

/// Sends until the server was killed after so many answers; gives the ids that were answered.
async fn send_until_killed(server: Process, life: usize, answers: usize) -> Vec<String> {
    let mut wire = Wire::offering(&server.url, Some("a2a-v1")).await;
    for number in 0..answers + IN_FLIGHT {
        send(&mut wire, message(&format!("m-{life}-{number}"))).await;
    }
    let mut acknowledged = Vec::new();
    let mut server = Some(server);
    loop {
        match wire.next().await {
            Arrival::Text(text) => {
                let answer: Value = serde_json::from_str(&text).unwrap();
                // Nobody is there to read it; but it was kept before that was said.
                assert_eq!(answer["content"]["code"], 3002, "{answer}");
                acknowledged.push(answer["correlationId"].as_str().unwrap().to_owned());
            }
            Arrival::Closed(_) | Arrival::Gone => return acknowledged,
            Arrival::Silence => panic!("the server hangs"),
        }
        if acknowledged.len() == answers
            && let Some(server) = server.take()
        {
            drop(server);
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_outlives_every_crash() {
    let crashes = std::env::var("SCOMP_CRASHES").map_or(CRASHES, |count| count.parse().unwrap());
    let folder = gateway(json!({"messagesPerSecond": 1_000_000, "messagesBurst": 1_000_000}));
    let mut acknowledged = Vec::new();
    for life in 0..crashes {
        let server = Process::start(folder.path());
        acknowledged.extend(send_until_killed(server, life, 20 + life * 7 % 50).await);
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
    assert_eq!(unique.len(), found.len(), "and nothing is there twice");
}
