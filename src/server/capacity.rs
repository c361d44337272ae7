//! How many connections there may be, and the release of memory when many sessions have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::ServerState;
use crate::budget::ConnectionBudget;
use crate::runtime::shard::Weight;

/// Sessions that must have ended since the last release of memory: fewer are not worth the cost.
const SESSIONS_GONE_MIN: usize = 64;

/// How often memory is released at most. It takes a lock on the allocator, for milliseconds.
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
    /// Allows `most` connections.
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

    /// Takes a slot for one more connection, if one is free.
    pub(crate) fn admit(&self) -> Option<ConnectionSlot> {
        let slot = ConnectionSlot(Arc::clone(&self.open));
        // Counted first and released by the slot, so that two threads cannot both take the last one.
        (self.open.fetch_add(1, Ordering::Relaxed) < self.most).then_some(slot)
    }
}

/// A connection's slot on its shard; it stays with the connection through an upgrade.
#[derive(Clone)]
pub(crate) struct ShardSlot(
    #[expect(dead_code, reason = "held, not read")] pub(super) Arc<(Weight, ConnectionSlot)>,
);

impl ServerState {
    /// The budget of a new connection.
    pub(crate) fn connection_budget(&self) -> Arc<ConnectionBudget> {
        let limits = self.directory.limits();
        ConnectionBudget::new(&self.budget, limits.connection_bytes_max, limits.message_bytes_max)
    }
}

/// Decides when freed memory is returned to the system. Allocators keep it; after a wave of sessions that is most of
/// what they have.
#[derive(Debug)]
pub(crate) struct Trimmer {
    most: usize,
    trimmed_at: Instant,
}

impl Trimmer {
    /// A trimmer that has seen no sessions.
    pub(crate) fn new(now: Instant) -> Self {
        Self { most: 0, trimmed_at: now }
    }

    /// Whether enough sessions have ended for memory to be released. `most` is how many were alive since the last check:
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

/// Returns memory that the process has freed to the system, except that of JavaScript contexts, which each shard
/// returns itself.
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
    fn connection_past_the_limit_is_refused() {
        let connections = Connections::new(2);
        let first = connections.admit();
        let _second = connections.admit().unwrap();
        assert!(connections.admit().is_none());
        assert_eq!(connections.open(), 2);
        drop(first);
        assert!(connections.admit().is_some());
    }

    #[test]
    fn memory_is_released_after_many_sessions_ended() {
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
    fn sessions_that_ended_between_two_checks_count() {
        let start = Instant::now();
        let mut trimmer = Trimmer::new(start);
        assert!(!trimmer.is_due(SESSIONS_GONE_MIN - 1, 0, start + TRIM_EVERY));
        assert!(trimmer.is_due(SESSIONS_GONE_MIN, 0, start + TRIM_EVERY));
    }
}
