//! Requests that change the watches of a session, and the index of watchers by document.

use super::super::codec::{Data, object};
use super::super::names::DocumentKey;
use super::super::wire::{Sync, WireError};
use super::reader::Reader;
use super::{Space, unknown_session};

impl Space {
    pub(super) fn watch_set(&mut self, session_id: &str, watches: &[Data]) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let mut reader = Reader::new(&mut self.store, &session.identity, None);
        let before = session.document_keys();
        let sync = session.watch_set.set(&self.link_name, &mut reader, watches)?;
        self.unindex_watches(session_id, &before);
        self.finish_watch(session_id, sync)
    }

    pub(super) fn watch_add(&mut self, session_id: &str, watches: &[Data]) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let mut reader = Reader::new(&mut self.store, &session.identity, None);
        let sync = session.watch_set.add(&self.link_name, &mut reader, watches)?;
        self.finish_watch(session_id, sync)
    }

    fn finish_watch(&mut self, session_id: &str, sync: Sync) -> Result<Data, WireError> {
        self.index_watches(session_id);
        let seq = self.store.seq();
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        session.sent_seq = seq;
        let sync = Sync { from_seq: session.seen_seq, to_seq: seq, ..sync };
        Ok(object([("serverSeq", seq.into()), ("sync", sync.to_data())]))
    }

    /// Adds newly tracked documents of a session to the index.
    pub(super) fn index_watches(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        for entity in session.watch_set.take_added() {
            if let Some(key) = session.identity.document_key(&entity) {
                self.watchers.entry(key).or_default().insert(session_id.to_owned());
            }
        }
    }

    pub(super) fn unindex_watches(&mut self, session_id: &str, keys: &[DocumentKey]) {
        for key in keys {
            if let Some(watchers) = self.watchers.get_mut(key) {
                watchers.remove(session_id);
                if watchers.is_empty() {
                    self.watchers.remove(key);
                }
            }
        }
    }
}
