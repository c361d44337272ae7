//! The gateway as a pure machine: frames of connections go in, frames for connections come out.
//!
//! Everybody is a connection here, a socket or a script, so that both are held to the same rules. Time is a
//! parameter, and the disk is behind the [`Sessions`] trait. What becomes of each type is in the files beside this one.

mod access;
mod control;
mod deliberation;
mod ownership;
mod routing;
mod service;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::ConnectionId;
use super::auth::Token;
use super::codes::{ErrorCode, Refusal};
use super::content::{Body, Channel};
use super::correlation::Correlations;
use super::owner::Owner;
use super::parked::Parked;
use super::rate::{Bucket, Rate};
use super::registry::Registry;
use super::sessions::Sessions;
use super::triad::{Rules, Triad};
use super::wire::{self, Envelope, Unreadable};
use routing::Letter;

/// Between two looks at what has waited too long.
const HOUSEKEEPING_MS: u64 = 1000;

/// Close codes of the gateway.
mod close_code {
    /// The client said goodbye.
    pub(super) const NORMAL: u16 = 1000;
    /// No room for one more; it may try again.
    pub(super) const TRY_AGAIN: u16 = 1013;
    /// No token, or a wrong one.
    pub(super) const UNAUTHORIZED: u16 = 4001;
}

/// What an operator decides.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Stands in the ids that the gateway gives, so that no two runs give the same.
    pub(crate) instance: String,
    pub(crate) token: Option<Token>,
    /// How long a client may take to show its token.
    pub(crate) auth_ms_max: u64,
    pub(crate) clients_max: usize,
    pub(crate) rate: Rate,
    pub(crate) triad: Rules,
    /// Whether names and sessions belong to all principals together.
    pub(crate) shared: bool,
    /// The principals that own configured agents, by the agents' names.
    pub(crate) owners: HashMap<String, String>,
    /// Names and roles.
    pub(crate) agents: Vec<(String, String)>,
    /// What is said of where the agents live.
    pub(crate) workspaces: String,
    /// What discovery tells of services elsewhere.
    pub(crate) services: Vec<Value>,
}

/// Who is at the other end of a new connection.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) client_id: String,
    /// Whom its agents belong to, where the gateway has no token of its own.
    pub(crate) owner: Owner,
    /// A script of this server: it has shown its token to the server already, and is counted there.
    pub(crate) is_local: bool,
    /// A token that came with the connection.
    pub(crate) token: Option<String>,
    /// The agent that it wants to be.
    pub(crate) agent: Option<String>,
}

impl Default for Arrival {
    fn default() -> Self {
        Self { client_id: String::new(), owner: Owner::local(), is_local: false, token: None, agent: None }
    }
}

/// What the machine wants done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Send { to: ConnectionId, frame: Value },
    Close { to: ConnectionId, code: u16, reason: String },
    Audit(Record),
}

/// A line of the audit log: who sent what to whom and what came of it, never the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) client_id: String,
    /// Whether the connection had authenticated.
    pub(crate) is_granted: bool,
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) outcome: &'static str,
}

/// One input's surroundings: the time, the disk, and where the effects go.
pub(crate) struct Turn<'a> {
    pub(crate) now_ms: u64,
    pub(crate) sessions: &'a mut dyn Sessions,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    fn send(&mut self, to: ConnectionId, frame: Value) {
        self.effects.push(Effect::Send { to, frame });
    }

    /// Sends an agent its copy of a frame that several get.
    fn send_copy(&mut self, to: ConnectionId, agent: &str, frame: &Value) {
        let mut copy = frame.clone();
        copy["agent"] = json!(agent);
        self.send(to, copy);
    }

    /// Sends a frame before those that went out since `mark`, a number of effects.
    fn send_at(&mut self, mark: usize, to: ConnectionId, frame: Value) {
        self.effects.insert(mark.min(self.effects.len()), Effect::Send { to, frame });
    }

    fn refuse(&mut self, to: ConnectionId, refusal: &Refusal, correlation_id: Option<&str>) {
        let frame = wire::error(refusal, correlation_id, self.now_ms);
        self.send(to, frame);
    }

    fn close(&mut self, to: ConnectionId, code: u16, reason: &str) {
        self.effects.push(Effect::Close { to, code, reason: reason.to_owned() });
    }
}

/// Whether a connection may do anything yet.
#[derive(Debug)]
enum Access {
    /// Until its token expires, if that does.
    Granted { until_ms: Option<u64> },
    /// It has until then to show its token, and will then be the agents that it said it is.
    AwaitingToken { until_ms: u64, claims: Vec<Claim> },
}

/// An agent that somebody wants to be.
#[derive(Debug)]
struct Claim {
    name: String,
    role: Option<String>,
}

/// Claims that one connection may make before it shows its token: more agents than that come one by one.
const CLAIMS_MAX: usize = 16;

#[derive(Debug)]
struct Connection {
    client_id: String,
    is_local: bool,
    /// Whom its agents belong to; known once it has shown its token.
    owner: Option<Owner>,
    access: Access,
    bucket: Bucket,
    /// The channels it listens to, and of which agents; `None` means all.
    subscriptions: HashMap<Channel, Option<Vec<String>>>,
}

/// A refusal, after which the connection may end.
struct Fault {
    refusal: Refusal,
    closes_with: Option<u16>,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, closes_with: None }
    }
}

/// All that the connections of a gateway share.
#[derive(Debug)]
pub(crate) struct Gateway {
    settings: Settings,
    connections: HashMap<ConnectionId, Connection>,
    /// Connections by the ids that others know them by.
    clients: HashMap<String, ConnectionId>,
    registry: Registry,
    triad: Triad,
    correlations: Correlations,
    parked: HashMap<String, Parked<Letter>>,
    numbers_given: u64,
    housekept_ms: u64,
}

impl Gateway {
    /// A gateway that nobody is connected to.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            registry: Registry::new(settings.agents.clone(), settings.workspaces.clone()),
            triad: Triad::new(settings.triad.clone()),
            connections: HashMap::new(),
            clients: HashMap::new(),
            correlations: Correlations::default(),
            parked: HashMap::new(),
            numbers_given: 0,
            housekept_ms: 0,
            settings,
        }
    }

    /// Somebody connected.
    pub(crate) fn on_open(&mut self, id: ConnectionId, arrival: Arrival, turn: &mut Turn<'_>) {
        let clients = self.connections.values().filter(|connection| !connection.is_local).count();
        if !arrival.is_local && clients >= self.settings.clients_max {
            let refusal = Refusal::new(ErrorCode::ConnectionRefused, "the gateway has no room for one more");
            turn.refuse(id, &refusal, None);
            turn.close(id, close_code::TRY_AGAIN, "full");
            return;
        }
        let is_open = arrival.is_local || self.settings.token.is_none();
        let until_ms = turn.now_ms.saturating_add(self.settings.auth_ms_max);
        let access = if is_open {
            Access::Granted { until_ms: None }
        } else {
            Access::AwaitingToken { until_ms, claims: Vec::new() }
        };
        let connection = Connection {
            client_id: arrival.client_id.clone(),
            is_local: arrival.is_local,
            owner: is_open.then_some(arrival.owner),
            access,
            bucket: Bucket::full(self.settings.rate, turn.now_ms),
            subscriptions: HashMap::new(),
        };
        self.connections.insert(id, connection);
        self.clients.insert(arrival.client_id, id);
        let welcomed = self.welcome(id, arrival.token, arrival.agent, turn);
        self.conclude(id, welcomed, None, turn);
    }

    /// A text came in.
    pub(crate) fn on_text(&mut self, id: ConnectionId, text: &str, turn: &mut Turn<'_>) {
        self.on_decoded(id, Envelope::decode(text), turn);
    }

    /// A script sent a frame.
    pub(crate) fn on_fields(&mut self, id: ConnectionId, fields: Map<String, Value>, turn: &mut Turn<'_>) {
        self.on_decoded(id, Envelope::of_fields(fields), turn);
    }

    /// A binary frame came in that is not text. The connection lives on.
    pub(crate) fn on_binary(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        let refusal = Refusal::new(ErrorCode::InvalidJson, "expected JSON in UTF-8");
        self.on_decoded(id, Err(Unreadable { refusal, correlation_id: None }), turn);
    }

    /// A connection is gone, and with it everything that it was.
    pub(crate) fn on_end(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.clients.remove(&connection.client_id);
        self.correlations.forget(id);
        for name in self.registry.names_of(id) {
            self.abandon(id, &name, turn);
            if let Some(change) = self.registry.unbind(&name, id) {
                self.announce(&change, turn);
            }
        }
        // Those who wait for a client that bears no name.
        self.abandon(id, &connection.client_id, turn);
        for letters in self.parked.values_mut() {
            letters.take(|letter| letter.sender_connection == id);
        }
        self.parked.retain(|_, letters| !letters.is_empty());
    }

    /// When something is due.
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let tokens = self.connections.values().filter_map(|connection| connection.access.until_ms());
        let somebody_waits = !self.correlations.is_empty() || !self.parked.is_empty();
        let housekeeping = somebody_waits.then(|| self.housekept_ms.saturating_add(HOUSEKEEPING_MS));
        tokens.chain(self.triad.next_deadline_ms()).chain(housekeeping).min()
    }

    /// It is time.
    pub(crate) fn on_wake(&mut self, turn: &mut Turn<'_>) {
        for decision in self.triad.expire(turn.now_ms) {
            self.decide(&decision, turn);
        }
        self.end_without_access(turn);
        if turn.now_ms >= self.housekept_ms.saturating_add(HOUSEKEEPING_MS) {
            self.housekept_ms = turn.now_ms;
            self.keep_house(turn);
        }
    }

    /// Whether a connection has sent too much.
    fn check_rate(&mut self, id: ConnectionId, now_ms: u64) -> Result<(), Refusal> {
        let rate = self.settings.rate;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.is_local || connection.bucket.take(rate, now_ms) {
            return Ok(());
        }
        Err(Refusal::new(ErrorCode::AgentBusy, "too many messages: slow down"))
    }

    fn on_decoded(&mut self, id: ConnectionId, decoded: Result<Envelope, Unreadable>, turn: &mut Turn<'_>) {
        let Some(connection) = self.connections.get(&id) else { return };
        let client_id = self.client_id(id);
        let is_granted = matches!(connection.access, Access::Granted { .. });
        let mut record = Record {
            client_id,
            is_granted,
            kind: "unreadable",
            id: None,
            from: None,
            agent: None,
            outcome: "ok",
        };
        let (acted, correlation_id) = match decoded {
            Err(Unreadable { refusal, correlation_id }) => {
                let refusal = self.check_rate(id, turn.now_ms).err().unwrap_or(refusal);
                (Err(Fault::from(refusal)), correlation_id)
            }
            Ok(envelope) => {
                record.kind = envelope.kind.name();
                record.id.clone_from(&envelope.id);
                record.from = envelope.from.as_deref().map(|name| wire::cut(name).to_owned());
                record.agent = envelope.agent.as_deref().map(|name| wire::cut(name).to_owned());
                let correlation_id = envelope.metadata.correlation_id.clone();
                (self.act(id, envelope, turn), correlation_id)
            }
        };
        if let Err(fault) = &acted {
            record.outcome = fault.refusal.code.name();
        }
        turn.effects.push(Effect::Audit(record));
        self.conclude(id, acted, correlation_id.as_deref(), turn);
    }

    /// Tells a connection what was wrong, and ends it if that is so bad.
    fn conclude(
        &mut self,
        id: ConnectionId,
        acted: Result<(), Fault>,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) {
        let Err(fault) = acted else { return };
        turn.refuse(id, &fault.refusal, correlation_id);
        if let Some(code) = fault.closes_with {
            self.on_end(id, turn);
            turn.close(id, code, fault.refusal.code.name());
        }
    }

    fn act(&mut self, id: ConnectionId, mut envelope: Envelope, turn: &mut Turn<'_>) -> Result<(), Fault> {
        self.check_rate(id, turn.now_ms)?;
        self.check_access(id, envelope.kind, turn.now_ms)?;
        // From here on every frame has an id.
        envelope.id.get_or_insert_with(|| format!("msg-{}", self.next_number()));
        let correlation_id = envelope.metadata.correlation_id.clone();
        let answer_to = correlation_id.as_deref();
        match Body::decode(&envelope)? {
            Body::Advertise => self.advertise(id, &envelope, turn)?,
            Body::Register { name } => self.register(id, name, answer_to, turn)?,
            Body::Auth { token } => self.authenticate(id, &token, answer_to, turn)?,
            Body::Disconnect => {
                self.on_end(id, turn);
                turn.close(id, close_code::NORMAL, "goodbye");
            }
            Body::Ping => self.pong(id, answer_to, turn),
            Body::Pong => {}
            Body::Discovery(what) => self.discover(id, what, answer_to, turn),
            Body::Workspaces { agent } => self.list_workspaces(id, agent.as_deref(), answer_to, turn)?,
            Body::Subscribe { channel, agents } => self.subscribe(id, channel, agents, answer_to, turn),
            Body::Unsubscribe { channel } => self.unsubscribe(id, channel, answer_to, turn),
            Body::Status(status) => self.set_status(id, &envelope, status, turn)?,
            Body::Message { role, content } => self.message(id, envelope, role, content, turn)?,
            Body::Request => self.request(id, envelope, turn)?,
            Body::Session(request) => self.serve_session(id, request, answer_to, turn)?,
            Body::Response => self.respond(id, envelope, turn)?,
            // One that answers nothing goes nowhere: errors are not answered with errors.
            Body::Error => {
                self.pass_answer(id, envelope, turn)?;
            }
            Body::Event { event } => self.event(id, envelope, &event, turn)?,
            Body::Broadcast => self.broadcast(id, envelope, turn)?,
            Body::Proposal { deadline_ms } => self.propose(id, envelope, deadline_ms, turn)?,
            Body::Vote { proposal_id, vote } => self.vote(id, &envelope, &proposal_id, vote, turn)?,
        }
        Ok(())
    }

    /// Something that no other message or session is called.
    fn next_number(&mut self) -> String {
        self.numbers_given += 1;
        format!("{}-{}", self.settings.instance, self.numbers_given)
    }

    fn client_id(&self, id: ConnectionId) -> String {
        self.connections.get(&id).map_or_else(String::new, |connection| connection.client_id.clone())
    }
}

#[cfg(test)]
mod tests;
