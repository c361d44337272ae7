//! A script's watch and the document versions that the script has already received.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::codec::Data;
use super::request::Reply;
use super::sync_buffer::{SyncBuffer, document_key};

#[derive(Debug)]
pub(super) struct WatchState {
    /// The definitions, as `session.watch.set` sends them.
    pub(super) watches: Data,
    syncs: Arc<SyncBuffer>,
    /// Receives the first sync.
    pub(super) first_sync_tx: Option<Reply>,
    /// Versions that the script has. A server may send a version again; the script gets it once.
    known: BTreeMap<(String, String), (u64, bool)>,
}

impl WatchState {
    pub(super) fn new(watches: Data, syncs: Arc<SyncBuffer>, first_sync_tx: Reply) -> Self {
        Self { watches, syncs, first_sync_tx: Some(first_sync_tx), known: BTreeMap::new() }
    }

    /// Whether the script stopped reading syncs while the server could not be reached.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.syncs) == 1
    }

    /// Records the versions in a sync and returns the upserts that the script does not have yet.
    pub(super) fn record_versions(&mut self, sync: &Data) -> Vec<Data> {
        let mut new_upserts = Vec::new();
        for upsert in list_field(sync, "upserts") {
            let seq = upsert.get("seq").and_then(Data::as_u64).unwrap_or(0);
            let version = (seq, upsert.get("deleted").and_then(Data::as_bool).unwrap_or(false));
            if self.known.insert(document_key(upsert), version) != Some(version) {
                new_upserts.push(upsert.clone());
            }
        }
        for remove in list_field(sync, "removes") {
            self.known.remove(&document_key(remove));
        }
        new_upserts
    }

    /// Passes the changes that the script does not have yet to its buffer.
    pub(super) fn deliver(&mut self, sync: &Data) {
        let (upserts, removes) = (self.record_versions(sync), list_field(sync, "removes").to_vec());
        if !upserts.is_empty() || !removes.is_empty() {
            let to_seq = sync.get("toSeq").and_then(Data::as_u64).unwrap_or(0);
            self.syncs.add(upserts, removes, to_seq);
        }
    }

    /// Forgets documents that the first sync of a restored watch no longer contains.
    pub(super) fn forget_missing(&mut self, sync: &Data) {
        let present: BTreeSet<_> = list_field(sync, "upserts").iter().map(document_key).collect();
        self.known.retain(|known, _| present.contains(known));
    }
}

fn list_field<'a>(sync: &'a Data, key: &str) -> &'a [Data] {
    sync.get(key).and_then(Data::as_list).unwrap_or_default()
}
