//! The gateway as its clients see it: what one sends, and what everybody gets.

mod access;
mod delivery;
mod model;
mod triad;

use serde_json::{Value, json};

use super::super::registry::{AGENTS_DEFAULT, WORKSPACES_DEFAULT};
use super::super::sessions::{DiskSessions, Durability};
use super::super::testing::Folder;
use super::*;

/// A gateway, its disk, and the time.
struct World {
    gateway: Gateway,
    sessions: DiskSessions,
    _folder: Folder,
    now_ms: u64,
    audit: Vec<Record>,
}

fn settings() -> Settings {
    Settings {
        instance: "t".to_owned(),
        token: None,
        auth_ms_max: 500,
        clients_max: 100,
        rate: Rate { per_second: 1000.0, burst: 1000.0 },
        triad: Rules {
            members: ["alpha", "beta", "charlie"].map(str::to_owned).to_vec(),
            deliberation_ms: 600,
            decides_early: false,
        },
        agents: AGENTS_DEFAULT.map(|(name, role)| (name.to_owned(), role.to_owned())).to_vec(),
        workspaces: WORKSPACES_DEFAULT.to_owned(),
        shared: false,
        owners: HashMap::new(),
        services: vec![json!({"serviceId": "s1", "endpoint": "wss://s1.example", "capabilities": []})],
    }
}

/// What a connection got: a frame, or the code that it was closed with.
#[derive(Debug, PartialEq)]
enum Got {
    Frame(u64, Value),
    Close(u64, u16),
}

impl World {
    fn new(settings: Settings) -> Self {
        let folder = Folder::new();
        Self {
            gateway: Gateway::new(settings),
            sessions: DiskSessions::new(folder.path(), Durability::OnCommit),
            _folder: folder,
            now_ms: 1_800_000_000_000,
            audit: Vec::new(),
        }
    }

    fn turn(&mut self, input: impl FnOnce(&mut Gateway, &mut Turn<'_>)) -> Vec<Got> {
        let mut effects = Vec::new();
        let mut turn = Turn { now_ms: self.now_ms, sessions: &mut self.sessions, effects: &mut effects };
        input(&mut self.gateway, &mut turn);
        let mut got = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { to, frame } => got.push(Got::Frame(to.0, frame)),
                Effect::Close { to, code, .. } => got.push(Got::Close(to.0, code)),
                Effect::Audit(record) => self.audit.push(record),
            }
        }
        got
    }

    fn arrive(&mut self, id: u64, arrival: Arrival) -> Vec<Got> {
        let arrival = Arrival { client_id: format!("client-{id}"), ..arrival };
        self.turn(|gateway, turn| gateway.on_open(ConnectionId(id), arrival, turn))
    }

    fn open(&mut self, id: u64) {
        assert_eq!(self.arrive(id, Arrival::default()), []);
    }

    /// A connection that is an agent.
    fn agent(&mut self, id: u64, name: &str) {
        self.open(id);
        let got =
            self.send(id, json!({"type": "handshake", "from": name, "content": {"action": "advertise"}}));
        assert_eq!(summary(&got).first().map(String::as_str), Some(format!("{id} handshake").as_str()));
    }

    fn send(&mut self, id: u64, frame: Value) -> Vec<Got> {
        self.turn(|gateway, turn| gateway.on_text(ConnectionId(id), &frame.to_string(), turn))
    }

    fn end(&mut self, id: u64) -> Vec<Got> {
        self.turn(|gateway, turn| gateway.on_end(ConnectionId(id), turn))
    }

    fn later(&mut self, ms: u64) -> Vec<Got> {
        self.now_ms += ms;
        self.turn(Gateway::on_wake)
    }
}

/// Who got what, in a word: `2 message`, `1 error 3002`, `1 closed 4001`.
fn summary(got: &[Got]) -> Vec<String> {
    let line = |got: &Got| match got {
        Got::Close(id, code) => format!("{id} closed {code}"),
        Got::Frame(id, frame) => match frame["content"]["code"].as_u64() {
            Some(code) => format!("{id} error {code}"),
            None => format!("{id} {}", frame["type"].as_str().unwrap_or_default()),
        },
    };
    got.iter().map(line).collect()
}

/// The frame that a connection got; there must be one alone.
fn only(got: Vec<Got>) -> Value {
    match <[Got; 1]>::try_from(got) {
        Ok([Got::Frame(_, frame)]) => frame,
        other => panic!("{other:?}"),
    }
}

fn say(agent: &str, text: &str) -> Value {
    json!({"type": "message", "agent": agent, "content": {"role": "user", "content": text}})
}

fn ask(agent: &str, correlation_id: &str) -> Value {
    let mut frame = say(agent, "?");
    frame["metadata"] = json!({"correlationId": correlation_id});
    frame
}

fn answer(correlation_id: &str, text: &str) -> Value {
    json!({
        "type": "message", "content": {"role": "assistant", "content": text},
        "metadata": {"correlationId": correlation_id}
    })
}
