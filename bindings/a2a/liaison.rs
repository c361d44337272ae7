//! The link to a gateway elsewhere, shared by the lines of all sessions.
//!
//! What comes in is for the agent that it is addressed to, else for whoever asked, else for those who listen. After a
//! reconnect the gateway knows nothing of us, so agents and subscriptions are told to it again.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::codes::{ErrorCode, Refusal};
use super::correspondence::{correlation, ping};
use super::driver::now_ms;
use super::outlet::Outlet;
use super::wire::{self, PROTOCOL_VERSION, Type};
use crate::peering::{Conversation, Out};

/// Questions of all lines that wait for an answer. A gateway that owes this many does not answer.
const ASKED_MAX: usize = 8192;

/// A line, within its link. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LineNumber(pub(crate) u64);

/// What a line wants.
#[derive(Debug)]
pub(crate) enum Order {
    Open {
        number: LineNumber,
        outlet: Outlet,
    },
    /// `fenced`: with a ping behind it.
    Send {
        number: LineNumber,
        fields: Map<String, Value>,
        fenced: bool,
    },
    HangUp {
        number: LineNumber,
    },
}

#[derive(Debug)]
struct Extension {
    outlet: Outlet,
    /// The handshakes and subscriptions that made it what it is, by what they are about.
    standing: HashMap<String, Map<String, Value>>,
    agents: BTreeSet<String>,
    listens: bool,
}

/// Our side of a link.
#[derive(Debug)]
pub(crate) struct Liaison {
    name: String,
    token: Option<String>,
    lines: HashMap<LineNumber, Extension>,
    asked: HashMap<String, LineNumber>,
    pinged: VecDeque<LineNumber>,
    shaken: VecDeque<Option<LineNumber>>,
}

impl Liaison {
    /// A link to the gateway of that name; `token` is shown to it after the handshake.
    pub(crate) fn new(name: String, token: Option<String>) -> Self {
        Self {
            name,
            token,
            lines: HashMap::new(),
            asked: HashMap::new(),
            pinged: VecDeque::new(),
            shaken: VecDeque::new(),
        }
    }

    fn send(&mut self, number: LineNumber, fields: Map<String, Value>, out: &mut Out) {
        let frame = Value::Object(fields);
        let kind = frame["type"].as_str().and_then(Type::of);
        match kind {
            Some(Type::Ping) => self.pinged.push_back(number),
            Some(Type::Handshake) => self.shaken.push_back(Some(number)),
            _ => {}
        }
        // An answer bears a correlation too, but it names what it answers.
        let is_question = asks(kind) && frame["metadata"]["parentId"].is_null();
        if let Some(id) = correlation(&frame).filter(|_| is_question) {
            if self.asked.len() >= ASKED_MAX {
                let refusal = Refusal::new(ErrorCode::AgentBusy, "the gateway owes too many answers");
                self.deliver(number, wire::error(&refusal, Some(id), now_ms()));
                return;
            }
            self.asked.insert(id.to_owned(), number);
        }
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.remember(kind, &frame);
        out.send(frame.to_string());
    }

    fn deliver(&mut self, number: LineNumber, frame: Value) {
        if self.lines.get(&number).is_some_and(|line| !line.outlet.send(frame)) {
            // Gone, or too slow for what it asked for.
            self.lines.remove(&number);
        }
    }

    fn hang_up(&mut self, number: LineNumber, out: &mut Out) {
        let Some(line) = self.lines.remove(&number) else { return };
        for agent in line.agents {
            let offline = json!({"type": "status", "from": agent, "content": {"status": "offline"}});
            out.send(offline.to_string());
        }
        self.asked.retain(|_, asker| *asker != number);
    }

    /// Who a frame is for.
    fn addressees(&mut self, frame: &Value) -> Vec<LineNumber> {
        let kind = frame["type"].as_str().and_then(Type::of);
        match kind {
            Some(Type::Pong) => return self.pinged.pop_front().into_iter().collect(),
            Some(Type::Handshake) => return self.shaken.pop_front().flatten().into_iter().collect(),
            Some(Type::Status | Type::Event) if frame["content"]["queued"] != true => {
                return self.numbers(|line| line.listens);
            }
            _ => {}
        }
        let asker = correlation(frame).and_then(|id| self.asked.get(id)).copied();
        if kind == Some(Type::Decision) {
            let members = self.numbers(|line| !line.agents.is_empty());
            return members.into_iter().chain(asker).collect::<BTreeSet<_>>().into_iter().collect();
        }
        if let Some(agent) = frame["agent"].as_str() {
            let named = self.numbers(|line| line.agents.contains(agent));
            if !named.is_empty() {
                return named;
            }
        }
        match (asker, kind) {
            (Some(asker), _) => vec![asker],
            // Nobody asked: all agents of ours hear of it, or, if it is an error, whoever sent something last.
            (None, Some(Type::Error)) => self.pinged.front().copied().into_iter().collect(),
            (None, _) => self.numbers(|line| !line.agents.is_empty()),
        }
    }

    fn numbers(&self, wanted: impl Fn(&Extension) -> bool) -> Vec<LineNumber> {
        self.lines.iter().filter(|(_, line)| wanted(line)).map(|(number, _)| *number).collect()
    }
}

impl Extension {
    /// Notes what the gateway must be told again after a reconnect.
    fn remember(&mut self, kind: Option<Type>, frame: &Value) {
        let key = match (kind, frame["from"].as_str(), frame["content"]["channel"].as_str()) {
            (Some(Type::Handshake), Some(agent), _) => {
                self.agents.insert(agent.to_owned());
                format!("agent {agent}")
            }
            (Some(Type::Subscribe), _, Some(channel)) => {
                self.listens = true;
                format!("channel {channel}")
            }
            _ => return,
        };
        if let Value::Object(fields) = frame {
            self.standing.insert(key, fields.clone());
        }
    }
}

/// Whether a frame of that type is answered under its correlation.
fn asks(kind: Option<Type>) -> bool {
    use Type::{Auth, Broadcast, Discovery, Message, Proposal, Request, Subscribe, Workspace};
    matches!(kind, Some(Message | Request | Proposal | Broadcast | Discovery | Workspace | Subscribe | Auth))
}

impl Conversation for Liaison {
    type Command = Order;

    fn on_open(&mut self, _: Instant, out: &mut Out) {
        let capabilities = json!({"version": PROTOCOL_VERSION});
        let hello =
            json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}});
        out.send(hello.to_string());
        self.shaken.push_back(None);
        if let Some(token) = &self.token {
            out.send(json!({"type": "auth", "content": {"token": token}}).to_string());
        }
        self.lines.retain(|_, line| !line.outlet.is_closed());
        for line in self.lines.values() {
            for fields in line.standing.values() {
                let frame = Value::Object(fields.clone());
                if frame["type"] == Type::Handshake.name() {
                    self.shaken.push_back(None);
                }
                out.send(frame.to_string());
            }
        }
    }

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Out) {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            tracing::warn!(gateway = self.name, "a frame that is no JSON");
            return;
        };
        let code = frame["content"]["code"].as_u64().unwrap_or_default();
        let is_denied = |refused: ErrorCode| u64::from(refused.parts().0) == code;
        if frame["type"] == Type::Error.name()
            && (is_denied(ErrorCode::AuthFailed) || is_denied(ErrorCode::TokenExpired))
        {
            out.give_up("the gateway does not take the token");
            return;
        }
        let addressees = self.addressees(&frame);
        // A question under the same correlation, or word that it waits, is not the answer yet.
        let is_settling =
            |asker: &LineNumber| addressees.contains(asker) && frame["content"]["queued"] != true;
        if let Some(id) = correlation(&frame).filter(|id| self.asked.get(*id).is_some_and(is_settling)) {
            self.asked.remove(id);
        }
        for number in addressees {
            self.deliver(number, frame.clone());
        }
    }

    fn on_command(&mut self, order: Order, _: Instant, out: &mut Out) {
        match order {
            Order::Open { number, outlet } => {
                let line =
                    Extension { outlet, standing: HashMap::new(), agents: BTreeSet::new(), listens: false };
                self.lines.insert(number, line);
            }
            Order::Send { number, fields, fenced } => {
                self.send(number, fields, out);
                // At once, so that no error can come before somebody waits for the echo.
                if fenced {
                    self.send(number, ping(), out);
                }
            }
            Order::HangUp { number } => self.hang_up(number, out),
        }
    }

    fn on_end(&mut self, _: Instant) {
        let refusal = Refusal::new(ErrorCode::ConnectionReset, "the connection to the gateway was lost");
        for (id, number) in std::mem::take(&mut self.asked) {
            self.deliver(number, wire::error(&refusal, Some(&id), now_ms()));
        }
        for number in std::mem::take(&mut self.pinged) {
            self.deliver(number, wire::error(&refusal, None, now_ms()));
            self.deliver(number, json!({"type": "pong"}));
        }
        self.shaken.clear();
    }
}

#[cfg(test)]
mod tests;
