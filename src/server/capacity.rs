//! How many connections there may be, and giving memory back when many are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::ServerState;
use crate::budget::ConnectionBudget;
use crate::runtime::shard::Weight;

/// Sessions that have to be gone since the last time before memory is given back: fewer are not worth the walk.
const SESSIONS_GONE_MIN: usize = 64;

/// How often memory is given back at most. It takes a lock on the allocator, for milliseconds.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// The open connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Arc<AtomicUsize>,
    most: usize,
    numbered: AtomicUsize,
}

/// One open connection, as long as it lives.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// Room for `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Arc::default(), most, numbered: AtomicUsize::new(0) }
    }

    /// A number for the logs.
    pub(crate) fn next_number(&self) -> usize {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Room for one more, if there is.
    pub(crate) fn admit(&self) -> Option<ConnectionSlot> {
        let slot = ConnectionSlot(Arc::clone(&self.open));
        // Counted first and given back by the slot, so that two at once cannot both take the last place.
        (self.open.fetch_add(1, Ordering::Relaxed) < self.most).then_some(slot)
    }
}

/// A connection's place on its shard; it goes with the connection through an upgrade.
#[derive(Clone)]
pub(crate) struct Placed(
    #[expect(dead_code, reason = "held, not read")] pub(super) Arc<(Weight, ConnectionSlot)>,
);

impl ServerState {
    /// The budget of a new connection.
    pub(crate) fn connection_budget(&self) -> Arc<ConnectionBudget> {
        let limits = self.directory.limits();
        ConnectionBudget::new(&self.budget, limits.connection_bytes_max, limits.message_bytes_max)
    }
}

/// Decides when memory goes back to the system. Allocators keep what was freed; after a wave of sessions that is most of
/// what they have.
#[derive(Debug)]
pub(crate) struct Trimmer {
    most: usize,
    trimmed_at: Instant,
}

impl Trimmer {
    /// Nothing to give back yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { most: 0, trimmed_at: now }
    }

    /// Whether enough of the sessions are gone for memory to be given back. `most` of them lived since it was asked last:
    /// a wave may come and go in between.
    pub(crate) fn is_due(&mut self, most: usize, sessions: usize, now: Instant) -> bool {
        self.most = self.most.max(most).max(sessions);
        let is_worth_it = self.most - sessions >= SESSIONS_GONE_MIN;
        let is_due = is_worth_it && now.saturating_duration_since(self.trimmed_at) >= TRIM_EVERY;
        if is_due {
            self.most = sessions;
            self.trimmed_at = now;
        }
        is_due
    }
}

/// Gives memory back that the whole process has freed; that of JavaScript worlds is each shard's own to give.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the allocator's own locks and may be called by any thread at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_too_many_is_not_admitted_until_another_ends() {
        let connections = Connections::new(2);
        let first = connections.admit();
        let _second = connections.admit().unwrap();
        assert!(connections.admit().is_none());
        assert_eq!(connections.open(), 2);
        drop(first);
        assert!(connections.admit().is_some());
    }

    #[test]
    fn memory_is_given_back_after_many_sessions_and_not_too_often() {
        let start = Instant::now();
        let later = start + TRIM_EVERY;
        let mut trimmer = Trimmer::new(start);
        assert!(!trimmer.is_due(200, 200, later));
        assert!(!trimmer.is_due(200, 200 - SESSIONS_GONE_MIN + 1, later));
        assert!(trimmer.is_due(200, 200 - SESSIONS_GONE_MIN, later));
        assert!(!trimmer.is_due(0, 0, later));
        assert!(trimmer.is_due(0, 0, later + TRIM_EVERY));
    }

    #[test]
    fn a_wave_that_came_and_went_between_two_looks_is_seen() {
        let start = Instant::now();
        let mut trimmer = Trimmer::new(start);
        assert!(!trimmer.is_due(SESSIONS_GONE_MIN - 1, 0, start + TRIM_EVERY));
        assert!(trimmer.is_due(SESSIONS_GONE_MIN, 0, start + TRIM_EVERY));
    }
}
