//! One side of a holon-web connection. Both sides ask and answer, so one machine serves both; the role decides how our
//! ids look, who sends heartbeats, and how a broken frame is met.
//!
//! Our ids are numbers in disguise, so what became of one is known without a list of all that ever were: below the
//! next number it was asked, and of those only what went unanswered is remembered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{self, Envelope, Fault, Status};

/// Unanswered requests that are remembered, to tell a late answer from a second one.
/// As many as the real client keeps; older ones count as answered.
const UNANSWERED_KEPT_MAX: usize = 1024;

/// The method that only asks for a sign of life.
pub(super) const HEARTBEAT: &str = "holon-web/Heartbeat";

/// Which side of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It was dialled: ids `s1`, `s2`…
    Endpoint,
    /// It dialled: ids `1`, `2`…, and heartbeats `h1`, `h2`…
    Client,
}

/// What a machine is held to.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) role: Role,
    /// Requests of ours that wait for an answer.
    pub(super) asked_max: usize,
    /// Requests of the peer that are being served.
    pub(super) served_max: usize,
    /// How often a client asks for a sign of life, and how long it waits for it.
    pub(super) heartbeat: (Duration, Duration),
}

/// Something that is worth counting; the connection lives on unless an [`Effect::Close`] says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Warning {
    UnknownResponse,
    DuplicateResponse,
    StaleResponse,
    MalformedJson,
    InvalidEnvelope,
    HeartbeatTimeout,
}

/// What is to be done. `W` is whoever waits for an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Effect<W> {
    Send(String),
    Close(u16, &'static str),
    /// The peer asks; the answer goes to [`Machine::answer`].
    Serve {
        id: String,
        method: String,
        payload: Value,
    },
    /// A request of ours is over.
    Settled(W, Result<Value, Status>),
    Warn(Warning),
}

struct Asked<W> {
    waiter: W,
    deadline: Instant,
    timeout: Duration,
}

enum Heartbeat {
    None,
    DueAt(Instant),
    SentAs(u64, Instant),
}

/// See the module.
pub(super) struct Machine<W> {
    terms: Terms,
    asked: HashMap<u64, Asked<W>>,
    asked_next: u64,
    /// Numbers that went unanswered, oldest first.
    unanswered: VecDeque<u64>,
    served: HashSet<String>,
    heartbeat: Heartbeat,
    heartbeat_next: u64,
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
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            asked: HashMap::new(),
            asked_next: 1,
            unanswered: VecDeque::new(),
            served: HashSet::new(),
            heartbeat: Heartbeat::None,
            heartbeat_next: 1,
        }
    }

    /// The connection is up.
    pub(super) fn on_open(&mut self, now: Instant) {
        if self.terms.role == Role::Client {
            self.heartbeat = Heartbeat::DueAt(now + self.terms.heartbeat.0);
        }
    }

    /// The connection is gone: nobody answers any more, and nobody wants our answers.
    pub(super) fn on_end(&mut self) -> Vec<Effect<W>> {
        self.served.clear();
        self.heartbeat = Heartbeat::None;
        let lost: Vec<(u64, Asked<W>)> = self.asked.drain().collect();
        lost.into_iter()
            .map(|(number, asked)| {
                self.note_unanswered(number);
                Effect::Settled(asked.waiter, Err(Status::new(wire::UNAVAILABLE, "connection closed")))
            })
            .collect()
    }

    /// Asks the peer.
    pub(super) fn ask(
        &mut self,
        method: &str,
        payload: &Value,
        timeout: Duration,
        waiter: W,
        now: Instant,
    ) -> Effect<W> {
        if self.asked.len() >= self.terms.asked_max {
            let message = format!("max pending requests exceeded ({})", self.terms.asked_max);
            return Effect::Settled(waiter, Err(Status::new(wire::RESOURCE_EXHAUSTED, message)));
        }
        let number = self.asked_next;
        self.asked_next += 1;
        self.asked.insert(number, Asked { waiter, deadline: now + timeout, timeout });
        Effect::Send(wire::request(&self.id_of(number), method, payload))
    }

    /// Answers a request of the peer, unless that was given up with its connection.
    pub(super) fn answer(&mut self, id: &str, outcome: &Result<Value, Status>) -> Option<Effect<W>> {
        self.served.remove(id).then(|| Effect::Send(wire::response(id, outcome)))
    }

    pub(super) fn on_text(&mut self, text: &str, now: Instant) -> Vec<Effect<W>> {
        match wire::read(text) {
            Ok(Envelope::Request { id, method, payload }) => vec![self.on_request(id, method, payload)],
            Ok(Envelope::Response { id, outcome }) => {
                self.on_response(&id, outcome, now).into_iter().collect()
            }
            Ok(Envelope::Bare { id }) => match self.on_response(&id, Ok(Value::Null), now) {
                // An id of our kind is an answer that came too late, to a connection before this one.
                Some(Effect::Warn(Warning::UnknownResponse))
                    if self.terms.role == Role::Client || self.our_number(&id).is_none() =>
                {
                    self.on_invalid(Some(id), "neither method nor result nor error")
                }
                effect => effect.into_iter().collect(),
            },
            Err(Fault::Malformed) => {
                vec![Effect::Warn(Warning::MalformedJson), Effect::Close(1002, "malformed JSON")]
            }
            Err(Fault::Invalid { id: Some(id), is_response: true, why })
                if self.terms.role == Role::Endpoint =>
            {
                self.on_invalid_response(&id, why, now)
            }
            Err(Fault::Invalid { id, why, .. }) => self.on_invalid(id, why),
        }
    }

    fn on_request(&mut self, id: String, method: String, payload: Value) -> Effect<W> {
        let refused = |code, message: &str| {
            Effect::Send(wire::response(&id, &Err(Status::new(code, message.to_owned()))))
        };
        if method == HEARTBEAT {
            return Effect::Send(wire::response(&id, &Ok(json!({}))));
        }
        if self.served.contains(&id) {
            return refused(wire::INVALID_ARGUMENT, "a request with this id is in flight");
        }
        if self.served.len() >= self.terms.served_max {
            return refused(wire::RESOURCE_EXHAUSTED, "too many requests in flight");
        }
        self.served.insert(id.clone());
        Effect::Serve { id, method, payload }
    }

    fn on_response(&mut self, id: &str, outcome: Result<Value, Status>, now: Instant) -> Option<Effect<W>> {
        if self.terms.role == Role::Client
            && let Some(number) = id.strip_prefix('h').and_then(number_of)
        {
            return self.on_heartbeat_answer(number, now);
        }
        let warning = match self.our_number(id).filter(|number| *number < self.asked_next) {
            None => Warning::UnknownResponse,
            Some(number) => match self.asked.remove(&number) {
                Some(asked) => return Some(Effect::Settled(asked.waiter, outcome)),
                None if self.unanswered.contains(&number) => Warning::StaleResponse,
                None => Warning::DuplicateResponse,
            },
        };
        Some(Effect::Warn(warning))
    }

    /// Any answer is a sign of life, an error too.
    fn on_heartbeat_answer(&mut self, number: u64, now: Instant) -> Option<Effect<W>> {
        match self.heartbeat {
            Heartbeat::SentAs(sent, _) if sent == number => {
                self.heartbeat = Heartbeat::DueAt(now + self.terms.heartbeat.0);
                None
            }
            _ if number < self.heartbeat_next => Some(Effect::Warn(Warning::DuplicateResponse)),
            _ => Some(Effect::Warn(Warning::UnknownResponse)),
        }
    }

    /// Fails the request that it answers. It is never answered itself: under its id the peer may have a request of
    /// its own in flight.
    fn on_invalid_response(&mut self, id: &str, why: &str, now: Instant) -> Vec<Effect<W>> {
        let status = Status::new(wire::INTERNAL, format!("malformed response: {why}"));
        let settled = self.on_response(id, Err(status), now);
        [Effect::Warn(Warning::InvalidEnvelope)].into_iter().chain(settled).collect()
    }

    /// An endpoint tells whoever can be told; a client hangs up, as the specification has it.
    fn on_invalid(&mut self, id: Option<String>, why: &'static str) -> Vec<Effect<W>> {
        let warning = Effect::Warn(Warning::InvalidEnvelope);
        match (self.terms.role, id) {
            (Role::Endpoint, Some(id)) => {
                let status = Status::new(wire::INVALID_ARGUMENT, why);
                vec![warning, Effect::Send(wire::response(&id, &Err(status)))]
            }
            (Role::Endpoint, None) | (Role::Client, _) => vec![warning, Effect::Close(1002, why)],
        }
    }

    /// When something is due.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let heartbeat = match self.heartbeat {
            Heartbeat::None => None,
            Heartbeat::DueAt(at) | Heartbeat::SentAs(_, at) => Some(at),
        };
        self.asked.values().map(|asked| asked.deadline).chain(heartbeat).min()
    }

    pub(super) fn on_wake(&mut self, now: Instant) -> Vec<Effect<W>> {
        let mut effects = self.time_out(now);
        match self.heartbeat {
            Heartbeat::DueAt(at) if at <= now => {
                let number = self.heartbeat_next;
                self.heartbeat_next += 1;
                self.heartbeat = Heartbeat::SentAs(number, now + self.terms.heartbeat.1);
                effects.push(Effect::Send(wire::request(&format!("h{number}"), HEARTBEAT, &json!({}))));
            }
            Heartbeat::SentAs(_, at) if at <= now => {
                self.heartbeat = Heartbeat::None;
                effects.push(Effect::Warn(Warning::HeartbeatTimeout));
                effects.push(Effect::Close(4000, "heartbeat timeout"));
            }
            Heartbeat::None | Heartbeat::DueAt(_) | Heartbeat::SentAs(..) => {}
        }
        effects
    }

    fn time_out(&mut self, now: Instant) -> Vec<Effect<W>> {
        let late: Vec<(u64, Asked<W>)> = self.asked.extract_if(|_, asked| asked.deadline <= now).collect();
        late.into_iter()
            .map(|(number, asked)| {
                self.note_unanswered(number);
                let message = format!("timeout after {}ms", asked.timeout.as_millis());
                Effect::Settled(asked.waiter, Err(Status::new(wire::DEADLINE_EXCEEDED, message)))
            })
            .collect()
    }

    fn note_unanswered(&mut self, number: u64) {
        if self.unanswered.len() >= UNANSWERED_KEPT_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(number);
    }

    fn id_of(&self, number: u64) -> String {
        match self.terms.role {
            Role::Endpoint => format!("s{number}"),
            Role::Client => number.to_string(),
        }
    }

    fn our_number(&self, id: &str) -> Option<u64> {
        match self.terms.role {
            Role::Endpoint => number_of(id.strip_prefix('s')?),
            Role::Client => number_of(id),
        }
    }
}

/// Only the digits that we write ourselves: `07` and `+7` are not ours.
fn number_of(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits && *number > 0)
}

#[cfg(test)]
mod tests;
