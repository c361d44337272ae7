//! The server side of a client's connection: handshake, dialect, permissions and authentication.
//! Requests are executed by their space, on a thread of the engine.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::auth::{self, Challenge, OpenContext, VALIDITY_SECONDS};
use super::codec::{Data, Dialect};
use super::engine::Engine;
use super::machine::{ConnectionId, OpenRequest};
use super::message_sender::{MessageSender, message_channel};
use super::names::is_space_name;
use super::space_table::{Job, Task};
use super::wire::{self, ClientMessage, Command, Flags, PROTOCOLS, Request, RequestBody, WireError};
use crate::peering::{Conversation, Endpoint, IncomingConnection, Outbox, PendingRecord, Requester, pump};

/// Longest message. A blob of 10 MiB is a document of 14 MiB and has to fit.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What a `session.open` needs to be accepted.
#[derive(Debug, Clone)]
pub(super) struct AuthPolicy {
    /// Whether the signature may be missing.
    pub(super) is_trusted: bool,
    /// Whether audience and challenge are required.
    pub(super) is_strict: bool,
    /// The name of this server in signed requests.
    pub(super) audience: String,
    /// The only accepted representation of links; `None` accepts the client's choice.
    pub(super) modern_cells: Option<bool>,
}

pub(super) struct MemoryEndpoint {
    pub(super) engine: Engine,
    pub(super) auth_policy: Arc<AuthPolicy>,
}

impl Endpoint for MemoryEndpoint {
    /// A browser can send a token only beside a subprotocol that the server echoes; other clients
    /// do not offer one.
    fn subprotocol(&self) -> Option<&'static str> {
        Some("memory")
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn serve(&self, incoming: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (engine, auth_policy) = (self.engine.clone(), Arc::clone(&self.auth_policy));
        Box::pin(async move {
            let mut transport = incoming.transport;
            let end = incoming.stop.child_token();
            let (sender, mut messages_rx) = message_channel(end.clone());
            let requester = Requester { principal: incoming.principal, audit: incoming.audit };
            let mut connection = ServerConnection::new(engine, auth_policy, sender, Some(requester));
            pump(&mut transport, &mut connection, &mut messages_rx, &end).await;
        })
    }
}

#[derive(Debug)]
enum Phase {
    AwaitingHello,
    Ready { protocol: String },
}

/// The connection of one client.
pub(super) struct ServerConnection {
    connection_id: ConnectionId,
    engine: Engine,
    auth_policy: Arc<AuthPolicy>,
    sender: MessageSender,
    dialect: Dialect,
    phase: Phase,
    challenge: Challenge,
    /// The connected principal; `None` for the bindings of this server, whose calls have been
    /// authorized already.
    requester: Option<Requester>,
}

/// Effects of requests, equal to those of the corresponding bindings.
const READ: &[&str] = &["read"];
const WRITE: &[&str] = &["write"];

impl ServerConnection {
    pub(super) fn new(
        engine: Engine,
        auth_policy: Arc<AuthPolicy>,
        sender: MessageSender,
        requester: Option<Requester>,
    ) -> Self {
        Self {
            connection_id: engine.next_connection_id(),
            engine,
            auth_policy,
            sender,
            dialect: Dialect::Tagged,
            phase: Phase::AwaitingHello,
            challenge: new_challenge(),
            requester,
        }
    }

    fn on_message(&mut self, message: ClientMessage, bytes: usize) -> Option<Data> {
        match (message, &self.phase) {
            (ClientMessage::Hello { protocol, flags }, Phase::AwaitingHello) => {
                Some(self.handle_hello(protocol, flags))
            }
            (ClientMessage::Hello { .. }, Phase::Ready { .. }) => {
                Some(handshake_error("ProtocolError", "hello may only be sent once"))
            }
            (ClientMessage::Request(_), Phase::AwaitingHello) => {
                Some(handshake_error("ProtocolError", "memory hello is required first"))
            }
            (ClientMessage::Request(request), Phase::Ready { protocol }) => {
                let (request_id, protocol) = (request.id.clone(), protocol.clone());
                let submitted = self.submit(request, &protocol, bytes);
                submitted.err().map(|error| wire::response(&request_id, Err(error)))
            }
        }
    }

    fn handle_hello(&mut self, protocol: String, flags: Flags) -> Data {
        if !PROTOCOLS.contains(&protocol.as_str()) {
            let protocol: String = protocol.chars().take(100).collect();
            return handshake_error("UnsupportedProtocol", &format!("Unsupported protocol: {protocol}"));
        }
        if let (Flags::ModernCells(requested), Some(supported)) = (flags, self.auth_policy.modern_cells)
            && requested != supported
        {
            return handshake_error("ProtocolError", "memory flag mismatch: modernCellRep");
        }
        let hello_ok = wire::hello_ok(&protocol, flags, self.challenge_metadata());
        self.phase = Phase::Ready { protocol };
        hello_ok
    }

    fn challenge_metadata(&self) -> Data {
        wire::session_open_metadata(
            &self.auth_policy.audience,
            &self.challenge.value,
            self.challenge.expires_at,
        )
    }

    fn submit(&mut self, request: Request, protocol: &str, bytes: usize) -> Result<(), WireError> {
        let Request { id: request_id, space, body } = request;
        if self.requester.is_some() && !is_space_name(&space) {
            return Err(WireError::new("ProtocolError", "Invalid memory space identifier"));
        }
        let record = self.permit(&body)?;
        let sender = self.sender.clone();
        let task = match body {
            RequestBody::Open { session, invocation, authorization } => {
                let proof = (invocation.as_ref(), authorization.as_ref());
                let principal = self.authenticate(protocol, &space, &session, proof)?;
                let open_request = OpenRequest::new(self.connection_id, principal, &session);
                Task::Open { request_id, open_request, sender, session_open: self.challenge_metadata() }
            }
            RequestBody::InSession { session_id, command } => {
                let connection_id = self.connection_id;
                Task::Request { request_id, connection_id, session_id, command, sender, record }
            }
        };
        self.engine
            .submit(Job { space, task }, bytes)
            .map_err(|full| WireError::new("RateLimitError", full.to_string()).with("retryAfter", 1_u64))
    }

    /// Checks the policy of the principal. The audit record of a permitted write is returned, to be
    /// finished with its outcome.
    fn permit(&self, body: &RequestBody) -> Result<Option<PendingRecord>, WireError> {
        let (binding, effects, session) = match body {
            RequestBody::Open { .. } => ("memory.open", READ, ""),
            RequestBody::InSession { session_id, command } => match command {
                Command::Transact { .. } => ("memory.transact", WRITE, session_id.as_str()),
                Command::Query { .. } => ("memory.query", READ, session_id.as_str()),
                Command::WatchSet { .. } | Command::WatchAdd { .. } => {
                    ("memory.watch", READ, session_id.as_str())
                }
                Command::Ack { .. } | Command::SchedulerSnapshots => return Ok(None),
            },
        };
        let Some(requester) = &self.requester else { return Ok(None) };
        let record = requester.permit(binding, effects, session);
        let record = record.map_err(|reason| WireError::new("AuthorizationError", reason))?;
        Ok((effects == WRITE).then_some(record))
    }

    /// Returns the identity that signed the `session.open`. A signed challenge becomes invalid.
    fn authenticate(
        &mut self,
        protocol: &str,
        space: &str,
        session: &Data,
        (invocation, authorization): (Option<&Data>, Option<&Data>),
    ) -> Result<Option<String>, WireError> {
        if self.auth_policy.is_trusted && invocation.is_none() && authorization.is_none() {
            return Ok(None);
        }
        let context = OpenContext {
            protocol,
            space,
            session,
            audience: &self.auth_policy.audience,
            challenge: &self.challenge,
            is_strict: self.auth_policy.is_strict,
            now_seconds: now_seconds(),
        };
        let identity = auth::verify(invocation, authorization, &context).map_err(|error| {
            let rejection = WireError::new(error.name(), error.to_string());
            if error.is_retriable() { rejection.with("retriable", true) } else { rejection }
        })?;
        self.challenge = new_challenge();
        Ok(Some(identity))
    }
}

impl Conversation for ServerConnection {
    /// An encoded message.
    type Command = String;

    fn on_open(&mut self, _now: Instant, _out: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        // Until the handshake is complete, every frame may change the dialect.
        if matches!(self.phase, Phase::AwaitingHello) {
            self.dialect = Dialect::detect(text);
            self.sender = self.sender.with_dialect(self.dialect);
        }
        let message = self.dialect.decode(text).ok().as_ref().and_then(wire::parse_message);
        let response = match message {
            Some(message) => self.on_message(message, text.len()),
            None => Some(wire::invalid_message()),
        };
        if let Some(response) = response {
            out.send(self.dialect.encode(&response));
        }
    }

    fn on_command(&mut self, message: String, _now: Instant, out: &mut Outbox) {
        out.send(message);
    }

    fn on_end(&mut self, _now: Instant) {
        self.engine.disconnect(self.connection_id);
    }
}

fn handshake_error(name: &'static str, message: &str) -> Data {
    wire::response("handshake", Err(WireError::new(name, message)))
}

fn new_challenge() -> Challenge {
    // Clients expect 64 hexadecimal digits: two UUIDs without dashes.
    let value = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    Challenge { value, expires_at: now_seconds() + VALIDITY_SECONDS }
}

/// Seconds since 1970, as in `iat` and `exp`.
pub(super) fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
