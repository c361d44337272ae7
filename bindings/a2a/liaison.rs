//! The link to a gateway elsewhere, shared by the lines of all sessions.
//!
//! An answer is for the line that asked, whatever agent it names; anything else is for the agent that it names, or for
//! the lines that listen. After a reconnect the gateway knows nothing of us, so agents and subscriptions are sent to it
//! again.

mod opening;
mod outstanding;

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::codes::{ErrorCode, Refusal};
use super::correspondence::correlation;
use super::driver::now_ms;
use super::outlet::Outlet;
use super::wire::{self, Type};
use crate::peering::{Conversation, Disconnect, Outbox};
use crate::transport::close_code;
use opening::{FenceKind, Opening};
use outstanding::{Match, Outstanding};

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
    /// `fenced`: the line gets a `pong` when the gateway has dealt with the frame.
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

/// How far the connection is.
#[derive(Debug)]
enum Phase {
    Closed,
    Opening(Opening),
    Ready { fence: FenceKind, client_id: Option<String> },
}

/// Our side of a link.
#[derive(Debug)]
pub(crate) struct Liaison {
    name: String,
    token: Option<String>,
    phase: Phase,
    lines: HashMap<LineNumber, Extension>,
    outstanding: Outstanding,
}

impl Liaison {
    /// A link to the gateway of that name; `token` is shown to it after the handshake.
    pub(crate) fn new(name: String, token: Option<String>) -> Self {
        let (lines, outstanding) = (HashMap::new(), Outstanding::default());
        Self { name, token, phase: Phase::Closed, lines, outstanding }
    }

    fn send(
        &mut self,
        number: LineNumber,
        mut fields: Map<String, Value>,
        is_notified: bool,
        out: &mut Outbox,
    ) {
        let kind = fields.get("type").and_then(Value::as_str).and_then(Type::of);
        let Some(line) = self.lines.get_mut(&number) else { return };
        if let Phase::Ready { client_id: Some(id), .. } = &self.phase
            && names_sender(kind)
        {
            // Otherwise a gateway would take the sender for the only agent of the link, which is another script's.
            fields.entry("from").or_insert_with(|| json!(id));
        }
        let frame = Value::Object(fields);
        if !self.outstanding.has_room() {
            let refusal = Refusal::new(ErrorCode::AgentBusy, "the gateway owes too many answers");
            self.deliver(number, wire::error(&refusal, correlation(&frame), now_ms()));
            if is_notified {
                self.deliver(number, pong());
            }
            return;
        }
        line.remember(kind, &frame);
        self.transmit(Some(number), &frame, is_notified, out);
    }

    /// Sends a frame, and the fence behind it.
    fn transmit(&mut self, line: Option<LineNumber>, frame: &Value, is_notified: bool, out: &mut Outbox) {
        let fence = match &self.phase {
            Phase::Ready { fence, .. } => *fence,
            // A link takes no orders before it is ready.
            Phase::Closed | Phase::Opening(_) => return,
        };
        let fence_id = self.outstanding.note(line, frame, is_notified);
        out.send(frame.to_string());
        out.send(fence.frame(&fence_id).to_string());
    }

    fn deliver(&mut self, number: LineNumber, frame: Value) {
        if self.lines.get(&number).is_some_and(|line| !line.outlet.send(frame)) {
            // Gone, or too slow for what it asked for.
            self.lines.remove(&number);
        }
    }

    fn hang_up(&mut self, number: LineNumber, out: &mut Outbox) {
        let Some(line) = self.lines.remove(&number) else { return };
        for agent in line.agents {
            let offline = json!({"type": "status", "from": agent, "content": {"status": "offline"}});
            self.transmit(None, &offline, false, out);
        }
        self.outstanding.forget(number);
    }

    /// The lines that something is for which answers nothing of ours.
    fn audience(&self, frame: &Value) -> Vec<LineNumber> {
        let kind = frame["type"].as_str().and_then(Type::of);
        if let Some(agent) = frame["agent"].as_str()
            && !matches!(kind, Some(Type::Status | Type::Event | Type::Decision))
        {
            return self.numbers(|line| line.agents.contains(agent));
        }
        match kind {
            Some(Type::Status | Type::Event) => self.numbers(|line| line.listens),
            Some(Type::Decision | Type::Proposal | Type::Broadcast) => {
                self.numbers(|line| !line.agents.is_empty())
            }
            // Some gateways leave out whom a message is for. Only where that is clear, it is delivered.
            Some(Type::Message | Type::Request) => {
                let agents = self.numbers(|line| !line.agents.is_empty());
                if agents.len() == 1 { agents } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    fn numbers(&self, wanted: impl Fn(&Extension) -> bool) -> Vec<LineNumber> {
        self.lines.iter().filter(|(_, line)| wanted(line)).map(|(number, _)| *number).collect()
    }

    /// The gateway has completed the handshake: agents and subscriptions are sent to it again.
    fn on_ready(&mut self, fence: FenceKind, client_id: Option<String>, out: &mut Outbox) {
        self.phase = Phase::Ready { fence, client_id };
        self.lines.retain(|_, line| !line.outlet.is_closed());
        let standing = self.lines.values().flat_map(|line| line.standing.values().cloned());
        let frames: Vec<Value> = standing.map(Value::Object).collect();
        for frame in frames {
            self.transmit(None, &frame, false, out);
        }
    }

    fn on_frame(&mut self, mut frame: Value) {
        let lines = &self.lines;
        let is_ours = |agent: &str| lines.values().any(|line| line.agents.contains(agent));
        let audience = match self.outstanding.sort(&mut frame, is_ours) {
            Match::Fences(notified) => {
                for number in notified {
                    self.deliver(number, pong());
                }
                return;
            }
            Match::Ignored => return,
            Match::News => self.audience(&frame),
            // A decision is for the members, too.
            Match::Line(asker) if frame["type"] == Type::Decision.name() => {
                let members = self.audience(&frame).into_iter().chain([asker]);
                members.collect::<BTreeSet<_>>().into_iter().collect()
            }
            Match::Line(asker) => vec![asker],
        };
        for number in audience {
            self.deliver(number, frame.clone());
        }
    }
}

impl Extension {
    fn new(outlet: Outlet) -> Self {
        Self { outlet, standing: HashMap::new(), agents: BTreeSet::new(), listens: false }
    }

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

/// Whether receivers of a frame of that type see who sent it.
fn names_sender(kind: Option<Type>) -> bool {
    matches!(kind, Some(Type::Message | Type::Request | Type::Broadcast | Type::Proposal))
}

/// What notifies a line that the gateway has dealt with what it sent.
fn pong() -> Value {
    json!({"type": Type::Pong.name()})
}

/// Whether the gateway refuses our token. The reference gateway gives errors a name and no code.
fn is_denied(frame: &Value) -> bool {
    let denied = [ErrorCode::AuthFailed, ErrorCode::TokenExpired].map(ErrorCode::parts);
    let (code, name) = (&frame["content"]["code"], &frame["content"]["error"]);
    frame["type"] == Type::Error.name()
        && denied.iter().any(|(number, denied)| *code == *number || *name == *denied)
}

impl Conversation for Liaison {
    type Command = Order;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        self.outstanding = Outstanding::default();
        for frame in opening::greeting(self.token.as_deref()) {
            out.send(frame.to_string());
        }
        self.phase = Phase::Opening(Opening::default());
    }

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            tracing::warn!(gateway = self.name, "the gateway sent a frame that is not JSON");
            return;
        };
        if is_denied(&frame) {
            out.give_up("the gateway does not take the token");
            return;
        }
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Opening(opening) => {
                if let Some((fence, client_id)) = opening.on_frame(&frame) {
                    self.on_ready(fence, client_id, out);
                }
            }
            Phase::Ready { .. } => self.on_frame(frame),
        }
    }

    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.on_text(text, now, out),
            Err(_) => tracing::warn!(gateway = self.name, "the gateway sent a frame that is not JSON"),
        }
    }

    fn on_command(&mut self, order: Order, _: Instant, out: &mut Outbox) {
        match order {
            Order::Open { number, outlet } => {
                self.lines.insert(number, Extension::new(outlet));
            }
            Order::Send { number, fields, fenced } => self.send(number, fields, fenced, out),
            Order::HangUp { number } => self.hang_up(number, out),
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    fn on_closing(&mut self, parting: &Disconnect, out: &mut Outbox) {
        let reason = match parting {
            Disconnect::Close { code: close_code::GOING_AWAY, .. } => "shutdown",
            Disconnect::Close { code: close_code::POLICY, .. } => "timeout",
            _ => "error",
        };
        out.send(wire::disconnect(reason).to_string());
    }

    fn on_end(&mut self, _: Instant) {
        self.phase = Phase::Closed;
        let refusal = Refusal::new(ErrorCode::ConnectionReset, "the connection to the gateway was lost");
        let (questions, notified) = self.outstanding.take_all();
        for (number, id) in questions {
            self.deliver(number, wire::error(&refusal, Some(&id), now_ms()));
        }
        for number in notified {
            self.deliver(number, wire::error(&refusal, None, now_ms()));
            self.deliver(number, pong());
        }
    }
}

#[cfg(test)]
mod tests;
