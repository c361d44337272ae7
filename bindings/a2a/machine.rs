//! The gateway as a pure machine: it takes frames of connections, and returns effects such as
//! frames to connections.
//!
//! Sockets and scripts are both connections, under the same rules. Time is a parameter, and stored
//! sessions are behind the `SessionStore` trait. The files beside this one handle the types of
//! frames.

mod access;
mod delivery;
mod discovery;
mod ownership;
mod proposals;
mod registration;
mod routing;
mod session_service;
mod settings;
mod step;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::ConnectionId;
use super::codes::{ErrorCode, GatewayError};
use super::content::{Body, Channel};
use super::correlation::Correlations;
use super::owner::Owner;
use super::priority_queue::PriorityQueue;
use super::rate_limit::TokenBucket;
use super::registry::Registry;
use super::triad::Triad;
use super::wire::{self, DecodeError, Envelope};
use delivery::QueuedMessage;
pub(crate) use settings::{ClientInfo, Settings};
pub(crate) use step::{AuditRecord, Effect, Step};

/// Interval of the search for expired waiters and messages.
const MAINTENANCE_INTERVAL_MS: u64 = 1000;

/// WebSocket close codes.
mod close_code {
    /// The client sent `disconnect`.
    pub(super) const NORMAL: u16 = 1000;
    /// Too many clients; the client may try again.
    pub(super) const TRY_AGAIN: u16 = 1013;
    /// No token, or an invalid one.
    pub(super) const UNAUTHORIZED: u16 = 4001;
}

#[derive(Debug)]
enum Access {
    /// `until_ms` is the expiry of its token.
    Authenticated { until_ms: Option<u64> },
    /// The connection has until `until_ms` to present its token; the claims take effect after that.
    AwaitingToken { until_ms: u64, claims: Vec<Claim> },
}

/// The claim of a connection to the name of an agent.
#[derive(Debug)]
struct Claim {
    name: String,
    role: Option<String>,
}

/// Claims of one connection before it presents its token; one more is refused.
const CLAIMS_MAX: usize = 16;

#[derive(Debug)]
struct Connection {
    client_id: String,
    is_local: bool,
    /// The owner of its agents; `None` until it has presented its token.
    owner: Option<Owner>,
    access: Access,
    bucket: TokenBucket,
    /// The agents per channel; `None` means all agents.
    subscriptions: HashMap<Channel, Option<Vec<String>>>,
}

/// An error in handling a frame; `closes_with` ends the connection.
struct FrameError {
    error: GatewayError,
    closes_with: Option<u16>,
}

impl From<GatewayError> for FrameError {
    fn from(error: GatewayError) -> Self {
        Self { error, closes_with: None }
    }
}

#[derive(Debug)]
pub(crate) struct Gateway {
    settings: Settings,
    connections: HashMap<ConnectionId, Connection>,
    /// Connections by client id.
    clients: HashMap<String, ConnectionId>,
    registry: Registry,
    triad: Triad,
    correlations: Correlations,
    /// Queued messages by agent. They expire in that order.
    queues: BTreeMap<String, PriorityQueue<QueuedMessage>>,
    ids_created: u64,
    last_maintenance_ms: u64,
}

impl Gateway {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            registry: Registry::new(settings.agents.clone(), settings.workspaces.clone()),
            triad: Triad::new(settings.triad.clone()),
            connections: HashMap::new(),
            clients: HashMap::new(),
            correlations: Correlations::default(),
            queues: BTreeMap::new(),
            ids_created: 0,
            last_maintenance_ms: 0,
            settings,
        }
    }

    pub(crate) fn on_open(&mut self, id: ConnectionId, client: ClientInfo, step: &mut Step<'_>) {
        let clients = self.connections.values().filter(|connection| !connection.is_local).count();
        if !client.is_local && clients >= self.settings.clients_max {
            let error = GatewayError::new(ErrorCode::ConnectionRefused, "too many clients");
            step.send_error(id, &error, None);
            step.close(id, close_code::TRY_AGAIN, "full");
            return;
        }
        let needs_no_token = client.is_local || self.settings.token.is_none();
        let until_ms = step.now_ms.saturating_add(self.settings.auth_ms_max);
        let access = if needs_no_token {
            Access::Authenticated { until_ms: None }
        } else {
            Access::AwaitingToken { until_ms, claims: Vec::new() }
        };
        let connection = Connection {
            client_id: client.client_id.clone(),
            is_local: client.is_local,
            owner: needs_no_token.then_some(client.owner),
            access,
            bucket: TokenBucket::full(self.settings.rate, step.now_ms),
            subscriptions: HashMap::new(),
        };
        self.connections.insert(id, connection);
        self.clients.insert(client.client_id, id);
        let result = self.apply_client_info(id, client.token, client.agent, step);
        self.report_result(id, result, None, step);
    }

    pub(crate) fn on_text(&mut self, id: ConnectionId, text: &str, step: &mut Step<'_>) {
        self.on_frame(id, Envelope::decode(text), step);
    }

    /// Handles a frame of a script, which is an object already.
    pub(crate) fn on_fields(&mut self, id: ConnectionId, fields: Map<String, Value>, step: &mut Step<'_>) {
        self.on_frame(id, Envelope::from_fields(fields), step);
    }

    /// Handles a binary frame that is not UTF-8. The connection stays open.
    pub(crate) fn on_binary(&mut self, id: ConnectionId, step: &mut Step<'_>) {
        let error = GatewayError::new(ErrorCode::InvalidJson, "expected JSON in UTF-8");
        self.on_frame(id, Err(DecodeError { error, correlation_id: None }), step);
    }

    /// Removes a connection with its agents, waiters and queued messages.
    pub(crate) fn on_end(&mut self, id: ConnectionId, step: &mut Step<'_>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.clients.remove(&connection.client_id);
        self.correlations.remove_requester(id);
        for name in self.registry.names_of_connection(id) {
            self.fail_waiters(id, &name, step);
            if let Some(change) = self.registry.unbind(&name, id) {
                self.publish_status(&change, step);
            }
        }
        // Requesters that wait for a reply of the client itself.
        self.fail_waiters(id, &connection.client_id, step);
        for queue in self.queues.values_mut() {
            queue.take_matching(|message| message.sender_connection == id);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
    }

    /// Returns the time of the next `on_wake`.
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let tokens = self.connections.values().filter_map(|connection| connection.access.until_ms());
        let can_expire = !self.correlations.is_empty() || !self.queues.is_empty();
        let maintenance =
            can_expire.then(|| self.last_maintenance_ms.saturating_add(MAINTENANCE_INTERVAL_MS));
        tokens.chain(self.triad.next_deadline_ms()).chain(maintenance).min()
    }

    pub(crate) fn on_wake(&mut self, step: &mut Step<'_>) {
        for decision in self.triad.decide_due(step.now_ms) {
            self.send_decision(&decision, step);
        }
        self.close_unauthenticated(step);
        if step.now_ms >= self.last_maintenance_ms.saturating_add(MAINTENANCE_INTERVAL_MS) {
            self.last_maintenance_ms = step.now_ms;
            self.run_maintenance(step);
        }
    }

    fn check_rate(&mut self, id: ConnectionId, now_ms: u64) -> Result<(), GatewayError> {
        let rate = self.settings.rate;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.is_local || connection.bucket.take(rate, now_ms) {
            return Ok(());
        }
        Err(GatewayError::new(ErrorCode::AgentBusy, "rate limit exceeded"))
    }

    fn on_frame(&mut self, id: ConnectionId, decoded: Result<Envelope, DecodeError>, step: &mut Step<'_>) {
        let Some(connection) = self.connections.get(&id) else { return };
        let client_id = self.client_id(id);
        let is_authenticated = matches!(connection.access, Access::Authenticated { .. });
        let mut record = AuditRecord {
            client_id,
            is_authenticated,
            kind: "unreadable",
            id: None,
            from: None,
            agent: None,
            outcome: "ok",
        };
        let (result, correlation_id) = match decoded {
            Err(DecodeError { error, correlation_id }) => {
                let error = self.check_rate(id, step.now_ms).err().unwrap_or(error);
                (Err(FrameError::from(error)), correlation_id)
            }
            Ok(envelope) => {
                record.kind = envelope.kind.name();
                record.id.clone_from(&envelope.id);
                record.from = envelope.from.as_deref().map(|name| wire::truncate_name(name).to_owned());
                record.agent = envelope.agent.as_deref().map(|name| wire::truncate_name(name).to_owned());
                let correlation_id = envelope.metadata.correlation_id.clone();
                (self.handle_frame(id, envelope, step), correlation_id)
            }
        };
        if let Err(failure) = &result {
            record.outcome = failure.error.code.name();
        }
        step.effects.push(Effect::Audit(record));
        self.report_result(id, result, correlation_id.as_deref(), step);
    }

    /// Sends the error of a frame, and closes the connection if the error demands it.
    fn report_result(
        &mut self,
        id: ConnectionId,
        result: Result<(), FrameError>,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) {
        let Err(failure) = result else { return };
        step.send_error(id, &failure.error, correlation_id);
        if let Some(code) = failure.closes_with {
            self.on_end(id, step);
            step.close(id, code, failure.error.code.name());
        }
    }

    fn handle_frame(
        &mut self,
        id: ConnectionId,
        mut envelope: Envelope,
        step: &mut Step<'_>,
    ) -> Result<(), FrameError> {
        self.check_rate(id, step.now_ms)?;
        self.check_access(id, envelope.kind, step.now_ms)?;
        // The handlers below rely on an id.
        envelope.id.get_or_insert_with(|| format!("msg-{}", self.next_id()));
        let correlation_id = envelope.metadata.correlation_id.clone();
        let reply_id = correlation_id.as_deref();
        match Body::decode(&envelope)? {
            Body::Advertise => self.advertise(id, &envelope, step)?,
            Body::Register { name } => self.register(id, name, reply_id, step)?,
            Body::Auth { token } => self.authenticate(id, &token, reply_id, step)?,
            Body::Disconnect => {
                self.on_end(id, step);
                step.close(id, close_code::NORMAL, "goodbye");
            }
            Body::Ping => self.send_pong(id, reply_id, step),
            Body::Pong => {}
            Body::Discovery(target) => self.discover(id, target, reply_id, step),
            Body::Workspaces { agent } => self.list_workspaces(id, agent.as_deref(), reply_id, step)?,
            Body::Subscribe { channel, agents } => self.subscribe(id, channel, agents, reply_id, step),
            Body::Unsubscribe { channel } => self.unsubscribe(id, channel, reply_id, step),
            Body::Status(status) => self.set_status(id, &envelope, status, step)?,
            Body::Message { role, content } => self.handle_message(id, envelope, role, content, step)?,
            Body::Request => self.handle_request(id, envelope, step)?,
            Body::Session(request) => self.serve_session(id, request, reply_id, step)?,
            Body::Response => self.handle_response(id, envelope, step)?,
            // An error that is not a reply is dropped: errors do not cause errors.
            Body::Error => {
                self.forward_reply(id, envelope, step)?;
            }
            Body::Event { event } => self.handle_event(id, envelope, &event, step)?,
            Body::Broadcast => self.broadcast(id, envelope, step)?,
            Body::Proposal { deadline_ms } => self.propose(id, envelope, deadline_ms, step)?,
            Body::Vote { proposal_id, vote } => self.handle_vote(id, &envelope, &proposal_id, vote, step)?,
        }
        Ok(())
    }

    /// Returns an id that no other message or session has.
    fn next_id(&mut self) -> String {
        self.ids_created += 1;
        format!("{}-{}", self.settings.instance, self.ids_created)
    }

    fn client_id(&self, id: ConnectionId) -> String {
        self.connections.get(&id).map_or_else(String::new, |connection| connection.client_id.clone())
    }
}

#[cfg(test)]
mod tests;
