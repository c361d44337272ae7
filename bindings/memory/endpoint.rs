//! A client's connection: the handshake, its dialect, who it is. All else is done by the space that it asks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::auth::{self, Challenge, Expected, VALIDITY_SECONDS};
use super::codec::{Data, Dialect};
use super::engine::Engine;
use super::hub::{Job, Task};
use super::machine::{Connection, Opening};
use super::names::is_space_name;
use super::outlet::{Message, Outlet, outlet};
use super::wire::{self, Body, ClientMessage, Command, Flags, PROTOCOLS, Request, WireError};
use crate::peering::{Conversation, Endpoint, IncomingConnection, Outbox, PendingRecord, Requester, pump};

/// Longest message. A blob of 10 MiB is a document of 14 MiB, and must still fit.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Whom to let in.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    /// Whether nobody has to sign.
    pub(super) is_trusted: bool,
    /// Whether openings must carry audience and challenge.
    pub(super) is_strict: bool,
    /// Whom openings are meant for.
    pub(super) audience: String,
    /// The one representation of links that is spoken; `None`: the client's.
    pub(super) modern_cells: Option<bool>,
}

/// Serves clients.
pub(super) struct MemoryEndpoint {
    pub(super) engine: Engine,
    pub(super) admission: Arc<Admission>,
}

impl Endpoint for MemoryEndpoint {
    /// A browser can show a token only beside a subprotocol that is echoed; other clients offer none.
    fn subprotocol(&self) -> Option<&'static str> {
        Some("memory")
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn serve(&self, visit: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (engine, admission) = (self.engine.clone(), Arc::clone(&self.admission));
        Box::pin(async move {
            let mut transport = visit.transport;
            let end = visit.stop.child_token();
            let (outlet, mut messages_rx) = outlet(end.clone());
            let requester = Requester { principal: visit.principal, audit: visit.audit };
            let mut visitor = Visitor::new(engine, admission, outlet, Some(requester));
            pump(&mut transport, &mut visitor, &mut messages_rx, &end).await;
        })
    }
}

/// Where a connection stands.
#[derive(Debug)]
enum Phase {
    AwaitingHello,
    Live { protocol: String },
}

/// One client.
pub(super) struct Visitor {
    connection: Connection,
    engine: Engine,
    admission: Arc<Admission>,
    outlet: Outlet,
    dialect: Dialect,
    phase: Phase,
    challenge: Challenge,
    /// Who is connected; `None` for the bindings of this server, whose calls were decided on before.
    requester: Option<Requester>,
}

/// The effects of requests, as those of the bindings that do the same.
const READ: &[&str] = &["read"];
const WRITE: &[&str] = &["write"];

impl Visitor {
    pub(super) fn new(
        engine: Engine,
        admission: Arc<Admission>,
        outlet: Outlet,
        requester: Option<Requester>,
    ) -> Self {
        Self {
            connection: engine.connection(),
            engine,
            admission,
            outlet,
            dialect: Dialect::Tagged,
            phase: Phase::AwaitingHello,
            challenge: challenge(),
            requester,
        }
    }

    fn on_message(&mut self, message: ClientMessage, bytes: usize) -> Option<Data> {
        match (message, &self.phase) {
            (ClientMessage::Hello { protocol, flags }, Phase::AwaitingHello) => {
                Some(self.greet(protocol, flags))
            }
            (ClientMessage::Hello { .. }, Phase::Live { .. }) => {
                Some(handshake_error("ProtocolError", "hello may only be sent once"))
            }
            (ClientMessage::Request(_), Phase::AwaitingHello) => {
                Some(handshake_error("ProtocolError", "memory hello is required first"))
            }
            (ClientMessage::Request(request), Phase::Live { protocol }) => {
                let (request_id, protocol) = (request.id.clone(), protocol.clone());
                let submitted = self.submit(request, &protocol, bytes);
                submitted.err().map(|error| wire::response(&request_id, Err(error)))
            }
        }
    }

    fn greet(&mut self, protocol: String, flags: Flags) -> Data {
        if !PROTOCOLS.contains(&protocol.as_str()) {
            let protocol: String = protocol.chars().take(100).collect();
            return handshake_error("UnsupportedProtocol", &format!("Unsupported protocol: {protocol}"));
        }
        if let (Flags::ModernCells(asked), Some(spoken)) = (flags, self.admission.modern_cells)
            && asked != spoken
        {
            return handshake_error("ProtocolError", "memory flag mismatch: modernCellRep");
        }
        let hello_ok = wire::hello_ok(&protocol, flags, self.session_open());
        self.phase = Phase::Live { protocol };
        hello_ok
    }

    fn session_open(&self) -> Data {
        wire::session_open_metadata(
            &self.admission.audience,
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
        let outlet = self.outlet.clone();
        let task = match body {
            Body::Open { session, invocation, authorization } => {
                let proof = (invocation.as_ref(), authorization.as_ref());
                let principal = self.identify(protocol, &space, &session, proof)?;
                let opening = Opening::new(self.connection, principal, &session);
                Task::Open { request_id, opening, outlet, session_open: self.session_open() }
            }
            Body::InSession { session_id, command } => {
                let connection = self.connection;
                Task::Request { request_id, connection, session_id, command, outlet, record }
            }
        };
        self.engine
            .submit(Job { space, task }, bytes)
            .map_err(|busy| WireError::new("RateLimitError", busy.to_string()).with("retryAfter", 1_u64))
    }

    /// What the policy of the connection's principal says. Of what is permitted, writes are recorded.
    fn permit(&self, body: &Body) -> Result<Option<PendingRecord>, WireError> {
        let (binding, effects, session) = match body {
            Body::Open { .. } => ("memory.open", READ, ""),
            Body::InSession { session_id, command } => match command {
                Command::Transact { .. } => ("memory.transact", WRITE, session_id.as_str()),
                Command::Query { .. } => ("memory.query", READ, session_id.as_str()),
                Command::WatchSet { .. } | Command::WatchAdd { .. } => {
                    ("memory.watch", READ, session_id.as_str())
                }
                Command::Ack { .. } | Command::SchedulerSnapshots => return Ok(None),
            },
        };
        let Some(requester) = &self.requester else { return Ok(None) };
        let permitted = requester.permit(binding, effects, session);
        let record = permitted.map_err(|why| WireError::new("AuthorizationError", why))?;
        Ok((effects == WRITE).then_some(record))
    }

    /// Who opens the session. A challenge that was signed is used up.
    fn identify(
        &mut self,
        protocol: &str,
        space: &str,
        session: &Data,
        (invocation, authorization): (Option<&Data>, Option<&Data>),
    ) -> Result<Option<String>, WireError> {
        if self.admission.is_trusted && invocation.is_none() && authorization.is_none() {
            return Ok(None);
        }
        let expected = Expected {
            protocol,
            space,
            session,
            audience: &self.admission.audience,
            challenge: &self.challenge,
            is_strict: self.admission.is_strict,
            now_seconds: now_seconds(),
        };
        let identity = auth::verify(invocation, authorization, &expected).map_err(|error| {
            let refusal = WireError::new(error.name(), error.to_string());
            if error.is_retriable() { refusal.with("retriable", true) } else { refusal }
        })?;
        self.challenge = challenge();
        Ok(Some(identity))
    }
}

impl Conversation for Visitor {
    type Command = Message;

    fn on_open(&mut self, _now: Instant, _out: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        // Until the handshake is through, every frame may show the dialect.
        if matches!(self.phase, Phase::AwaitingHello) {
            self.dialect = Dialect::of(text);
            self.outlet = self.outlet.speaking(self.dialect);
        }
        let message = self.dialect.decode(text).ok().as_ref().and_then(wire::read);
        let answer = match message {
            Some(message) => self.on_message(message, text.len()),
            None => Some(wire::unreadable()),
        };
        if let Some(answer) = answer {
            out.send(self.dialect.encode(&answer));
        }
    }

    fn on_command(&mut self, mut message: Message, _now: Instant, out: &mut Outbox) {
        out.send(message.take_text());
    }

    fn on_end(&mut self, _now: Instant) {
        self.engine.disconnected(self.connection);
    }
}

fn handshake_error(name: &'static str, message: &str) -> Data {
    wire::response("handshake", Err(WireError::new(name, message)))
}

fn challenge() -> Challenge {
    // Two random identifiers without dashes are the 64 hexadecimal digits that clients expect.
    let value = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    Challenge { value, expires_at: now_seconds() + VALIDITY_SECONDS }
}

/// Seconds since 1970, which signatures are dated with.
pub(super) fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
