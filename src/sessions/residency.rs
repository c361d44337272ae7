//! How many sessions of a server have their heap in memory, and how many on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::observe;

/// The counts of a server.
#[derive(Debug, Default)]
pub(crate) struct ResidencyCounts {
    resident: AtomicUsize,
    hibernated: AtomicUsize,
    stored_bytes: AtomicU64,
}

impl ResidencyCounts {
    /// Sessions whose heap is in memory.
    pub(crate) fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// Sessions whose heap is on disk.
    pub(crate) fn hibernated(&self) -> usize {
        self.hibernated.load(Relaxed)
    }

    /// Bytes that these heaps take there.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Relaxed)
    }
}

/// Where the heap of one session is, as counted until dropped.
#[derive(Debug)]
pub(super) struct Residency {
    counts: Arc<ResidencyCounts>,
    /// What its image takes, if it is not in memory.
    stored_bytes: Option<u64>,
}

impl Residency {
    /// A session begins in memory.
    pub(super) fn new(counts: &Arc<ResidencyCounts>) -> Self {
        counts.resident.fetch_add(1, Relaxed);
        Self { counts: Arc::clone(counts), stored_bytes: None }
    }

    /// The heap left memory.
    pub(super) fn hibernate(&mut self, bytes: u64) {
        self.leave();
        self.counts.hibernated.fetch_add(1, Relaxed);
        self.counts.stored_bytes.fetch_add(bytes, Relaxed);
        self.stored_bytes = Some(bytes);
    }

    /// The session has a heap in memory again; `took` is the time that it took to bring its own back.
    pub(super) fn wake(&mut self, took: Option<Duration>) {
        self.leave();
        self.counts.resident.fetch_add(1, Relaxed);
        self.stored_bytes = None;
        if let Some(took) = took {
            observe::record_wake(took);
        }
    }

    fn leave(&mut self) {
        match self.stored_bytes {
            Some(bytes) => {
                self.counts.hibernated.fetch_sub(1, Relaxed);
                self.counts.stored_bytes.fetch_sub(bytes, Relaxed);
            }
            None => {
                self.counts.resident.fetch_sub(1, Relaxed);
            }
        }
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_counted_where_its_heap_is() {
        let counts = Arc::new(ResidencyCounts::default());
        let numbers = || (counts.resident(), counts.hibernated(), counts.stored_bytes());
        let mut session = Residency::new(&counts);
        assert_eq!(numbers(), (1, 0, 0));
        session.hibernate(100);
        assert_eq!(numbers(), (0, 1, 100));
        session.wake(Some(Duration::ZERO));
        let _other = Residency::new(&counts);
        assert_eq!(numbers(), (2, 0, 0));
        session.hibernate(7);
        drop(session);
        assert_eq!(numbers(), (1, 0, 0));
    }
}
