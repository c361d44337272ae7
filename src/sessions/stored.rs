//! Sessions that are stored: how they come back, and how they leave with the server.
//!
//! A stored session has a record in the table and an image in the store, and is not live until its client resumes it or
//! something of its own is due. Then it is started from its image, as a new one would be, and is live from there on.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

use super::host::{HostedSession, NewSession};
use super::link::SessionLink;
use super::live::{LifeRecord, LiveSession};
use super::open::{full, unavailable};
use super::token::TokenHash;
use super::{Directory, busy};
use crate::binding::{Principal, SessionScope};
use crate::observe;
use crate::protocol::methods::ResumeParams;
use crate::rpc::ErrorObject;
use crate::runtime::{RestoredSession, release_slots};
use crate::session::boundary::ToSession;
use crate::store::{FileStore, Store as _, StoreError};

/// Locks under which sessions are read, so that none is read twice at a time. Two sessions seldom share one.
const LOCKS: usize = 64;

/// Sessions that are woken in one look because something is due: the rest follows with the next one.
const DUE_PER_LOOK_MAX: usize = 32;

/// The store of a directory.
pub(super) struct StoredSessions {
    store: Arc<FileStore>,
    locks: Vec<tokio::sync::Mutex<()>>,
}

impl StoredSessions {
    pub(super) fn new(store: Arc<FileStore>) -> Self {
        Self { store, locks: (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect() }
    }

    fn lock_of(&self, id: &str) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        // One of `LOCKS`.
        &self.locks[(hasher.finish() % LOCKS as u64) as usize]
    }

    /// Claims and reads a session, on a thread that may wait for the disk.
    async fn read(&self, id: &str) -> Result<RestoredSession, StoreError> {
        let (store, id) = (Arc::clone(&self.store), id.to_owned());
        let read = move || {
            let claim = store.claim(&id)?;
            let image = store.load(&claim)?;
            RestoredSession::decode(image, claim)
        };
        // It fails only if the reader panicked.
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(StoreError::NotStored))
    }
}

impl Directory {
    /// The way to a session that runs here.
    pub(super) fn live_link(&self, id: &str) -> Option<Arc<SessionLink>> {
        self.live.link(id).filter(|link| !link.has_ended())
    }

    /// Whether a session has an image.
    pub(super) fn is_stored(&self, id: &str) -> bool {
        self.store.as_ref().is_some_and(|stored| stored.store.contains(id))
    }

    /// Bytes that stored sessions take on disk; `None` without a store.
    pub(crate) fn stored_bytes(&self) -> Option<u64> {
        self.store.as_ref().map(|stored| stored.store.used_bytes())
    }

    /// Removes the images of sessions that are gone.
    pub(super) fn forget_images(&self, ids: &[Arc<str>]) {
        if let Some(stored) = &self.store {
            release_slots(stored.store.delete(ids));
        }
    }

    /// Starts a stored session for a client that may resume it; `None` if this client has no such session. The token is
    /// checked before anything is read, and once more when the session is claimed.
    pub(super) async fn revive_for(
        &self,
        principal: &Arc<Principal>,
        resume: &ResumeParams,
    ) -> Result<Option<Arc<SessionLink>>, ErrorObject> {
        if !self.is_stored(&resume.id) {
            return Ok(None);
        }
        let record = self.table.find(&resume.id).await.map_err(|error| unavailable(&error))?;
        let shown = TokenHash::new(&resume.token);
        let is_own = record.is_some_and(|record| {
            *record.principal == *principal.name
                && record.tokens.accept(&shown)
                && !record.has_expired(SystemTime::now())
        });
        if !is_own {
            return Ok(None);
        }
        self.revive(principal, &resume.id).await
    }

    /// Starts a stored session, unless it runs already. Only where the host can start one: on a shard.
    pub(crate) async fn revive(
        &self,
        principal: &Arc<Principal>,
        id: &str,
    ) -> Result<Option<Arc<SessionLink>>, ErrorObject> {
        let Some(stored) = &self.store else { return Ok(None) };
        let _one_at_a_time = stored.lock_of(id).lock().await;
        if let Some(link) = self.live_link(id) {
            return Ok(Some(link));
        }
        if self.is_draining() {
            return Err(busy("the server is stopping"));
        }
        let slot = principal
            .account
            .open_session(self.limits.memory_bytes_max)
            .inspect_err(|exceeded| observe::record_refusal(exceeded.resource.name()))?;
        let restored = stored.read(id).await.map_err(|error| report_unreadable(id, &error))?;
        if restored.state.id != id || restored.state.principal != principal.name {
            return Ok(None);
        }
        if !self.memory.has_room_for(restored.memory_bytes()) {
            return Err(self.out_of_memory());
        }
        let scope =
            SessionScope { id: id.to_owned(), principal: Arc::clone(principal), audit: self.audit.clone() };
        let scope = Arc::new(scope);
        let catalog = self.handlers.catalog();
        let session = NewSession { scope: Arc::clone(&scope), catalog, restored: Some(Box::new(restored)) };
        let HostedSession { link, shard } = self.host.start(session).await?;
        let live = LiveSession { link: Arc::clone(&link), shard, slot, _life: LifeRecord::new(scope) };
        if self.live.insert(id.into(), live, self.settings.sessions_max).is_err() {
            let _ = link.try_send(ToSession::Suspend);
            return Err(full());
        }
        Ok(Some(link))
    }

    /// Stored sessions that have something to do by now, with the names of their principals; not all of them at a time.
    pub(crate) async fn due_sessions(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(stored) = &self.store else { return Vec::new() };
        if self.is_draining() {
            return Vec::new();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now_ms);
        let due = stored.store.list().into_iter().filter(|session| is_due(session.wake_at_ms));
        let due = due.filter(|session| self.live_link(&session.id).is_none());
        let mut found = Vec::new();
        for session in due.take(DUE_PER_LOOK_MAX) {
            if let Ok(Some(record)) = self.table.find(&session.id).await {
                found.push((session.id, record.principal));
            }
        }
        found
    }

    /// A session that is due cannot be read: it is not tried again until its client asks for it.
    pub(crate) fn give_up_due(&self, id: &str) {
        if let Some(stored) = &self.store {
            stored.store.forget_due(id);
        }
    }

    /// Stores all sessions; those that cannot be stored end.
    pub(super) async fn suspend_all(&self) {
        let (ids, all): (Vec<_>, Vec<_>) = self.live.remove_all().into_iter().unzip();
        // Concurrently: a session on a stuck shard may have a full inbox, and the others must not wait for it.
        join_all(all.iter().map(|session| async {
            let _ = session.link.send(ToSession::Suspend).await;
            session.link.ended().await;
        }))
        .await;
        let lost = ids.into_iter().zip(&all).filter(|(_, session)| !session.link.is_suspended());
        self.remove_records(lost.map(|(id, _)| id).collect()).await;
    }

    /// The server stops in order: what was noted last is true. The folder is free for another server when all that
    /// uses it is dropped.
    pub(crate) async fn close_store(&self) {
        let Some(stored) = &self.store else { return };
        let store = Arc::clone(&stored.store);
        let closed = tokio::task::spawn_blocking(move || store.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::error!(%error, "the state folder was not closed in order");
        }
    }
}

fn report_unreadable(id: &str, error: &StoreError) -> ErrorObject {
    observe::record_store_failure(error.kind());
    tracing::error!(session = id, %error, kind = error.kind(), "a stored session cannot be read");
    error.to_resume_error()
}
