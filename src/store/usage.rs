//! What the images of sessions take on disk, by principal and in all, and which claim of a session is the latest.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::StoreError;

/// A session that has an image, or is about to have one.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: Arc<str>,
    pub(super) principal: Arc<str>,
    pub(super) slot: u32,
    state: Mutex<EntryState>,
}

/// What changes of an entry. Locked while its image is written, so that a claim and a deletion wait for that.
#[derive(Debug, Default)]
pub(super) struct EntryState {
    /// The latest claim; no write after a deletion has it.
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    pub(super) wake_at_ms: Option<u64>,
}

/// No claim has this epoch: the session is deleted.
pub(super) const DELETED: u64 = u64::MAX;

impl Entry {
    pub(super) fn lock(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock()
    }

    /// Locks it for a write under that claim.
    pub(super) fn lock_for(&self, epoch: u64) -> Result<MutexGuard<'_, EntryState>, StoreError> {
        let state = self.state.lock();
        if state.epoch == epoch { Ok(state) } else { Err(StoreError::Fenced) }
    }
}

/// The limits of a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    pub(super) principal_bytes_max: u64,
    pub(super) bytes_max: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Usage {
    quota: Quota,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    entries: HashMap<Arc<str>, Arc<Entry>>,
    by_principal: HashMap<Arc<str>, u64>,
    total: u64,
}

impl Usage {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, tables: Mutex::default() }
    }

    /// Adds a session.
    pub(super) fn insert(
        &self,
        id: &Arc<str>,
        principal: &Arc<str>,
        slot: u32,
        state: EntryState,
    ) -> Arc<Entry> {
        let bytes = state.bytes;
        let entry =
            Entry { id: Arc::clone(id), principal: Arc::clone(principal), slot, state: Mutex::new(state) };
        let entry = Arc::new(entry);
        self.tables.lock().entries.insert(Arc::clone(id), Arc::clone(&entry));
        self.count(principal, 0, bytes);
        entry
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.tables.lock().entries.get(id).cloned()
    }

    /// All sessions that have an image.
    pub(super) fn list(&self) -> Vec<Arc<Entry>> {
        let all: Vec<Arc<Entry>> = self.tables.lock().entries.values().cloned().collect();
        all.into_iter().filter(|entry| entry.lock().bytes > 0).collect()
    }

    /// Takes a session out; what it took is free. The caller has marked it as deleted.
    pub(super) fn remove(&self, entry: &Entry, bytes: u64) {
        self.count(&entry.principal, bytes, 0);
        self.tables.lock().entries.remove(&entry.id);
    }

    /// Refuses a write for a principal that has used up its quota, or when the total is used up. A write may thus go
    /// past them once.
    pub(super) fn check(&self, principal: &str) -> Result<(), StoreError> {
        let (used, total) = {
            let tables = self.tables.lock();
            (tables.by_principal.get(principal).copied().unwrap_or_default(), tables.total)
        };
        let Quota { principal_bytes_max, bytes_max } = self.quota;
        let exceeded = |whose: &str, bytes, bytes_max| {
            let whose = whose.to_owned();
            Err(StoreError::QuotaExceeded { whose, bytes, bytes_max })
        };
        if used >= principal_bytes_max {
            return exceeded(principal, used, principal_bytes_max);
        }
        if total >= bytes_max { exceeded("all principals", total, bytes_max) } else { Ok(()) }
    }

    /// The image of a session has another length now.
    pub(super) fn count(&self, principal: &Arc<str>, before: u64, after: u64) {
        let mut tables = self.tables.lock();
        tables.total = (tables.total + after).saturating_sub(before);
        let used = tables.by_principal.entry(Arc::clone(principal)).or_default();
        *used = (*used + after).saturating_sub(before);
        if *used == 0 {
            tables.by_principal.remove(principal);
        }
    }

    /// Bytes of all images.
    pub(super) fn total(&self) -> u64 {
        self.tables.lock().total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_counted_by_principal_and_in_all() {
        let usage = Usage::new(Quota { principal_bytes_max: 10, bytes_max: 15 });
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let first = usage.insert(&"a".into(), &ann, 0, EntryState { bytes: 9, ..EntryState::default() });
        assert!(usage.check("ann").is_ok());
        usage.count(&ann, 9, 10);
        assert_eq!(usage.check("ann").unwrap_err().kind(), "DiskQuota");
        assert!(usage.check("bob").is_ok());
        usage.insert(&"b".into(), &bob, 1, EntryState { bytes: 5, ..EntryState::default() });
        let message = usage.check("bob").unwrap_err().to_string();
        assert_eq!(message, "the sessions of all principals take 15 bytes on disk, expected at most 15");
        usage.remove(&first, 10);
        assert_eq!((usage.total(), usage.check("ann").is_ok()), (5, true));
    }

    #[test]
    fn older_claim_is_fenced() {
        let usage = Usage::new(Quota { principal_bytes_max: 1, bytes_max: 1 });
        let entry =
            usage.insert(&"a".into(), &"ann".into(), 0, EntryState { epoch: 1, ..EntryState::default() });
        assert!(entry.lock_for(1).is_ok());
        entry.lock().epoch = 2;
        assert_eq!(entry.lock_for(1).unwrap_err().kind(), "Fenced");
        entry.lock().epoch = DELETED;
        assert_eq!(entry.lock_for(2).unwrap_err().kind(), "Fenced");
    }
}
