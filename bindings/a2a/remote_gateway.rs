//! Our side of a link to a remote gateway. Its clients are the connections of all sessions to that
//! gateway.
//!
//! A reply goes to the client that sent the request, whatever agent it names; any other frame to
//! the agent that it names, or to the subscribers. After a reconnect the gateway has forgotten us,
//! so agents and subscriptions are registered again.

mod handshake;
mod in_flight;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::codes::{ErrorCode, GatewayError};
use super::delivery::DeliverySender;
use super::driver::now_ms;
use super::pending_replies::correlation_id;
use super::wire::{self, FrameType};
use crate::peering::{Conversation, Disconnect, Outbox};
use crate::transport::close_code;
use handshake::{FenceKind, Handshake};
use in_flight::{FrameMatch, InFlightFrames};

/// A client of a link. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LinkClientId(pub(crate) u64);

#[derive(Debug)]
pub(crate) enum LinkCommand {
    Open {
        id: LinkClientId,
        deliveries: DeliverySender,
    },
    /// With `wants_pong`, the client gets a `pong` when the gateway has handled the frame.
    Send {
        id: LinkClientId,
        fields: Map<String, Value>,
        wants_pong: bool,
    },
    Close {
        id: LinkClientId,
    },
}

#[derive(Debug)]
struct LinkClient {
    deliveries: DeliverySender,
    /// The handshakes and subscriptions to send again after a reconnect, by agent or channel. In
    /// that order agents come first.
    registrations: BTreeMap<String, Map<String, Value>>,
    agents: BTreeSet<String>,
    is_subscribed: bool,
}

#[derive(Debug)]
enum Phase {
    Closed,
    Handshake(Handshake),
    Ready { fence: FenceKind, client_id: Option<String> },
}

#[derive(Debug)]
pub(crate) struct RemoteGateway {
    name: String,
    token: Option<String>,
    phase: Phase,
    /// In the order in which they were opened, in which they register again.
    clients: BTreeMap<LinkClientId, LinkClient>,
    in_flight: InFlightFrames,
}

impl RemoteGateway {
    /// `token` is presented after the handshake.
    pub(crate) fn new(name: String, token: Option<String>) -> Self {
        let (clients, in_flight) = (BTreeMap::new(), InFlightFrames::default());
        Self { name, token, phase: Phase::Closed, clients, in_flight }
    }

    fn send(&mut self, id: LinkClientId, mut fields: Map<String, Value>, wants_pong: bool, out: &mut Outbox) {
        let kind = fields.get("type").and_then(Value::as_str).and_then(FrameType::from_name);
        let Some(client) = self.clients.get_mut(&id) else { return };
        if let Phase::Ready { client_id: Some(client_id), .. } = &self.phase
            && shows_sender(kind)
        {
            // Without `from`, a gateway takes the link's only agent for the sender, which may be
            // another script's.
            fields.entry("from").or_insert_with(|| json!(client_id));
        }
        let frame = Value::Object(fields);
        if !self.in_flight.has_room() {
            let error =
                GatewayError::new(ErrorCode::AgentBusy, "too many replies of the gateway are pending");
            self.deliver(id, wire::error_frame(&error, correlation_id(&frame), now_ms()));
            if wants_pong {
                self.deliver(id, pong_frame());
            }
            return;
        }
        client.record_registration(kind, &frame);
        self.send_with_fence(Some(id), &frame, wants_pong, out);
    }

    /// Sends a frame, and the fence behind it.
    fn send_with_fence(
        &mut self,
        client: Option<LinkClientId>,
        frame: &Value,
        wants_pong: bool,
        out: &mut Outbox,
    ) {
        let fence = match &self.phase {
            Phase::Ready { fence, .. } => *fence,
            // A link accepts no commands before it is ready.
            Phase::Closed | Phase::Handshake(_) => return,
        };
        let fence_id = self.in_flight.add(client, frame, wants_pong);
        out.send(frame.to_string());
        out.send(fence.to_frame(&fence_id).to_string());
    }

    fn deliver(&mut self, id: LinkClientId, frame: Value) {
        if self.clients.get(&id).is_some_and(|client| !client.deliveries.send(frame)) {
            // The client is closed, or too slow.
            self.clients.remove(&id);
        }
    }

    fn close_client(&mut self, id: LinkClientId, out: &mut Outbox) {
        let Some(client) = self.clients.remove(&id) else { return };
        for agent in client.agents {
            let offline = json!({"type": "status", "from": agent, "content": {"status": "offline"}});
            self.send_with_fence(None, &offline, false, out);
        }
        self.in_flight.remove_client(id);
    }

    /// Returns the clients that receive a frame which is not a reply.
    fn receivers(&self, frame: &Value) -> Vec<LinkClientId> {
        let kind = frame["type"].as_str().and_then(FrameType::from_name);
        if let Some(agent) = frame["agent"].as_str()
            && !matches!(kind, Some(FrameType::Status | FrameType::Event | FrameType::Decision))
        {
            return self.clients_where(|client| client.agents.contains(agent));
        }
        match kind {
            Some(FrameType::Status | FrameType::Event) => self.clients_where(|client| client.is_subscribed),
            Some(FrameType::Decision | FrameType::Proposal | FrameType::Broadcast) => {
                self.clients_where(|client| !client.agents.is_empty())
            }
            // Some gateways leave out the receiver. The message is delivered only if there is a
            // single candidate.
            Some(FrameType::Message | FrameType::Request) => {
                let agents = self.clients_where(|client| !client.agents.is_empty());
                if agents.len() == 1 { agents } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    fn clients_where(&self, is_match: impl Fn(&LinkClient) -> bool) -> Vec<LinkClientId> {
        self.clients.iter().filter(|(_, client)| is_match(client)).map(|(id, _)| *id).collect()
    }

    /// The handshake is complete: registers agents and subscriptions again.
    fn on_ready(&mut self, fence: FenceKind, client_id: Option<String>, out: &mut Outbox) {
        self.phase = Phase::Ready { fence, client_id };
        self.clients.retain(|_, client| !client.deliveries.is_closed());
        let registrations = self.clients.values().flat_map(|client| client.registrations.values().cloned());
        let frames: Vec<Value> = registrations.map(Value::Object).collect();
        for frame in frames {
            self.send_with_fence(None, &frame, false, out);
        }
    }

    fn on_frame(&mut self, mut frame: Value) {
        let clients = &self.clients;
        let is_own_agent = |agent: &str| clients.values().any(|client| client.agents.contains(agent));
        let receivers = match self.in_flight.match_frame(&mut frame, is_own_agent) {
            FrameMatch::Fences(clients) => {
                for id in clients {
                    self.deliver(id, pong_frame());
                }
                return;
            }
            FrameMatch::Ignored => return,
            FrameMatch::Unsolicited => self.receivers(&frame),
            // A decision goes to the members, too.
            FrameMatch::Client(id) if frame["type"] == FrameType::Decision.name() => {
                let members = self.receivers(&frame).into_iter().chain([id]);
                members.collect::<BTreeSet<_>>().into_iter().collect()
            }
            FrameMatch::Client(id) => vec![id],
        };
        for id in receivers {
            self.deliver(id, frame.clone());
        }
    }
}

impl LinkClient {
    fn new(deliveries: DeliverySender) -> Self {
        Self { deliveries, registrations: BTreeMap::new(), agents: BTreeSet::new(), is_subscribed: false }
    }

    /// Records a handshake or subscription, to send it again after a reconnect.
    fn record_registration(&mut self, kind: Option<FrameType>, frame: &Value) {
        let key = match (kind, frame["from"].as_str(), frame["content"]["channel"].as_str()) {
            (Some(FrameType::Handshake), Some(agent), _) => {
                self.agents.insert(agent.to_owned());
                format!("agent {agent}")
            }
            (Some(FrameType::Subscribe), _, Some(channel)) => {
                self.is_subscribed = true;
                format!("channel {channel}")
            }
            _ => return,
        };
        if let Value::Object(fields) = frame {
            self.registrations.insert(key, fields.clone());
        }
    }
}

/// Returns whether receivers of a frame of that type see its sender.
fn shows_sender(kind: Option<FrameType>) -> bool {
    matches!(kind, Some(FrameType::Message | FrameType::Request | FrameType::Broadcast | FrameType::Proposal))
}

fn pong_frame() -> Value {
    json!({"type": FrameType::Pong.name()})
}

/// Returns whether the gateway rejects our token. Errors of the reference gateway have a name and
/// no code.
fn is_token_error(frame: &Value) -> bool {
    let token_errors = [ErrorCode::AuthFailed, ErrorCode::TokenExpired].map(ErrorCode::parts);
    let (code, name) = (&frame["content"]["code"], &frame["content"]["error"]);
    frame["type"] == FrameType::Error.name()
        && token_errors.iter().any(|(number, text)| *code == *number || *name == *text)
}

impl Conversation for RemoteGateway {
    type Command = LinkCommand;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        self.in_flight = InFlightFrames::default();
        for frame in handshake::first_frames(self.token.as_deref()) {
            out.send(frame.to_string());
        }
        self.phase = Phase::Handshake(Handshake::default());
    }

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            tracing::warn!(gateway = self.name, "received a frame that is not JSON");
            return;
        };
        if is_token_error(&frame) {
            out.give_up("the gateway rejects the token");
            return;
        }
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Handshake(handshake) => {
                if let Some((fence, client_id)) = handshake.on_frame(&frame) {
                    self.on_ready(fence, client_id, out);
                }
            }
            Phase::Ready { .. } => self.on_frame(frame),
        }
    }

    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.on_text(text, now, out),
            Err(_) => tracing::warn!(gateway = self.name, "received a frame that is not JSON"),
        }
    }

    fn on_command(&mut self, command: LinkCommand, _: Instant, out: &mut Outbox) {
        match command {
            LinkCommand::Open { id, deliveries } => {
                self.clients.insert(id, LinkClient::new(deliveries));
            }
            LinkCommand::Send { id, fields, wants_pong } => self.send(id, fields, wants_pong, out),
            LinkCommand::Close { id } => self.close_client(id, out),
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    fn on_closing(&mut self, disconnect: &Disconnect, out: &mut Outbox) {
        let reason = match disconnect {
            Disconnect::Close { code: close_code::GOING_AWAY, .. } => "shutdown",
            Disconnect::Close { code: close_code::POLICY, .. } => "timeout",
            _ => "error",
        };
        out.send(wire::disconnect_frame(reason).to_string());
    }

    fn on_end(&mut self, _: Instant) {
        self.phase = Phase::Closed;
        let error = GatewayError::new(ErrorCode::ConnectionReset, "the connection to the gateway was lost");
        let (requests, clients) = self.in_flight.take_all();
        for (client, correlation_id) in requests {
            self.deliver(client, wire::error_frame(&error, Some(&correlation_id), now_ms()));
        }
        for client in clients {
            self.deliver(client, wire::error_frame(&error, None, now_ms()));
            self.deliver(client, pong_frame());
        }
    }
}

#[cfg(test)]
mod tests;
