//! The session table of a server that forgets its sessions when it stops.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::ready;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::{
    Release, Released, SessionClaim, SessionRecord, SessionTable, TableError, TableFuture, may_claim,
};

/// Records in a map. Every operation is complete when it returns, so its future never waits.
#[derive(Debug, Default)]
pub(crate) struct MemoryTable {
    records: Mutex<BTreeMap<Arc<str>, SessionRecord>>,
}

fn done<'a, T: Send + 'a>(value: T) -> TableFuture<'a, T> {
    Box::pin(ready(Ok(value)))
}

impl SessionTable for MemoryTable {
    fn create(&self, record: SessionRecord) -> TableFuture<'_, ()> {
        match self.records.lock().entry(Arc::clone(&record.id)) {
            Entry::Vacant(vacant) => {
                vacant.insert(record);
                done(())
            }
            Entry::Occupied(_) => Box::pin(ready(Err(TableError(format!("{} exists already", record.id))))),
        }
    }

    fn find<'a>(&'a self, id: &'a str) -> TableFuture<'a, Option<SessionRecord>> {
        done(self.records.lock().get(id).cloned())
    }

    fn claim<'a>(&'a self, claim: SessionClaim<'a>) -> TableFuture<'a, Option<u64>> {
        let mut records = self.records.lock();
        let claimed = records.get_mut(claim.id).filter(|record| may_claim(record, &claim)).map(|record| {
            record.tokens.rotate(claim.shown, claim.next);
            record.connection += 1;
            record.expires_at = None;
            record.connection
        });
        done(claimed)
    }

    fn confirm<'a>(&'a self, id: &'a str, connection: u64, ran_eval: bool) -> TableFuture<'a, ()> {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(id).filter(|record| record.connection == connection) {
            record.tokens.confirm();
            record.ran_eval |= ran_eval;
        }
        done(())
    }

    fn release<'a>(&'a self, release: Release<'a>) -> TableFuture<'a, Released> {
        let mut records = self.records.lock();
        let held = records.get_mut(release.id).filter(|record| record.connection == release.connection);
        let Some(record) = held else { return done(Released::Superseded) };
        record.ran_eval |= release.ran_eval;
        if record.ran_eval && release.keep_until.is_some() {
            record.expires_at = release.keep_until;
            return done(Released::Detached);
        }
        records.remove(release.id);
        done(Released::Removed)
    }

    fn evict<'a>(
        &'a self,
        owner: &'a str,
        principal: &'a str,
        detached_max: usize,
    ) -> TableFuture<'a, Option<Arc<str>>> {
        let mut records = self.records.lock();
        if records.len() <= detached_max {
            return done(None);
        }
        let own =
            records.values().filter(|record| &*record.owner == owner && &*record.principal == principal);
        let detached = own.filter_map(|record| Some((record.expires_at?, &record.id)));
        if detached.clone().count() <= detached_max {
            return done(None);
        }
        let oldest = detached.min().map(|(_, id)| Arc::clone(id));
        if let Some(id) = &oldest {
            records.remove(id);
        }
        done(oldest)
    }

    fn expire<'a>(&'a self, owner: &'a str, now: SystemTime) -> TableFuture<'a, Vec<Arc<str>>> {
        let mut records = self.records.lock();
        let is_over = |record: &SessionRecord| &*record.owner == owner && record.has_expired(now);
        done(records.extract_if(.., |_, record| is_over(record)).map(|(id, _)| id).collect())
    }

    fn remove<'a>(&'a self, ids: &'a [Arc<str>]) -> TableFuture<'a, ()> {
        let mut records = self.records.lock();
        for id in ids {
            records.remove(id);
        }
        done(())
    }

    fn list<'a>(&'a self, principal: Option<&'a str>, max: usize) -> TableFuture<'a, Vec<SessionRecord>> {
        let records = self.records.lock();
        let is_wanted =
            |record: &&SessionRecord| principal.is_none_or(|principal| &*record.principal == principal);
        done(records.values().filter(is_wanted).take(max).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table_suite;
    use super::*;

    #[tokio::test]
    async fn memory_table_passes_the_suite() {
        table_suite(async || MemoryTable::default()).await;
    }
}
