//! How sessions are released by their connections, expire, are evicted, are lost, or end with the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::live::LiveSession;
use super::table::{Release, Released, TableError};
use super::{Directory, SessionLease};
use crate::limits::DURATION_MAX;
use crate::protocol::client_messages::Closing;
use crate::quota::SessionSlot;
use crate::session::boundary::ToSession;

impl Directory {
    /// The client sent something after its handshake, so it has its token: the one before is void. Does not wait for a
    /// slow table; the release says once more whether code was sent.
    pub(crate) fn confirm(&self, lease: &SessionLease, is_eval: bool) {
        lease.ran_eval.fetch_or(is_eval, Ordering::Relaxed);
        let (table, id, connection) = (Arc::clone(&self.table), Arc::clone(&lease.id), lease.connection);
        let mut confirm = Box::pin(async move {
            if let Err(error) = table.confirm(&id, connection, is_eval).await {
                report("a token was not confirmed", &error);
            }
        });
        if confirm.as_mut().now_or_never().is_none() {
            tokio::spawn(confirm);
        }
    }

    /// A connection is gone.
    pub(crate) async fn release(&self, lease: &SessionLease) {
        let is_kept = !lease.link.has_ended() || lease.link.is_suspended();
        let keep_until = is_kept.then(|| self.expiry(SystemTime::now()));
        let release = Release {
            id: &lease.id,
            connection: lease.connection,
            ran_eval: lease.ran_eval.load(Ordering::Relaxed),
            keep_until,
        };
        let ended = match self.table.release(release).await {
            Ok(Released::Superseded) => return,
            Ok(Released::Detached) => self.evict(&lease.principal.name, self.detached_share).await,
            Ok(Released::Removed) => {
                self.forget_images(std::slice::from_ref(&lease.id));
                self.live.remove(&lease.id)
            }
            // It could not be resumed, nor would it expire.
            Err(error) => {
                report("a session was not released", &error);
                self.stale_records.lock().push(Arc::clone(&lease.id));
                self.live.remove(&lease.id)
            }
        };
        // A session that is gone already needs no word.
        lease.link.disconnect(lease.connection);
        let _ = lease.link.send(ToSession::Detach { connection: lease.connection }).await;
        if let Some(ended) = ended {
            let _ = ended.link.send(ToSession::End(Closing::GoingAway)).await;
        }
    }

    /// When a session that is detached now is over.
    pub(super) fn expiry(&self, now: SystemTime) -> SystemTime {
        let ttl = Duration::from_millis(self.settings.ttl_ms);
        now.checked_add(ttl).unwrap_or(now + DURATION_MAX)
    }

    /// Takes the session of a principal that has been detached longest, if it has more than that many detached ones.
    pub(super) async fn evict(&self, principal: &str, detached_max: usize) -> Option<LiveSession> {
        match self.table.evict(&self.owner, principal, detached_max).await {
            Ok(evicted) => {
                let evicted = evicted?;
                self.forget_images(std::slice::from_ref(&evicted));
                self.live.remove(&evicted)
            }
            Err(error) => {
                report("no detached session was evicted", &error);
                None
            }
        }
    }

    /// Ends the sessions whose clients have not come back in time, and forgets those that have ended by themselves.
    pub(crate) async fn expire(&self) {
        let mut gone = std::mem::take(&mut *self.stale_records.lock());
        gone.extend(self.live.remove_ended().into_iter().map(|(id, _)| id));
        self.remove_records(gone).await;
        let expired = self.table.expire(&self.owner, SystemTime::now()).await.unwrap_or_else(|error| {
            report("no session was expired", &error);
            Vec::new()
        });
        self.forget_images(&expired);
        let expired: Vec<LiveSession> = expired.iter().filter_map(|id| self.live.remove(id)).collect();
        for session in expired {
            let _ = session.link.send(ToSession::End(Closing::GoingAway)).await;
        }
    }

    /// Forgets the sessions of a shard that was lost. Returns their places in the accounts of their principals, to be
    /// kept for as long as the shard holds their memory. Their records are removed by the next [`Self::expire`].
    pub(crate) fn forget_shard(&self, shard: usize) -> Vec<SessionSlot> {
        let (ids, lost): (Vec<_>, Vec<_>) = self.live.remove_shard(shard).into_iter().unzip();
        self.stale_records.lock().extend(ids);
        lost.into_iter().map(|session| session.slot).collect()
    }

    /// Ends all sessions, or stores them.
    pub(crate) async fn end_all(&self) {
        if self.store.is_some() {
            return self.suspend_all().await;
        }
        let (ids, all): (Vec<_>, Vec<_>) = self.live.remove_all().into_iter().unzip();
        // Concurrently: a session on a stuck shard may have a full inbox, and the others must not wait for it.
        let end = join_all(all.iter().map(|session| session.link.send(ToSession::End(Closing::GoingAway))));
        tokio::join!(self.remove_records(ids), end);
    }

    /// Removes the records of sessions that are gone. If that fails, [`Self::expire`] tries again.
    pub(super) async fn remove_records(&self, ids: Vec<Arc<str>>) {
        self.forget_images(&ids);
        if !ids.is_empty()
            && let Err(error) = self.table.remove(&ids).await
        {
            report("records of sessions were not removed", &error);
            self.stale_records.lock().extend(ids);
        }
    }
}

fn report(what: &'static str, error: &TableError) {
    tracing::error!(%error, "{what}");
}
