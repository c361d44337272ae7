//! A gateway's side of one connection: the token, the hello, and requests that are served one after another.
//!
//! Requests of a connection are served in order, and what is asked after a chat is answered after it: a client that
//! sends `status` behind a chat wants to know of that chat. `ping` alone overtakes, because it asks whether somebody is
//! there. What waits is bounded, and whatever exceeds that is refused at once, under its own id.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::wire::{self, Call, Event, Methods, Request};

/// How long a client may take for its token.
/// The slowest network needs a tenth of it, and a connection that says nothing must not stay.
pub(super) const AUTH_MS_MAX: u64 = 30_000;

/// Requests of one connection that wait for the one before them.
/// No person has so many messages in flight; a program that pipelines more is told so under the request's id.
pub(super) const REQUESTS_WAITING_MAX: usize = 256;

/// What these may weigh together: as much as the longest single message.
pub(super) const REQUESTS_WAITING_BYTES_MAX: usize = 16 << 20;

/// What the driver does for the machine.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send a frame.
    Send(String),
    /// Close the connection; nothing comes after it.
    Close,
    /// Serve a call, and report its progress under this number until it ends.
    Begin { job: u64, call: Call },
}

/// What a job reports. It ends with [`Event::Done`] or with an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    Event(Event),
    Answer(Result<Value, String>),
}

impl Progress {
    fn is_last(&self) -> bool {
        match self {
            Self::Event(event) => *event == Event::Done,
            Self::Answer(_) => true,
        }
    }

    fn frame(&self, id: &str) -> String {
        match self {
            Self::Event(event) => event.frame(id),
            Self::Answer(outcome) => wire::answer(id, outcome),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Machine {
    phase: Phase,
    methods: Methods,
    jobs_begun: u64,
}

#[derive(Debug)]
enum Phase {
    AwaitingToken { expected: Arc<str>, until: Option<Instant> },
    Live { running: Option<Running>, waiting: Waiting },
    Closed,
}

#[derive(Debug)]
struct Running {
    job: u64,
    id: String,
}

impl Machine {
    /// A connection that has to give `token`, if there is one.
    pub(crate) fn new(token: Option<Arc<str>>, methods: Methods) -> Self {
        let phase = match token {
            Some(expected) => Phase::AwaitingToken { expected, until: None },
            None => Phase::Live { running: None, waiting: Waiting::default() },
        };
        Self { phase, methods, jobs_begun: 0 }
    }

    /// The connection is there.
    pub(crate) fn on_open(&mut self, now: Instant) -> Vec<Effect> {
        match &mut self.phase {
            Phase::AwaitingToken { until, .. } => {
                *until = Some(now + Duration::from_millis(AUTH_MS_MAX));
                Vec::new()
            }
            Phase::Live { .. } => vec![Effect::Send(wire::hello())],
            Phase::Closed => Vec::new(),
        }
    }

    /// When [`Self::on_wake`] has something to do.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::AwaitingToken { until, .. } => *until,
            Phase::Live { .. } | Phase::Closed => None,
        }
    }

    /// Time has passed.
    pub(crate) fn on_wake(&mut self, now: Instant) -> Vec<Effect> {
        if self.wake_at().is_some_and(|until| until <= now) { self.refuse() } else { Vec::new() }
    }

    /// A text frame came in.
    pub(crate) fn on_text(&mut self, text: &str) -> Vec<Effect> {
        match &mut self.phase {
            Phase::AwaitingToken { expected, .. } => {
                if !is_token(wire::token_of(text).as_deref(), expected) {
                    return self.refuse();
                }
                self.phase = Phase::Live { running: None, waiting: Waiting::default() };
                vec![Effect::Send(wire::hello())]
            }
            Phase::Live { .. } => self.on_request(text),
            Phase::Closed => Vec::new(),
        }
    }

    /// A binary frame came in: no token, and later nothing at all.
    pub(crate) fn on_binary(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::AwaitingToken { .. } => self.refuse(),
            Phase::Live { .. } | Phase::Closed => Vec::new(),
        }
    }

    /// A job got further. What comes from one that has ended is of no interest.
    pub(crate) fn on_progress(&mut self, job: u64, progress: &Progress) -> Vec<Effect> {
        let Phase::Live { running, .. } = &mut self.phase else {
            return Vec::new();
        };
        let Some(current) = running.as_ref().filter(|current| current.job == job) else {
            return Vec::new();
        };
        let mut effects = vec![Effect::Send(progress.frame(&current.id))];
        if progress.is_last() {
            *running = None;
            self.serve_waiting(&mut effects);
        }
        effects
    }

    fn refuse(&mut self) -> Vec<Effect> {
        self.phase = Phase::Closed;
        vec![Effect::Send(wire::auth_failed()), Effect::Close]
    }

    fn on_request(&mut self, text: &str) -> Vec<Effect> {
        let entry = match Request::read(text) {
            Ok(request) => {
                let id = request.id.clone();
                match request.call(self.methods) {
                    Ok(Call::Ping) => return vec![Effect::Send(wire::answer(&id, &Ok(json!("pong"))))],
                    Ok(call) => Entry::Call { id, call },
                    Err(error) => Entry::Answer(wire::answer(&id, &Err(error))),
                }
            }
            Err(error) => Entry::Answer(wire::answer(wire::UNREADABLE_ID, &Err(error))),
        };
        let Phase::Live { waiting, .. } = &mut self.phase else {
            return Vec::new();
        };
        if let Err(refused) = waiting.push(entry, text.len()) {
            return vec![Effect::Send(refused)];
        }
        let mut effects = Vec::new();
        self.serve_waiting(&mut effects);
        effects
    }

    /// Answers what needs no work, up to the next call that does.
    fn serve_waiting(&mut self, effects: &mut Vec<Effect>) {
        let Phase::Live { running, waiting } = &mut self.phase else {
            return;
        };
        while running.is_none()
            && let Some(entry) = waiting.pop()
        {
            match entry {
                Entry::Answer(frame) => effects.push(Effect::Send(frame)),
                Entry::Call { id, call } => {
                    self.jobs_begun += 1;
                    *running = Some(Running { job: self.jobs_begun, id });
                    effects.push(Effect::Begin { job: self.jobs_begun, call });
                }
            }
        }
    }
}

fn is_token(given: Option<&str>, expected: &str) -> bool {
    given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(expected.as_bytes())))
}

#[derive(Debug)]
enum Entry {
    /// Needs no work, only its turn.
    Answer(String),
    Call {
        id: String,
        call: Call,
    },
}

impl Entry {
    /// The answer to a request for which there is no room.
    fn refusal(&self) -> String {
        match self {
            Self::Answer(frame) => frame.clone(),
            Self::Call { id, .. } => wire::answer(id, &Err("too many requests are waiting".to_owned())),
        }
    }
}

/// What waits for its turn, with what it weighed when it came in.
#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<(Entry, usize)>,
    bytes: usize,
}

impl Waiting {
    /// The error is the frame that refuses it.
    fn push(&mut self, entry: Entry, bytes: usize) -> Result<(), String> {
        let fits = self.entries.len() < REQUESTS_WAITING_MAX
            && (self.entries.is_empty() || self.bytes.saturating_add(bytes) <= REQUESTS_WAITING_BYTES_MAX);
        if !fits {
            return Err(entry.refusal());
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.push_back((entry, bytes));
        Ok(())
    }

    fn pop(&mut self) -> Option<Entry> {
        let (entry, bytes) = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
