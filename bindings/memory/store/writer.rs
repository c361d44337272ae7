//! Checks the reads and preconditions of a commit, and writes its revisions.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::super::codec::Data;
use super::super::commit::{Change, Commit, Precondition, Read, is_stale};
use super::super::names::{DocumentKey, Entity, SessionIdentity};
use super::super::patch::apply_all;
use super::super::traverse::DocumentState;
use super::cache::Cache;
use super::{CommitReceipt, PATCHES_PER_SNAPSHOT, Revision, SNAPSHOTS_KEPT, StoreError, history};

/// The revisions of a commit, and the documents after it.
#[derive(Default)]
pub(super) struct CommitEffects {
    pub(super) revisions: Vec<Revision>,
    pub(super) states: HashMap<DocumentKey, DocumentState>,
}

/// Checks and writes one commit within a transaction.
pub(super) struct Writer<'a> {
    transaction: &'a Transaction<'a>,
    identity: &'a SessionIdentity,
    seq: u64,
    cache: &'a mut Cache,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        transaction: &'a Transaction<'a>,
        identity: &'a SessionIdentity,
        seq: u64,
        cache: &'a mut Cache,
    ) -> Self {
        Self { transaction, identity, seq, cache }
    }

    /// The receipt of the same commit, if the session has sent it before.
    pub(super) fn find_replay(
        &self,
        session_key: &str,
        commit: &Commit,
    ) -> Result<Option<CommitReceipt>, StoreError> {
        let mut select = self.transaction.prepare_cached(
            r#"SELECT seq, original FROM "commit" WHERE session_key = ? AND local_seq = ?"#,
        )?;
        let known: Option<(u64, String)> = select
            .query_row(params![session_key, commit.local_seq], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match known {
            None => Ok(None),
            Some((_, original)) if original != commit.original => {
                Err(StoreError::LocalSeqReused(commit.local_seq))
            }
            Some((seq, _)) => {
                let revisions = history::load_revisions(self.transaction, seq)?;
                Ok(Some(CommitReceipt { seq, revisions, is_replay: true }))
            }
        }
    }

    pub(super) fn check_conditions(&mut self, session_key: &str, commit: &Commit) -> Result<(), StoreError> {
        for precondition in &commit.preconditions {
            self.check_precondition(session_key, precondition)?;
        }
        for (read, seq) in &commit.confirmed {
            self.check_read("confirmed", read, *seq)?;
        }
        for (read, local_seq) in &commit.pending {
            let seq =
                self.find_seq(session_key, *local_seq)?.ok_or(StoreError::UnresolvedRead(*local_seq))?;
            self.check_read("pending", read, seq)?;
        }
        Ok(())
    }

    fn check_precondition(
        &mut self,
        session_key: &str,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let (holds, name) = match precondition {
            Precondition::OriginCommitted(local_seq) => {
                (self.find_seq(session_key, *local_seq)?.is_some(), "origin-committed")
            }
            Precondition::EntityAbsent(entity) => {
                let key = self.document_key(entity)?;
                (self.load_current(&key)?.document.is_none(), "receipt-exists")
            }
        };
        if holds { Ok(()) } else { Err(StoreError::Precondition(name)) }
    }

    fn check_read(&self, kind: &'static str, read: &Read, after: u64) -> Result<(), StoreError> {
        let key = self.document_key(&read.entity)?;
        // Most documents have not changed since they were read, which the head shows.
        if history::load_head_seq(self.transaction, &key)? <= after {
            return Ok(());
        }
        for (seq, write) in history::load_writes_after(self.transaction, &key, after)? {
            if is_stale(read, &write) {
                return Err(StoreError::StaleRead(kind, key.id, after, seq));
            }
        }
        Ok(())
    }

    fn find_seq(&self, session_key: &str, local_seq: u64) -> Result<Option<u64>, StoreError> {
        let mut select = self
            .transaction
            .prepare_cached(r#"SELECT seq FROM "commit" WHERE session_key = ? AND local_seq = ?"#)?;
        Ok(select.query_row(params![session_key, local_seq], |row| row.get(0)).optional()?)
    }

    fn document_key(&self, entity: &Entity) -> Result<DocumentKey, StoreError> {
        self.identity.document_key(entity).ok_or(StoreError::PrincipalRequired(entity.scope.name()))
    }

    fn load_current(&mut self, key: &DocumentKey) -> Result<DocumentState, StoreError> {
        match self.cache.get(key) {
            Some(state) => Ok(state),
            None => history::load_current(self.transaction, key),
        }
    }

    pub(super) fn write(&mut self, session_key: &str, commit: &Commit) -> Result<CommitEffects, StoreError> {
        let mut insert = self.transaction.prepare_cached(
            r#"INSERT INTO "commit" (seq, branch, session_key, local_seq, original) VALUES (?, '', ?, ?, ?)"#,
        )?;
        insert.execute(params![self.seq, session_key, commit.local_seq, commit.original])?;
        let mut effects = CommitEffects::default();
        for (op_index, operation) in (0_u64..).zip(&commit.operations) {
            let key = self.document_key(&operation.entity)?;
            // An earlier operation of this commit may have changed the document.
            let before = effects.states.get(&key).cloned();
            let (data, document) = self.apply_change(&key, before, &operation.change)?;
            self.write_revision(&key, op_index, &operation.change, data.as_ref(), document.as_deref())?;
            let op = operation.change.name().to_owned();
            effects.states.insert(key.clone(), DocumentState { seq: self.seq, document });
            effects.revisions.push(Revision { key, op_index, op, data });
        }
        self.transaction
            .prepare_cached("UPDATE branch SET head_seq = ? WHERE name = ''")?
            .execute([self.seq])?;
        Ok(effects)
    }

    /// The data of the revision, and the document after the change.
    fn apply_change(
        &mut self,
        key: &DocumentKey,
        before: Option<DocumentState>,
        change: &Change,
    ) -> Result<(Option<Data>, Option<Arc<Data>>), StoreError> {
        match change {
            Change::Set(document) => Ok((Some(document.clone()), Some(Arc::new(document.clone())))),
            Change::Delete => Ok((None, None)),
            Change::Patch(patches, original) => {
                let before = match before {
                    Some(state) => state,
                    None => self.load_current(key)?,
                };
                let document = apply_all(before.document.map(Arc::unwrap_or_clone), patches)?;
                Ok((Some(original.clone()), Some(Arc::new(document))))
            }
        }
    }

    fn write_revision(
        &self,
        key: &DocumentKey,
        op_index: u64,
        change: &Change,
        data: Option<&Data>,
        document: Option<&Data>,
    ) -> Result<(), StoreError> {
        let text = data.map(Data::to_canonical_json);
        let mut insert =
            self.transaction.prepare_cached("INSERT INTO revision VALUES ('', ?, ?, ?, ?, ?, ?)")?;
        insert.execute(params![key.scope_key, key.id, self.seq, op_index, change.name(), text])?;
        let patches = match (change, document) {
            (Change::Patch(..), Some(document)) => self.record_patch(key, op_index, document)?,
            (Change::Patch(..) | Change::Set(_) | Change::Delete, _) => 0,
        };
        let mut head = self.transaction.prepare_cached(
            "INSERT INTO head VALUES ('', ?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE
             SET seq = excluded.seq, op_index = excluded.op_index, patches = excluded.patches",
        )?;
        head.execute(params![key.scope_key, key.id, self.seq, op_index, patches])?;
        Ok(())
    }

    /// Counts one more patch since the document was last stored as a whole, and stores a snapshot
    /// when there are enough.
    fn record_patch(&self, key: &DocumentKey, op_index: u64, document: &Data) -> Result<u64, StoreError> {
        let patches = history::load_patch_count(self.transaction, key)? + 1;
        if patches < PATCHES_PER_SNAPSHOT {
            return Ok(patches);
        }
        let mut insert =
            self.transaction.prepare_cached("INSERT INTO snapshot VALUES ('', ?, ?, ?, ?, ?)")?;
        insert.execute(params![key.scope_key, key.id, self.seq, op_index, document.to_canonical_json()])?;
        let mut prune = self.transaction.prepare_cached(
            "DELETE FROM snapshot WHERE branch = '' AND scope_key = ?1 AND id = ?2 AND (seq, op_index) NOT IN (
                SELECT seq, op_index FROM snapshot WHERE branch = '' AND scope_key = ?1 AND id = ?2
                ORDER BY seq DESC, op_index DESC LIMIT ?3)",
        )?;
        prune.execute(params![key.scope_key, key.id, SNAPSHOTS_KEPT])?;
        Ok(0)
    }
}
