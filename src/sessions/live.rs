//! The sessions that run here: how each is reached, and what it holds until it is gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::link::SessionLink;
use crate::binding::SessionScope;
use crate::observe::audit::Event;
use crate::quota::SessionSlot;

/// A session that runs. Dropping it frees its place and records its end.
pub(super) struct LiveSession {
    pub(super) link: Arc<SessionLink>,
    /// The part of its host that runs it: what is lost there is lost together.
    pub(super) shard: usize,
    /// Its place in its principal's account.
    pub(super) slot: SessionSlot,
    pub(super) _life: LifeRecord,
}

/// Records the start of a session in the audit log and, when dropped, its end.
pub(super) struct LifeRecord(Arc<SessionScope>);

impl LifeRecord {
    pub(super) fn new(scope: Arc<SessionScope>) -> Self {
        scope.audit.record(|| Event::SessionOpened {
            principal: scope.principal.name.clone(),
            session: scope.id.clone(),
        });
        Self(scope)
    }
}

impl Drop for LifeRecord {
    fn drop(&mut self) {
        let Self(scope) = self;
        scope.audit.record(|| Event::SessionClosed {
            principal: scope.principal.name.clone(),
            session: scope.id.clone(),
        });
    }
}

/// All sessions that run here, by their ids. Nothing is called while it is locked.
#[derive(Default)]
pub(super) struct LiveSessions {
    sessions: Mutex<HashMap<Arc<str>, LiveSession>>,
    /// Most sessions at one time since the last [`Self::take_most`].
    most: AtomicUsize,
}

impl LiveSessions {
    /// Adds a session unless there are `max` already; then it comes back.
    pub(super) fn insert(&self, id: Arc<str>, session: LiveSession, max: usize) -> Result<(), LiveSession> {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= max {
            return Err(session);
        }
        sessions.insert(id, session);
        self.most.fetch_max(sessions.len(), Ordering::Relaxed);
        Ok(())
    }

    /// The way to a session.
    pub(super) fn link(&self, id: &str) -> Option<Arc<SessionLink>> {
        self.sessions.lock().get(id).map(|session| Arc::clone(&session.link))
    }

    /// The ways to all sessions.
    pub(super) fn links(&self) -> Vec<Arc<SessionLink>> {
        self.sessions.lock().values().map(|session| Arc::clone(&session.link)).collect()
    }

    pub(super) fn remove(&self, id: &str) -> Option<LiveSession> {
        self.sessions.lock().remove(id)
    }

    /// Removes the sessions that have ended by themselves.
    pub(super) fn remove_ended(&self) -> Vec<(Arc<str>, LiveSession)> {
        self.sessions.lock().extract_if(|_, session| session.link.has_ended()).collect()
    }

    /// Removes the sessions of a shard.
    pub(super) fn remove_shard(&self, shard: usize) -> Vec<(Arc<str>, LiveSession)> {
        self.sessions.lock().extract_if(|_, session| session.shard == shard).collect()
    }

    pub(super) fn remove_all(&self) -> Vec<(Arc<str>, LiveSession)> {
        self.sessions.lock().drain().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// The most there were at one time since this was last asked.
    pub(super) fn take_most(&self) -> usize {
        self.most.swap(0, Ordering::Relaxed)
    }
}
