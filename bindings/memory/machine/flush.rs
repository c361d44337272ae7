//! Sends the writes of commits to the sessions that watch their documents.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::super::names::{DocumentKey, Entity};
use super::super::watch;
use super::super::wire::{self, Sync};
use super::reader::Reader;
use super::{ConnectionId, OutgoingMessages, Space};

/// How long commits are collected before syncs are sent.
pub(super) const FLUSH_DELAY: Duration = Duration::from_millis(5);

/// Longest delay of a sync while commits keep arriving.
pub(super) const FLUSH_DELAY_MAX: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(super) struct PendingFlush {
    first_change: Instant,
    last_change: Instant,
}

impl Space {
    /// When to call [`Space::flush`] if no request arrives, and when in any case.
    pub(in super::super) fn flush_at(&self) -> Option<(Instant, Instant)> {
        self.pending_flush.map(|PendingFlush { first_change, last_change }| {
            (last_change + FLUSH_DELAY, first_change + FLUSH_DELAY_MAX)
        })
    }

    /// Restarts the delay after a request, as writing may have taken longer than the delay itself.
    pub(in super::super) fn restart_flush_delay(&mut self, now: Instant) {
        if let Some(pending_flush) = &mut self.pending_flush {
            pending_flush.last_change = now;
        }
    }

    pub(super) fn schedule_flush(&mut self, now: Instant) {
        self.pending_flush.get_or_insert(PendingFlush { first_change: now, last_change: now });
    }

    /// Sends the writes since the last flush to their watchers.
    pub(in super::super) fn flush(&mut self, outgoing: &mut OutgoingMessages) {
        self.pending_flush = None;
        let changed = std::mem::take(&mut self.changed);
        let mut sessions = std::mem::take(&mut self.sync_due);
        sessions.extend(changed.keys().filter_map(|key| self.watchers.get(key)).flatten().cloned());
        for session_id in sessions {
            self.send_sync(&session_id, &changed, outgoing);
        }
    }

    /// Sends the writes to the sessions of one connection; the others wait for the flush.
    pub(super) fn flush_connection(&mut self, connection_id: ConnectionId, outgoing: &mut OutgoingMessages) {
        let watchers = self.changed.keys().filter_map(|key| self.watchers.get(key)).flatten();
        let is_on_connection = |session_id: &&String| {
            self.sessions.get(*session_id).is_some_and(|session| session.connection_id == Some(connection_id))
        };
        let sessions: BTreeSet<String> = watchers.filter(is_on_connection).cloned().collect();
        let changed = std::mem::take(&mut self.changed);
        for session_id in sessions {
            self.send_sync(&session_id, &changed, outgoing);
        }
        self.changed = changed;
    }

    fn send_sync(
        &mut self,
        session_id: &str,
        changed: &HashMap<DocumentKey, (String, u64)>,
        outgoing: &mut OutgoingMessages,
    ) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let written: Vec<Entity> = changed.keys().filter_map(|key| session.tracked_entity(key)).collect();
        session.stale.extend(written);
        // A disconnected session receives its changes when it is resumed.
        let Some(connection_id) = session.connection_id else { return };
        let identity = session.identity.clone();
        let is_own_write = |entity: &Entity, seq: u64| {
            let origin = identity.document_key(entity).and_then(|key| changed.get(&key));
            origin.is_some_and(|(writer, written)| writer == session_id && *written == seq)
        };
        if let Some(sync) = self.build_sync(session_id, &is_own_write) {
            outgoing.push((connection_id, wire::session_effect(&self.name, session_id, sync.to_data())));
        }
    }

    /// The changes of the documents in `stale`; `None` if there is nothing to send.
    pub(super) fn build_sync(
        &mut self,
        session_id: &str,
        is_own_write: watch::IsOwnWrite<'_>,
    ) -> Option<Sync> {
        let session = self.sessions.get_mut(session_id)?;
        let stale = std::mem::take(&mut session.stale);
        let stale: BTreeSet<Entity> =
            stale.into_iter().filter(|entity| session.watch_set.tracks(entity)).collect();
        let mut sync = Sync::default();
        if !stale.is_empty() {
            let mut reader = Reader::new(&mut self.store, &session.identity, None);
            match session.watch_set.refresh(&self.link_name, &mut reader, stale, is_own_write) {
                Ok(found) => sync = found,
                Err(error) => {
                    tracing::warn!(space = self.name, %error, "watches of a session exceed a limit")
                }
            }
            self.index_watches(session_id);
        }
        let session = self.sessions.get_mut(session_id)?;
        if session.pending_caught_up > session.caught_up {
            session.caught_up = session.pending_caught_up;
            sync.caught_up_local_seq = Some(session.caught_up);
        }
        if sync.is_empty() {
            return None;
        }
        let seq = self.store.seq();
        sync.from_seq = std::mem::replace(&mut session.sent_seq, seq);
        sync.to_seq = seq;
        Some(sync)
    }
}
