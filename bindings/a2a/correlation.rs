//! The requesters that wait for replies: a queue per agent connection and correlation id.
//!
//! A queue, because the reference client derives its ids from a millisecond clock and so may reuse
//! one. A reply that names its message (`parentId`) is matched by that; any other goes to the
//! oldest waiter.

use std::collections::{BTreeMap, VecDeque};

use super::ConnectionId;

/// Replies that may be pending at one agent connection; one more request gets 3003. An agent with
/// that many pending does not reply.
pub(crate) const REPLIES_PER_AGENT_MAX: usize = 1024;

/// Longest wait for a reply; the `ttl` of the message may be shorter. Then the requester gets 3004.
pub(crate) const REPLY_MS_MAX: u64 = 10 * 60 * 1000;

/// A requester that waits for the reply to one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplyWaiter {
    pub(crate) requester: ConnectionId,
    /// The sender in `from` of the message, to which the reply is addressed.
    pub(crate) sender: String,
    /// The agent that must reply.
    pub(crate) agent: String,
    pub(crate) message_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) correlation_id: String,
    pub(crate) expires_ms: u64,
}

/// The receiver that a reply names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyAddress<'a> {
    pub(crate) name: &'a str,
    /// The connection that has that name now.
    pub(crate) connection: Option<ConnectionId>,
}

/// The waiters by agent connection and correlation id; they fail in that order.
#[derive(Debug, Default)]
pub(crate) struct Correlations {
    waiters: BTreeMap<ConnectionId, BTreeMap<String, VecDeque<ReplyWaiter>>>,
}

impl Correlations {
    /// Returns whether one more reply may be pending at a connection.
    pub(crate) fn has_room(&self, at: ConnectionId) -> bool {
        let pending: usize =
            self.waiters.get(&at).map_or(0, |queues| queues.values().map(VecDeque::len).sum());
        pending < REPLIES_PER_AGENT_MAX
    }

    pub(crate) fn add(&mut self, at: ConnectionId, waiter: ReplyWaiter) {
        let queues = self.waiters.entry(at).or_default();
        queues.entry(waiter.correlation_id.clone()).or_default().push_back(waiter);
    }

    /// Removes and returns the waiter for a reply from connection `at`. `parent` is the message
    /// that the reply names, `to` its receiver. A receiver that matches no waiter, or whose name
    /// another connection has taken since, means that the frame is not a reply.
    pub(crate) fn take(
        &mut self,
        at: ConnectionId,
        correlation_id: &str,
        parent: Option<&str>,
        to: Option<ReplyAddress<'_>>,
    ) -> Option<ReplyWaiter> {
        let queues = self.waiters.get_mut(&at)?;
        let queue = queues.get_mut(correlation_id)?;
        let by_parent = parent.and_then(|id| queue.iter().position(|waiter| waiter.message_id == id));
        let by_address = || match to {
            Some(to) => queue.iter().position(|waiter| {
                waiter.sender == to.name
                    && to.connection.is_none_or(|connection| connection == waiter.requester)
            }),
            None => Some(0),
        };
        let found = queue.remove(by_parent.or_else(by_address)?)?;
        if queue.is_empty() {
            queues.remove(correlation_id);
        }
        if queues.is_empty() {
            self.waiters.remove(&at);
        }
        Some(found)
    }

    /// Removes and returns the waiters for an agent that has left a connection.
    pub(crate) fn take_for_agent(&mut self, at: ConnectionId, agent: &str) -> Vec<ReplyWaiter> {
        self.take_matching(|here, waiter| here == at && waiter.agent == agent)
    }

    /// Removes the waiters of a requester that has disconnected.
    pub(crate) fn remove_requester(&mut self, requester: ConnectionId) {
        self.take_matching(|_, waiter| waiter.requester == requester);
    }

    pub(crate) fn take_expired(&mut self, now_ms: u64) -> Vec<ReplyWaiter> {
        self.take_matching(|_, waiter| waiter.expires_ms <= now_ms)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    fn take_matching(
        &mut self,
        mut is_match: impl FnMut(ConnectionId, &ReplyWaiter) -> bool,
    ) -> Vec<ReplyWaiter> {
        let mut taken = Vec::new();
        self.waiters.retain(|at, queues| {
            queues.retain(|_, queue| {
                let (out, rest): (VecDeque<_>, VecDeque<_>) =
                    queue.drain(..).partition(|waiter| is_match(*at, waiter));
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
