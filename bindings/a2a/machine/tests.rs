//! The gateway as its clients see it: frames in, frames out.

mod access;
mod delivery;
mod model;
mod proposals;

use serde_json::{Value, json};

use super::super::rate_limit::Rate;
use super::super::registry::{AGENTS_DEFAULT, WORKSPACES_DEFAULT};
use super::super::sessions::{DiskSessionStore, Durability};
use super::super::testing::Folder;
use super::super::triad::TriadRules;
use super::*;

/// A gateway with its disk and clock.
struct TestGateway {
    machine: Gateway,
    sessions: DiskSessionStore,
    _folder: Folder,
    now_ms: u64,
    audit: Vec<AuditRecord>,
}

fn settings() -> Settings {
    Settings {
        instance: "t".to_owned(),
        token: None,
        auth_ms_max: 500,
        clients_max: 100,
        rate: Rate { per_second: 1000.0, burst: 1000.0 },
        triad: TriadRules {
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

/// A frame to a connection, or the code that closes it.
#[derive(Debug, PartialEq)]
enum Output {
    Frame(u64, Value),
    Close(u64, u16),
}

impl TestGateway {
    fn new(settings: Settings) -> Self {
        let folder = Folder::new();
        Self {
            machine: Gateway::new(settings),
            sessions: DiskSessionStore::new(folder.path(), Durability::OnCommit),
            _folder: folder,
            now_ms: 1_800_000_000_000,
            audit: Vec::new(),
        }
    }

    fn run_step(&mut self, input: impl FnOnce(&mut Gateway, &mut Step<'_>)) -> Vec<Output> {
        let mut effects = Vec::new();
        let mut step = Step { now_ms: self.now_ms, sessions: &mut self.sessions, effects: &mut effects };
        input(&mut self.machine, &mut step);
        let mut outputs = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { to, frame } => outputs.push(Output::Frame(to.0, frame)),
                Effect::Close { to, code, .. } => outputs.push(Output::Close(to.0, code)),
                Effect::Audit(record) => self.audit.push(record),
            }
        }
        outputs
    }

    fn connect(&mut self, id: u64, client: ClientInfo) -> Vec<Output> {
        let client = ClientInfo { client_id: format!("client-{id}"), ..client };
        self.run_step(|gateway, step| gateway.on_open(ConnectionId(id), client, step))
    }

    fn open(&mut self, id: u64) {
        assert_eq!(self.connect(id, ClientInfo::default()), []);
    }

    /// Opens a connection and registers it as an agent.
    fn add_agent(&mut self, id: u64, name: &str) {
        self.open(id);
        let outputs =
            self.send(id, json!({"type": "handshake", "from": name, "content": {"action": "advertise"}}));
        assert_eq!(summary(&outputs).first().map(String::as_str), Some(format!("{id} handshake").as_str()));
    }

    fn send(&mut self, id: u64, frame: Value) -> Vec<Output> {
        self.run_step(|gateway, step| gateway.on_text(ConnectionId(id), &frame.to_string(), step))
    }

    fn end(&mut self, id: u64) -> Vec<Output> {
        self.run_step(|gateway, step| gateway.on_end(ConnectionId(id), step))
    }

    fn advance(&mut self, ms: u64) -> Vec<Output> {
        self.now_ms += ms;
        self.run_step(Gateway::on_wake)
    }
}

/// Summarises outputs as `2 message`, `1 error 3002`, `1 closed 4001`.
fn summary(outputs: &[Output]) -> Vec<String> {
    let line = |outputs: &Output| match outputs {
        Output::Close(id, code) => format!("{id} closed {code}"),
        Output::Frame(id, frame) => match frame["content"]["code"].as_u64() {
            Some(code) => format!("{id} error {code}"),
            None => format!("{id} {}", frame["type"].as_str().unwrap_or_default()),
        },
    };
    outputs.iter().map(line).collect()
}

/// Returns the only output, which must be a frame.
fn only_frame(outputs: Vec<Output>) -> Value {
    match <[Output; 1]>::try_from(outputs) {
        Ok([Output::Frame(_, frame)]) => frame,
        other => panic!("{other:?}"),
    }
}

fn message_to(agent: &str, text: &str) -> Value {
    json!({"type": "message", "agent": agent, "content": {"role": "user", "content": text}})
}

fn request_to(agent: &str, correlation_id: &str) -> Value {
    let mut frame = message_to(agent, "?");
    frame["metadata"] = json!({"correlationId": correlation_id});
    frame
}

fn reply_message(correlation_id: &str, text: &str) -> Value {
    json!({
        "type": "message", "content": {"role": "assistant", "content": text},
        "metadata": {"correlationId": correlation_id}
    })
}
