//! Who waits for which answer: a queue for each pair of agent connection and correlation id.
//!
//! A queue and not a map with unique keys, because the reference client takes its ids from a clock of milliseconds and
//! so uses some twice. An answer that names what it answers is matched by that; any other goes to whoever waits longest.

use std::collections::{HashMap, VecDeque};

use super::ConnectionId;

/// Answers that one agent connection may owe; one more request gets 3003. An agent that owes this many does not answer.
pub(crate) const ANSWERS_OWED_MAX: usize = 1024;

/// How long an answer is waited for unless the message lives shorter. Then whoever asked gets 3004.
pub(crate) const ANSWER_MS_MAX: u64 = 10 * 60 * 1000;

/// Somebody who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) requester: ConnectionId,
    /// What the message called its sender.
    pub(crate) sender: String,
    /// Whom it was for.
    pub(crate) agent: String,
    pub(crate) message_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) correlation_id: String,
    pub(crate) expires_ms: u64,
}

/// Whom an answer is addressed to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address<'a> {
    pub(crate) name: &'a str,
    /// Who bears that name now, if anybody does.
    pub(crate) holder: Option<ConnectionId>,
}

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct Correlations {
    owed: HashMap<ConnectionId, HashMap<String, VecDeque<Waiting>>>,
}

impl Correlations {
    /// Whether an agent may be asked one more question.
    pub(crate) fn has_room(&self, at: ConnectionId) -> bool {
        let owed: usize = self.owed.get(&at).map_or(0, |queues| queues.values().map(VecDeque::len).sum());
        owed < ANSWERS_OWED_MAX
    }

    /// The agent at a connection was asked.
    pub(crate) fn open(&mut self, at: ConnectionId, waiting: Waiting) {
        let queues = self.owed.entry(at).or_default();
        queues.entry(waiting.correlation_id.clone()).or_default().push_back(waiting);
    }

    /// It answers: who gets it? `parent` is the message that the answer names, `to` whom it is addressed to. An
    /// address that fits nobody who waits is no answer at all, nor is one that is somebody else's by now.
    pub(crate) fn settle(
        &mut self,
        at: ConnectionId,
        correlation_id: &str,
        parent: Option<&str>,
        to: Option<Address<'_>>,
    ) -> Option<Waiting> {
        let queues = self.owed.get_mut(&at)?;
        let queue = queues.get_mut(correlation_id)?;
        let by_parent = parent.and_then(|id| queue.iter().position(|waiting| waiting.message_id == id));
        let by_address = || match to {
            Some(to) => queue.iter().position(|waiting| {
                waiting.sender == to.name && to.holder.is_none_or(|holder| holder == waiting.requester)
            }),
            None => Some(0),
        };
        let found = queue.remove(by_parent.or_else(by_address)?)?;
        if queue.is_empty() {
            queues.remove(correlation_id);
        }
        if queues.is_empty() {
            self.owed.remove(&at);
        }
        Some(found)
    }

    /// The agent no longer answers at that connection: everybody who waits for it there.
    pub(crate) fn abandon(&mut self, at: ConnectionId, agent: &str) -> Vec<Waiting> {
        self.take(|here, waiting| here == at && waiting.agent == agent)
    }

    /// Nobody is there any more to be answered.
    pub(crate) fn forget(&mut self, requester: ConnectionId) {
        self.take(|_, waiting| waiting.requester == requester);
    }

    /// Everybody who waited long enough.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Waiting> {
        self.take(|_, waiting| waiting.expires_ms <= now_ms)
    }

    /// Whether anybody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    fn take(&mut self, mut wanted: impl FnMut(ConnectionId, &Waiting) -> bool) -> Vec<Waiting> {
        let mut taken = Vec::new();
        self.owed.retain(|at, queues| {
            queues.retain(|_, queue| {
                let (out, rest): (VecDeque<_>, VecDeque<_>) =
                    queue.drain(..).partition(|waiting| wanted(*at, waiting));
                *queue = rest;
                taken.extend(out);
                !queue.is_empty()
            });
            !queues.is_empty()
        });
        taken
    }
}

#[cfg(test)]
mod tests;
