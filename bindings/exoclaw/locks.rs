//! Allows one chat at a time per session; others wait in the order of arrival.
//!
//! A lock exists only while a chat holds it or waits for it, so there are never more locks than
//! chats.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::route::SessionId;

#[derive(Debug, Clone, Default)]
pub(super) struct SessionLocks(Arc<Mutex<HashMap<SessionId, Entry>>>);

#[derive(Debug)]
struct Entry {
    semaphore: Arc<Semaphore>,
    /// Chats that hold the lock or wait for it.
    users: usize,
}

impl SessionLocks {
    /// Waits until no other chat holds the session. Dropping the future leaves the queue.
    pub(super) async fn lock(&self, session: &SessionId) -> SessionGuard {
        let user = LockUser::new(self, session);
        // Acquiring fails only on a closed semaphore, and this one is never closed.
        let permit = Arc::clone(&user.semaphore).acquire_owned().await.ok();
        SessionGuard { _permit: permit, _user: user }
    }
}

/// Holds the lock of a session until it is dropped.
#[derive(Debug)]
pub(super) struct SessionGuard {
    // Fields drop in order. The permit goes first, so that the entry is not removed while the
    // permit is held.
    _permit: Option<OwnedSemaphorePermit>,
    _user: LockUser,
}

/// Counts as a user of its session's entry until it is dropped.
#[derive(Debug)]
struct LockUser {
    locks: SessionLocks,
    session: SessionId,
    semaphore: Arc<Semaphore>,
}

impl LockUser {
    fn new(locks: &SessionLocks, session: &SessionId) -> Self {
        let mut entries = locks.0.lock();
        let entry = entries
            .entry(session.clone())
            .or_insert_with(|| Entry { semaphore: Arc::new(Semaphore::new(1)), users: 0 });
        entry.users += 1;
        Self { locks: locks.clone(), session: session.clone(), semaphore: Arc::clone(&entry.semaphore) }
    }
}

impl Drop for LockUser {
    fn drop(&mut self) {
        let mut entries = self.locks.0.lock();
        if let Some(entry) = entries.get_mut(&self.session) {
            entry.users -= 1;
            if entry.users == 0 {
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
    async fn lock_excludes_only_its_own_session() {
        let locks = SessionLocks::default();
        let held = locks.lock(&session("x")).await;
        assert!(locks.lock(&session("y")).now_or_never().is_some());
        assert!(locks.lock(&session("x")).now_or_never().is_none());
        drop(held);
        assert!(locks.lock(&session("x")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn lock_is_granted_in_order_of_arrival() {
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
    async fn unused_lock_is_removed() {
        let locks = SessionLocks::default();
        let held = locks.lock(&session("x")).await;
        let waiting = locks.lock(&session("x")).now_or_never();
        assert!(waiting.is_none());
        assert_eq!(locks.0.lock().len(), 1);
        drop(held);
        assert_eq!(locks.0.lock().len(), 0);
    }
}
