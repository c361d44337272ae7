//! The evals of a session: strictly one after the other, in the order received.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WallClock;
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Kind};
use crate::session::{Requester, Stop, Time};

/// The code of an eval and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EvalSource {
    /// As the client sent it.
    pub code: String,
    /// The file name in stack traces.
    pub name: String,
    /// Whether its declarations are forgotten.
    pub fresh: bool,
}

/// An eval that waits for its turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueuedEval {
    /// The requests that get the answer: more than one when a keyed eval was sent again meanwhile.
    pub requesters: Vec<Requester>,
    /// The code and how it is to run.
    pub params: EvalParams,
    /// Whether the host counts it towards the principal's quota of waiting evals.
    pub has_slot: bool,
}

/// The eval that runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunningEval {
    /// Evals are numbered from 1.
    pub number: u64,
    /// The requests that get the answer.
    pub requesters: Vec<Requester>,
    /// What runs. It may be a large part of a message, so it is shared with the turn.
    pub source: Arc<EvalSource>,
    /// How it is to run, without the code and its name.
    pub params: EvalParams,
    /// When it began.
    pub started: Time,
    /// Time by the clock.
    pub clock: WallClock,
    /// CPU time used so far.
    pub cpu: Duration,
    /// Set when it is to end as soon as the JavaScript stack is empty.
    pub stop_requested: Option<Stop>,
    /// Where it was when its turn was ended, as a stack trace.
    pub stopped_at: Option<String>,
}

/// The queue and the eval that runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EvalQueue {
    queue: VecDeque<QueuedEval>,
    /// The eval that runs.
    pub running: Option<RunningEval>,
    /// How many evals have ended.
    pub done: u64,
    last_number: u64,
    last_started: Time,
    queued_max: usize,
    queued_bytes_max: usize,
}

impl EvalQueue {
    /// Nothing runs, room for `queued_max` that wait, with code of `queued_bytes_max`.
    pub(crate) fn new(queued_max: usize, queued_bytes_max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            running: None,
            done: 0,
            last_number: 0,
            last_started: Time::default(),
            queued_max,
            queued_bytes_max,
        }
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether a further eval would have to wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.queue.is_empty()
    }

    /// Whether one more may wait.
    pub(crate) fn check_room(&self) -> Result<(), ErrorObject> {
        if self.queue.len() >= self.queued_max {
            let message = format!("{} evals are waiting already", self.queued_max);
            return Err(ErrorObject::new(Kind::QueueFull, message));
        }
        // A connection's own budget comes first; this bounds what several connections leave behind, one after another.
        let bytes: usize = self.queue.iter().map(|queued| queued.params.code.len()).sum();
        if bytes > self.queued_bytes_max {
            let message = format!("the evals that wait take more than {} bytes", self.queued_bytes_max);
            return Err(ErrorObject::new(Kind::QueueFull, message));
        }
        Ok(())
    }

    /// Adds one at the end.
    pub(crate) fn push(&mut self, eval: QueuedEval) {
        self.queue.push_back(eval);
    }

    /// The requests of the eval with that key, running or waiting.
    pub(crate) fn requesters_of(&mut self, key: &str) -> Option<&mut Vec<Requester>> {
        let has_key = |params: &EvalParams| params.key.as_deref() == Some(key);
        if let Some(running) = self.running.as_mut().filter(|running| has_key(&running.params)) {
            return Some(&mut running.requesters);
        }
        self.queue.iter_mut().find(|queued| has_key(&queued.params)).map(|queued| &mut queued.requesters)
    }

    /// When the last eval began.
    pub(crate) fn last_started(&self) -> Time {
        self.last_started
    }

    /// Takes the next one and the number that it runs under, from `now` on.
    pub(crate) fn next(&mut self, now: Time) -> Option<(u64, QueuedEval)> {
        let next = self.queue.pop_front()?;
        self.last_started = now;
        self.last_number += 1;
        Some((self.last_number, next))
    }

    /// Takes those out of the queue of which `is_meant` accepts a request.
    pub(crate) fn remove(&mut self, is_meant: impl Fn(&Requester) -> bool) -> Vec<QueuedEval> {
        let queue = std::mem::take(&mut self.queue);
        let (removed, kept): (Vec<_>, Vec<_>) =
            queue.into_iter().partition(|queued| queued.requesters.iter().any(&is_meant));
        self.queue = kept.into();
        removed
    }
}
