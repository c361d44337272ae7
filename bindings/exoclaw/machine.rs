//! The gateway's side of one connection, without I/O: the token, the hello frame, and the queue of
//! requests.
//!
//! The requests of a connection are served in order, so that a `status` sent after a chat includes
//! that chat. Only `ping` is answered immediately, because it asks whether the gateway is alive.
//! The queue is bounded; a request past the limit is rejected immediately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::wire::{self, Call, Event, Methods, Request};

/// How long a client may take to send its token.
/// The slowest network needs a tenth of it, and an idle connection must not stay open.
pub(super) const AUTH_MS_MAX: u64 = 30_000;

/// Most requests of one connection that wait for an earlier one.
/// A person never has that many in flight. A program that pipelines more gets an error for each
/// excess request.
pub(super) const REQUESTS_QUEUED_MAX: usize = 256;

/// Most bytes of these requests together, as much as the longest single message.
pub(super) const REQUESTS_QUEUED_BYTES_MAX: usize = 16 << 20;

/// What the driver has to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Send(String),
    /// The last effect of a machine.
    Close,
    /// Serve a call, and pass its progress to [`Machine::on_progress`] under this number.
    StartJob {
        job: u64,
        call: Call,
    },
}

/// The output of a job, which ends with [`Event::Done`] or a response.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    Event(Event),
    Response(Result<Value, String>),
}

impl Progress {
    fn is_last(&self) -> bool {
        match self {
            Self::Event(event) => *event == Event::Done,
            Self::Response(_) => true,
        }
    }

    fn encode(&self, id: &str) -> String {
        match self {
            Self::Event(event) => event.encode(id),
            Self::Response(outcome) => wire::encode_response(id, outcome),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Machine {
    phase: Phase,
    methods: Methods,
    jobs_started: u64,
}

#[derive(Debug)]
enum Phase {
    AwaitingToken { expected: Arc<str>, deadline: Option<Instant> },
    Live { running: Option<RunningJob>, queue: RequestQueue },
    Closed,
}

#[derive(Debug)]
struct RunningJob {
    job: u64,
    id: String,
}

impl Machine {
    /// With a `token`, the client has to send it first.
    pub(crate) fn new(token: Option<Arc<str>>, methods: Methods) -> Self {
        let phase = match token {
            Some(expected) => Phase::AwaitingToken { expected, deadline: None },
            None => Phase::Live { running: None, queue: RequestQueue::default() },
        };
        Self { phase, methods, jobs_started: 0 }
    }

    pub(crate) fn on_open(&mut self, now: Instant) -> Vec<Effect> {
        match &mut self.phase {
            Phase::AwaitingToken { deadline, .. } => {
                *deadline = Some(now + Duration::from_millis(AUTH_MS_MAX));
                Vec::new()
            }
            Phase::Live { .. } => vec![Effect::Send(wire::hello_frame())],
            Phase::Closed => Vec::new(),
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::AwaitingToken { deadline, .. } => *deadline,
            Phase::Live { .. } | Phase::Closed => None,
        }
    }

    pub(crate) fn on_wake(&mut self, now: Instant) -> Vec<Effect> {
        if self.wake_at().is_some_and(|deadline| deadline <= now) { self.fail_auth() } else { Vec::new() }
    }

    pub(crate) fn on_text(&mut self, text: &str) -> Vec<Effect> {
        match &mut self.phase {
            Phase::AwaitingToken { expected, .. } => {
                if !token_matches(wire::parse_token(text).as_deref(), expected) {
                    return self.fail_auth();
                }
                self.phase = Phase::Live { running: None, queue: RequestQueue::default() };
                vec![Effect::Send(wire::hello_frame())]
            }
            Phase::Live { .. } => self.on_request(text),
            Phase::Closed => Vec::new(),
        }
    }

    /// A binary frame is not a token; after authentication it is ignored.
    pub(crate) fn on_binary(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::AwaitingToken { .. } => self.fail_auth(),
            Phase::Live { .. } | Phase::Closed => Vec::new(),
        }
    }

    /// Progress of a job that has ended is ignored.
    pub(crate) fn on_progress(&mut self, job: u64, progress: &Progress) -> Vec<Effect> {
        let Phase::Live { running, .. } = &mut self.phase else {
            return Vec::new();
        };
        let Some(current) = running.as_ref().filter(|current| current.job == job) else {
            return Vec::new();
        };
        let mut effects = vec![Effect::Send(progress.encode(&current.id))];
        if progress.is_last() {
            *running = None;
            self.serve_queue(&mut effects);
        }
        effects
    }

    fn fail_auth(&mut self) -> Vec<Effect> {
        self.phase = Phase::Closed;
        vec![Effect::Send(wire::auth_failed_frame()), Effect::Close]
    }

    fn on_request(&mut self, text: &str) -> Vec<Effect> {
        let entry = match Request::parse(text) {
            Ok(request) => {
                let id = request.id.clone();
                match request.into_call(self.methods) {
                    Ok(Call::Ping) => {
                        return vec![Effect::Send(wire::encode_response(&id, &Ok(json!("pong"))))];
                    }
                    Ok(call) => QueuedRequest::Call { id, call },
                    Err(error) => QueuedRequest::Invalid(wire::encode_response(&id, &Err(error))),
                }
            }
            Err(error) => QueuedRequest::Invalid(wire::encode_response(wire::UNREADABLE_ID, &Err(error))),
        };
        let Phase::Live { queue, .. } = &mut self.phase else {
            return Vec::new();
        };
        if let Err(rejection) = queue.push(entry, text.len()) {
            return vec![Effect::Send(rejection)];
        }
        let mut effects = Vec::new();
        self.serve_queue(&mut effects);
        effects
    }

    /// Sends queued responses up to the next call, and starts its job.
    fn serve_queue(&mut self, effects: &mut Vec<Effect>) {
        let Phase::Live { running, queue } = &mut self.phase else {
            return;
        };
        while running.is_none()
            && let Some(entry) = queue.pop()
        {
            match entry {
                QueuedRequest::Invalid(frame) => effects.push(Effect::Send(frame)),
                QueuedRequest::Call { id, call } => {
                    self.jobs_started += 1;
                    *running = Some(RunningJob { job: self.jobs_started, id });
                    effects.push(Effect::StartJob { job: self.jobs_started, call });
                }
            }
        }
    }
}

fn token_matches(token: Option<&str>, expected: &str) -> bool {
    token.is_some_and(|token| bool::from(token.as_bytes().ct_eq(expected.as_bytes())))
}

#[derive(Debug)]
enum QueuedRequest {
    /// The error response is ready, but is sent in order.
    Invalid(String),
    Call {
        id: String,
        call: Call,
    },
}

impl QueuedRequest {
    /// The response if the queue is full.
    fn rejection(&self) -> String {
        match self {
            Self::Invalid(frame) => frame.clone(),
            Self::Call { id, .. } => {
                wire::encode_response(id, &Err("too many requests are waiting".to_owned()))
            }
        }
    }
}

/// Requests that wait for an earlier one, each with the length of its frame.
#[derive(Debug, Default)]
struct RequestQueue {
    entries: VecDeque<(QueuedRequest, usize)>,
    bytes: usize,
}

impl RequestQueue {
    /// If the queue is full, the error is the frame that rejects the request.
    fn push(&mut self, entry: QueuedRequest, bytes: usize) -> Result<(), String> {
        let fits = self.entries.len() < REQUESTS_QUEUED_MAX
            && (self.entries.is_empty() || self.bytes.saturating_add(bytes) <= REQUESTS_QUEUED_BYTES_MAX);
        if !fits {
            return Err(entry.rejection());
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.push_back((entry, bytes));
        Ok(())
    }

    fn pop(&mut self) -> Option<QueuedRequest> {
        let (entry, bytes) = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
