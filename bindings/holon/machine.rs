//! One side of a holon-web connection, without I/O. Both sides send requests and responses, so one
//! machine serves both; its role decides the format of its ids, who sends heartbeats, and how it
//! reacts to an invalid frame.
//!
//! The machine's own ids are consecutive numbers, so it can classify a response without remembering
//! every request: an id below the next number was used. Of these, only requests that ended without
//! a response are remembered.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{self, Envelope, FrameError, Status};

/// Requests without a response that are remembered, to distinguish a late response from a duplicate
/// one.
/// The reference client keeps as many. A response to an older one counts as a duplicate.
const EXPIRED_REQUESTS_MAX: usize = 1024;

/// The built-in method that every peer answers with `{}`.
pub(super) const HEARTBEAT: &str = "holon-web/Heartbeat";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The side that accepted the connection; its ids are `s1`, `s2`…
    Endpoint,
    /// The side that dialed; its ids are `1`, `2`…, and `h1`, `h2`… for heartbeats.
    Client,
}

#[derive(Debug, Clone)]
pub(super) struct ConnectionConfig {
    pub(super) role: Role,
    /// Most requests of ours that wait for a response.
    pub(super) pending_max: usize,
    /// Most requests of the peer that are handled concurrently.
    pub(super) requests_max: usize,
    pub(super) heartbeat: HeartbeatConfig,
}

/// How often a client sends a heartbeat, and how long it waits for the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeartbeatConfig {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// A mistake of the peer, which is logged and counted. The connection stays open unless an
/// [`Effect::Close`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Warning {
    UnknownResponse,
    DuplicateResponse,
    StaleResponse,
    MalformedJson,
    InvalidEnvelope,
    HeartbeatTimeout,
}

/// What the driver has to do. `W` receives the response to a request.
#[derive(Debug, PartialEq)]
pub(super) enum Effect<W> {
    Send(String),
    Close(u16, &'static str),
    /// Handle a request of the peer, and pass the outcome to [`Machine::send_response`].
    HandleRequest {
        id: String,
        method: String,
        payload: Value,
    },
    /// A request of ours has ended.
    Complete(W, Result<Value, Status>),
    Warn(Warning),
}

struct PendingRequest<W> {
    waiter: W,
    deadline: Instant,
    timeout: Duration,
}

enum HeartbeatState {
    Off,
    DueAt(Instant),
    AwaitingResponse { number: u64, deadline: Instant },
}

pub(super) struct Machine<W> {
    config: ConnectionConfig,
    /// Requests of ours that wait for a response, in the order of sending, in which they fail.
    pending: BTreeMap<u64, PendingRequest<W>>,
    next_request: u64,
    /// Requests of ours that ended without a response, oldest first.
    expired: VecDeque<u64>,
    /// Ids of the peer's requests that are being handled.
    handling: HashSet<String>,
    heartbeat: HeartbeatState,
    next_heartbeat: u64,
}

impl Warning {
    /// Its name in the log and in the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnknownResponse => "holon.unknown_response_id",
            Self::DuplicateResponse => "holon.duplicate_response_id",
            Self::StaleResponse => "holon.stale_response_id",
            Self::MalformedJson => "holon.malformed_json",
            Self::InvalidEnvelope => "holon.invalid_envelope",
            Self::HeartbeatTimeout => "holon.heartbeat_timeout",
        }
    }
}

impl<W> Machine<W> {
    pub(super) fn new(config: ConnectionConfig) -> Self {
        Self {
            config,
            pending: BTreeMap::new(),
            next_request: 1,
            expired: VecDeque::new(),
            handling: HashSet::new(),
            heartbeat: HeartbeatState::Off,
            next_heartbeat: 1,
        }
    }

    pub(super) fn on_open(&mut self, now: Instant) {
        if self.config.role == Role::Client {
            self.heartbeat = HeartbeatState::DueAt(now + self.config.heartbeat.interval);
        }
    }

    /// The connection has ended: fails the pending requests and forgets those of the peer.
    pub(super) fn on_end(&mut self) -> Vec<Effect<W>> {
        self.handling.clear();
        self.heartbeat = HeartbeatState::Off;
        std::mem::take(&mut self.pending)
            .into_iter()
            .map(|(number, request)| {
                self.record_expired(number);
                let status = Status::new(wire::UNAVAILABLE, "connection closed");
                Effect::Complete(request.waiter, Err(status))
            })
            .collect()
    }

    pub(super) fn send_request(
        &mut self,
        method: &str,
        payload: &Value,
        timeout: Duration,
        waiter: W,
        now: Instant,
    ) -> Effect<W> {
        if self.pending.len() >= self.config.pending_max {
            let message = format!("max pending requests exceeded ({})", self.config.pending_max);
            return Effect::Complete(waiter, Err(Status::new(wire::RESOURCE_EXHAUSTED, message)));
        }
        let number = self.next_request;
        self.next_request += 1;
        self.pending.insert(number, PendingRequest { waiter, deadline: now + timeout, timeout });
        Effect::Send(wire::encode_request(&self.format_id(number), method, payload))
    }

    /// Responds to a request of the peer; `None` if its connection has ended meanwhile.
    pub(super) fn send_response(&mut self, id: &str, outcome: &Result<Value, Status>) -> Option<Effect<W>> {
        self.handling.remove(id).then(|| Effect::Send(wire::encode_response(id, outcome)))
    }

    pub(super) fn on_text(&mut self, text: &str, now: Instant) -> Vec<Effect<W>> {
        match wire::parse(text) {
            Ok(Envelope::Request { id, method, payload }) => vec![self.on_request(id, method, payload)],
            Ok(Envelope::Response { id, outcome }) => {
                self.on_response(&id, outcome, now).into_iter().collect()
            }
            Ok(Envelope::IdOnly { id }) => match self.on_response(&id, Ok(Value::Null), now) {
                // An id in the format of ours is a late response to a request of an earlier
                // connection.
                Some(Effect::Warn(Warning::UnknownResponse))
                    if self.config.role == Role::Client || self.parse_own_id(&id).is_none() =>
                {
                    self.on_invalid(Some(id), "neither method nor result nor error")
                }
                effect => effect.into_iter().collect(),
            },
            Err(FrameError::NotJson) => {
                vec![Effect::Warn(Warning::MalformedJson), Effect::Close(1002, "malformed JSON")]
            }
            Err(FrameError::Invalid { id: Some(id), is_response: true, reason })
                if self.config.role == Role::Endpoint =>
            {
                self.on_invalid_response(&id, reason, now)
            }
            Err(FrameError::Invalid { id, reason, .. }) => self.on_invalid(id, reason),
        }
    }

    fn on_request(&mut self, id: String, method: String, payload: Value) -> Effect<W> {
        let reject = |code, message: &str| {
            Effect::Send(wire::encode_response(&id, &Err(Status::new(code, message.to_owned()))))
        };
        if method == HEARTBEAT {
            return Effect::Send(wire::encode_response(&id, &Ok(json!({}))));
        }
        if self.handling.contains(&id) {
            return reject(wire::INVALID_ARGUMENT, "a request with this id is in flight");
        }
        if self.handling.len() >= self.config.requests_max {
            return reject(wire::RESOURCE_EXHAUSTED, "too many requests in flight");
        }
        self.handling.insert(id.clone());
        Effect::HandleRequest { id, method, payload }
    }

    fn on_response(&mut self, id: &str, outcome: Result<Value, Status>, now: Instant) -> Option<Effect<W>> {
        if self.config.role == Role::Client
            && let Some(number) = id.strip_prefix('h').and_then(parse_number)
        {
            return self.on_heartbeat_response(number, now);
        }
        let warning = match self.parse_own_id(id).filter(|number| *number < self.next_request) {
            None => Warning::UnknownResponse,
            Some(number) => match self.pending.remove(&number) {
                Some(request) => return Some(Effect::Complete(request.waiter, outcome)),
                None if self.expired.contains(&number) => Warning::StaleResponse,
                None => Warning::DuplicateResponse,
            },
        };
        Some(Effect::Warn(warning))
    }

    /// Any response shows that the peer is alive, an error too.
    fn on_heartbeat_response(&mut self, number: u64, now: Instant) -> Option<Effect<W>> {
        match self.heartbeat {
            HeartbeatState::AwaitingResponse { number: awaited, .. } if awaited == number => {
                self.heartbeat = HeartbeatState::DueAt(now + self.config.heartbeat.interval);
                None
            }
            _ if number < self.next_heartbeat => Some(Effect::Warn(Warning::DuplicateResponse)),
            _ => Some(Effect::Warn(Warning::UnknownResponse)),
        }
    }

    /// Fails the request that the response belongs to. The endpoint does not report the error to
    /// the peer, which may have a request of its own in flight under the same id.
    fn on_invalid_response(&mut self, id: &str, reason: &str, now: Instant) -> Vec<Effect<W>> {
        let status = Status::new(wire::INTERNAL, format!("malformed response: {reason}"));
        let completed = self.on_response(id, Err(status), now);
        [Effect::Warn(Warning::InvalidEnvelope)].into_iter().chain(completed).collect()
    }

    /// An endpoint responds with an error if the frame has a usable id. A client closes the
    /// connection, as the specification requires.
    fn on_invalid(&mut self, id: Option<String>, reason: &'static str) -> Vec<Effect<W>> {
        let warning = Effect::Warn(Warning::InvalidEnvelope);
        match (self.config.role, id) {
            (Role::Endpoint, Some(id)) => {
                let status = Status::new(wire::INVALID_ARGUMENT, reason);
                vec![warning, Effect::Send(wire::encode_response(&id, &Err(status)))]
            }
            (Role::Endpoint, None) | (Role::Client, _) => vec![warning, Effect::Close(1002, reason)],
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let heartbeat = match self.heartbeat {
            HeartbeatState::Off => None,
            HeartbeatState::DueAt(at) | HeartbeatState::AwaitingResponse { deadline: at, .. } => Some(at),
        };
        self.pending.values().map(|request| request.deadline).chain(heartbeat).min()
    }

    pub(super) fn on_wake(&mut self, now: Instant) -> Vec<Effect<W>> {
        let mut effects = self.expire_requests(now);
        match self.heartbeat {
            HeartbeatState::DueAt(at) if at <= now => {
                let number = self.next_heartbeat;
                self.next_heartbeat += 1;
                let deadline = now + self.config.heartbeat.timeout;
                self.heartbeat = HeartbeatState::AwaitingResponse { number, deadline };
                effects.push(Effect::Send(wire::encode_request(
                    &format!("h{number}"),
                    HEARTBEAT,
                    &json!({}),
                )));
            }
            HeartbeatState::AwaitingResponse { deadline, .. } if deadline <= now => {
                self.heartbeat = HeartbeatState::Off;
                effects.push(Effect::Warn(Warning::HeartbeatTimeout));
                effects.push(Effect::Close(4000, "heartbeat timeout"));
            }
            HeartbeatState::Off | HeartbeatState::DueAt(_) | HeartbeatState::AwaitingResponse { .. } => {}
        }
        effects
    }

    fn expire_requests(&mut self, now: Instant) -> Vec<Effect<W>> {
        let late: Vec<(u64, PendingRequest<W>)> =
            self.pending.extract_if(.., |_, request| request.deadline <= now).collect();
        late.into_iter()
            .map(|(number, request)| {
                self.record_expired(number);
                let message = format!("timeout after {}ms", request.timeout.as_millis());
                Effect::Complete(request.waiter, Err(Status::new(wire::DEADLINE_EXCEEDED, message)))
            })
            .collect()
    }

    fn record_expired(&mut self, number: u64) {
        if self.expired.len() >= EXPIRED_REQUESTS_MAX {
            self.expired.pop_front();
        }
        self.expired.push_back(number);
    }

    fn format_id(&self, number: u64) -> String {
        match self.config.role {
            Role::Endpoint => format!("s{number}"),
            Role::Client => number.to_string(),
        }
    }

    fn parse_own_id(&self, id: &str) -> Option<u64> {
        match self.config.role {
            Role::Endpoint => parse_number(id.strip_prefix('s')?),
            Role::Client => parse_number(id),
        }
    }
}

/// Accepts only the form that [`Machine::format_id`] writes: `07` and `+7` are not ids of ours.
fn parse_number(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits && *number > 0)
}

#[cfg(test)]
mod tests;
