//! One chat at a time in a session: whoever comes next waits, in the order of arrival.
//!
//! A lock exists only while somebody holds it or waits for it, so their number is that of the chats under way.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::route::SessionId;

#[derive(Debug, Clone, Default)]
pub(super) struct SessionLocks(Arc<Mutex<HashMap<SessionId, Entry>>>);

#[derive(Debug)]
struct Entry {
    turn: Arc<Semaphore>,
    /// Those that hold it or wait for it.
    interested: usize,
}

impl SessionLocks {
    /// Waits for the session. Dropping the future leaves the queue, dropping the guard frees the session.
    pub(super) async fn lock(&self, session: &SessionId) -> SessionGuard {
        let interest = Interest::new(self, session);
        // Nobody closes the semaphore, and a permit that is none would only mean that nobody has to wait.
        let permit = Arc::clone(&interest.turn).acquire_owned().await.ok();
        SessionGuard { _permit: permit, _interest: interest }
    }
}

/// The right to chat in a session.
#[derive(Debug)]
pub(super) struct SessionGuard {
    // Freed first: whoever is next must not find the entry gone while the permit is still held.
    _permit: Option<OwnedSemaphorePermit>,
    _interest: Interest,
}

#[derive(Debug)]
struct Interest {
    locks: SessionLocks,
    session: SessionId,
    turn: Arc<Semaphore>,
}

impl Interest {
    fn new(locks: &SessionLocks, session: &SessionId) -> Self {
        let mut entries = locks.0.lock();
        let entry = entries
            .entry(session.clone())
            .or_insert_with(|| Entry { turn: Arc::new(Semaphore::new(1)), interested: 0 });
        entry.interested += 1;
        Self { locks: locks.clone(), session: session.clone(), turn: Arc::clone(&entry.turn) }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut entries = self.locks.0.lock();
        if let Some(entry) = entries.get_mut(&self.session) {
            entry.interested -= 1;
            if entry.interested == 0 {
                entries.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn session(peer: &str) -> SessionId {
        let name = |text: &str| text.to_owned();
        SessionId {
            principal: name("p"),
            agent: name("default"),
            channel: name("w"),
            account: name("a"),
            peer: name(peer),
        }
    }

    #[tokio::test]
    async fn one_session_is_held_once_and_others_are_free() {
        let locks = SessionLocks::default();
        let held = locks.lock(&session("x")).await;
        assert!(locks.lock(&session("y")).now_or_never().is_some());
        assert!(locks.lock(&session("x")).now_or_never().is_none());
        drop(held);
        assert!(locks.lock(&session("x")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waits_comes_in_the_order_of_arrival() {
        let locks = SessionLocks::default();
        let held = locks.lock(&session("x")).await;
        let (x, y) = (session("x"), session("x"));
        let mut second = Box::pin(locks.lock(&x));
        let mut third = Box::pin(locks.lock(&y));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(held);
        assert!(third.as_mut().now_or_never().is_none());
        let held = second.as_mut().now_or_never();
        assert!(held.is_some());
        drop(held);
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_session_that_nobody_wants() {
        let locks = SessionLocks::default();
        let held = locks.lock(&session("x")).await;
        let waiting = locks.lock(&session("x")).now_or_never();
        assert!(waiting.is_none());
        assert_eq!(locks.0.lock().len(), 1);
        drop(held);
        assert_eq!(locks.0.lock().len(), 0);
    }
}
