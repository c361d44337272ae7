//! One space in one SQLite file: its commits, every revision of its documents, and where each of them stands.
//!
//! A commit is one immediate transaction, so it is whole or absent, and with `synchronous=FULL` it is on the disk
//! before anybody hears of it. Revisions are never changed; a document is its last whole revision (or snapshot) and
//! the patches since, of which there are at most [`PATCHES_PER_SNAPSHOT`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::codec::Data;
use super::commit::{Change, Commit, Precondition, Read, is_stale};
use super::names::{Key, Owner};
use super::patch::{Patch, PatchError, apply_all};
use super::traverse::State;

mod cache;
mod history;

use cache::Cache;

/// Patches after which a document is written down whole.
const PATCHES_PER_SNAPSHOT: u64 = 10;

/// Snapshots that are kept of a document: the last is for reading, the one before for recent history.
const SNAPSHOTS_KEPT: u64 = 2;

/// Prepared statements that are kept; there are fewer.
const STATEMENTS_CACHED: usize = 32;

const TABLES: &str = r#"
    CREATE TABLE IF NOT EXISTS "commit" (
        seq INTEGER PRIMARY KEY, branch TEXT NOT NULL, session_key TEXT NOT NULL, local_seq INTEGER NOT NULL,
        original TEXT NOT NULL, created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
        UNIQUE (session_key, local_seq)
    );
    CREATE TABLE IF NOT EXISTS revision (
        branch TEXT NOT NULL, scope_key TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
        op_index INTEGER NOT NULL, op TEXT NOT NULL, data TEXT,
        PRIMARY KEY (branch, scope_key, id, seq, op_index)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS revision_of_commit ON revision (seq, op_index);
    CREATE TABLE IF NOT EXISTS head (
        branch TEXT NOT NULL, scope_key TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
        op_index INTEGER NOT NULL, patches INTEGER NOT NULL, PRIMARY KEY (branch, scope_key, id)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS snapshot (
        branch TEXT NOT NULL, scope_key TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
        op_index INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (branch, scope_key, id, seq, op_index)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS branch (name TEXT PRIMARY KEY, head_seq INTEGER NOT NULL, status TEXT NOT NULL) WITHOUT ROWID;
    INSERT OR IGNORE INTO branch VALUES ('', 0, 'active');
"#;

/// How sure an accepted commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Durability {
    /// It survives the loss of power: every commit waits for the disk.
    #[default]
    Full,
    /// It survives the end of the process; the last ones may be lost with the power.
    Normal,
}

/// Why a commit was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("stale {0} read: {1} at seq {2} conflicted with seq {3}")]
    Stale(&'static str, String, u64, u64),
    #[error("pending dependency not resolved: {0}")]
    Unresolved(u64),
    #[error("localSeq {0} was used for another commit")]
    Reused(u64),
    #[error("scope {0} requires a principal")]
    NoPrincipal(&'static str),
    #[error("precondition failed: {0}")]
    Precondition(&'static str),
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("the store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the store failed: {0}")]
    Folder(#[from] std::io::Error),
    #[error("the store is damaged: a document cannot be read")]
    Damaged,
}

/// A change that was accepted, as it is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Revision {
    pub(super) key: Key,
    pub(super) op_index: u64,
    pub(super) op: String,
    /// The document or the patches; a deletion has none.
    pub(super) data: Option<Data>,
}

/// An accepted commit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Applied {
    pub(super) seq: u64,
    pub(super) revisions: Vec<Revision>,
    /// It was accepted before; nothing changed now.
    pub(super) is_replay: bool,
}

/// A space.
pub(super) struct Store {
    connection: Connection,
    seq: u64,
    cache: Cache,
    /// The file that the first commit makes. Until then the space is an empty one in memory: to look for something
    /// that is not there leaves nothing behind.
    unmade: Option<(PathBuf, Durability)>,
}

impl Store {
    /// Opens the file, which is made by the first commit, or a space in memory that ends with the store.
    pub(super) fn open(file: Option<&Path>, durability: Durability) -> Result<Self, StoreError> {
        match file {
            Some(file) if file.exists() => Self::on(Connection::open(file)?, durability),
            Some(file) => {
                let empty = Self::on(Connection::open_in_memory()?, durability)?;
                Ok(Self { unmade: Some((file.to_owned(), durability)), ..empty })
            }
            None => Self::on(Connection::open_in_memory()?, durability),
        }
    }

    fn make_file(&mut self) -> Result<(), StoreError> {
        if let Some((file, durability)) = &self.unmade {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            *self = Self::on(Connection::open(file)?, *durability)?;
        }
        Ok(())
    }

    fn on(connection: Connection, durability: Durability) -> Result<Self, StoreError> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        connection.execute_batch(TABLES)?;
        let seq =
            connection.query_row(r#"SELECT COALESCE(MAX(seq), 0) FROM "commit""#, [], |row| row.get(0))?;
        Ok(Self { connection, seq, cache: Cache::default(), unmade: None })
    }

    /// The number of the last commit.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The identity of the first commit that had one, escaped as in its session key.
    pub(super) fn creator(&self) -> Result<Option<String>, StoreError> {
        let mut select = self.connection.prepare_cached(
            r#"SELECT session_key FROM "commit" WHERE session_key GLOB 'session:*:*' ORDER BY seq LIMIT 1"#,
        )?;
        let key: Option<String> = select.query_row([], |row| row.get(0)).optional()?;
        Ok(key.and_then(|key| key.split(':').nth(1).map(str::to_owned)))
    }

    /// A document as it stands now.
    pub(super) fn state(&mut self, key: &Key) -> Result<State, StoreError> {
        if let Some(state) = self.cache.get(key) {
            return Ok(state);
        }
        let state = history::current(&self.connection, key)?;
        self.cache.put(key.clone(), state.clone());
        Ok(state)
    }

    /// A document as it stood after a commit.
    pub(super) fn state_at(&self, key: &Key, seq: u64) -> Result<State, StoreError> {
        history::at(&self.connection, key, seq)
    }

    /// Writes a commit, or nothing of it.
    pub(super) fn commit(&mut self, owner: &Owner, commit: &Commit) -> Result<Applied, StoreError> {
        self.make_file()?;
        let seq = self.seq + 1;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut writer = Writer { transaction: &transaction, owner, seq, cache: &mut self.cache };
        let session_key = owner.session_key();
        if let Some(applied) = writer.replayed(&session_key, commit)? {
            return Ok(applied);
        }
        writer.check(&session_key, commit)?;
        let written = writer.write(&session_key, commit)?;
        transaction.commit()?;
        self.seq = seq;
        for (key, state) in written.states {
            self.cache.put(key, state);
        }
        Ok(Applied { seq, revisions: written.revisions, is_replay: false })
    }
}

struct Writer<'a> {
    transaction: &'a Transaction<'a>,
    owner: &'a Owner,
    seq: u64,
    cache: &'a mut Cache,
}

impl Writer<'_> {
    /// What was answered before to the same commit of the same session.
    fn replayed(&self, session_key: &str, commit: &Commit) -> Result<Option<Applied>, StoreError> {
        let mut select = self.transaction.prepare_cached(
            r#"SELECT seq, original FROM "commit" WHERE session_key = ? AND local_seq = ?"#,
        )?;
        let known: Option<(u64, String)> = select
            .query_row(params![session_key, commit.local_seq], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match known {
            None => Ok(None),
            Some((_, original)) if original != commit.original => Err(StoreError::Reused(commit.local_seq)),
            Some((seq, _)) => {
                let revisions = history::revisions_of(self.transaction, seq)?;
                Ok(Some(Applied { seq, revisions, is_replay: true }))
            }
        }
    }

    fn check(&mut self, session_key: &str, commit: &Commit) -> Result<(), StoreError> {
        for precondition in &commit.preconditions {
            self.check_precondition(session_key, precondition)?;
        }
        for (read, seq) in &commit.confirmed {
            self.check_read("confirmed", read, *seq)?;
        }
        for (read, local_seq) in &commit.pending {
            let seq = self.seq_of(session_key, *local_seq)?.ok_or(StoreError::Unresolved(*local_seq))?;
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
                (self.seq_of(session_key, *local_seq)?.is_some(), "origin-committed")
            }
            Precondition::EntityAbsent(entity) => {
                let key = self.key(entity)?;
                (self.current(&key)?.document.is_none(), "receipt-exists")
            }
        };
        if holds { Ok(()) } else { Err(StoreError::Precondition(name)) }
    }

    fn check_read(&self, kind: &'static str, read: &Read, after: u64) -> Result<(), StoreError> {
        let key = self.key(&read.entity)?;
        // Most reads are of what has not changed since; the head alone tells.
        if history::head_seq(self.transaction, &key)? <= after {
            return Ok(());
        }
        for (seq, written) in history::written_after(self.transaction, &key, after)? {
            if is_stale(read, &written) {
                return Err(StoreError::Stale(kind, key.id, after, seq));
            }
        }
        Ok(())
    }

    fn seq_of(&self, session_key: &str, local_seq: u64) -> Result<Option<u64>, StoreError> {
        let mut select = self
            .transaction
            .prepare_cached(r#"SELECT seq FROM "commit" WHERE session_key = ? AND local_seq = ?"#)?;
        Ok(select.query_row(params![session_key, local_seq], |row| row.get(0)).optional()?)
    }

    fn key(&self, entity: &super::names::Entity) -> Result<Key, StoreError> {
        self.owner.key(entity).ok_or(StoreError::NoPrincipal(entity.scope.name()))
    }

    fn current(&mut self, key: &Key) -> Result<State, StoreError> {
        match self.cache.get(key) {
            Some(state) => Ok(state),
            None => history::current(self.transaction, key),
        }
    }

    fn write(&mut self, session_key: &str, commit: &Commit) -> Result<Written, StoreError> {
        let mut insert = self.transaction.prepare_cached(
            r#"INSERT INTO "commit" (seq, branch, session_key, local_seq, original) VALUES (?, '', ?, ?, ?)"#,
        )?;
        insert.execute(params![self.seq, session_key, commit.local_seq, commit.original])?;
        let mut written = Written::default();
        for (op_index, operation) in (0_u64..).zip(&commit.operations) {
            let key = self.key(&operation.entity)?;
            // An earlier operation of the same commit may have changed the same document.
            let before = written.states.get(&key).cloned();
            let (data, document) = self.changed(&key, before, &operation.change)?;
            self.write_revision(&key, op_index, &operation.change, data.as_ref(), document.as_deref())?;
            let op = operation.change.name().to_owned();
            written.states.insert(key.clone(), State { seq: self.seq, document });
            written.revisions.push(Revision { key, op_index, op, data });
        }
        self.transaction
            .prepare_cached("UPDATE branch SET head_seq = ? WHERE name = ''")?
            .execute([self.seq])?;
        Ok(written)
    }

    /// What a change is recorded as, and the document after it.
    fn changed(
        &mut self,
        key: &Key,
        before: Option<State>,
        change: &Change,
    ) -> Result<(Option<Data>, Option<Arc<Data>>), StoreError> {
        match change {
            Change::Set(document) => Ok((Some(document.clone()), Some(Arc::new(document.clone())))),
            Change::Delete => Ok((None, None)),
            Change::Patch(patches, written) => {
                let before = match before {
                    Some(state) => state,
                    None => self.current(key)?,
                };
                let document = apply_all(before.document.map(Arc::unwrap_or_clone), patches)?;
                Ok((Some(written.clone()), Some(Arc::new(document))))
            }
        }
    }

    fn write_revision(
        &self,
        key: &Key,
        op_index: u64,
        change: &Change,
        data: Option<&Data>,
        document: Option<&Data>,
    ) -> Result<(), StoreError> {
        let text = data.map(Data::to_stored);
        let mut insert =
            self.transaction.prepare_cached("INSERT INTO revision VALUES ('', ?, ?, ?, ?, ?, ?)")?;
        insert.execute(params![key.scope_key, key.id, self.seq, op_index, change.name(), text])?;
        let patches = match (change, document) {
            (Change::Patch(..), Some(document)) => self.count_patch(key, op_index, document)?,
            (Change::Patch(..) | Change::Set(_) | Change::Delete, _) => 0,
        };
        let mut head = self.transaction.prepare_cached(
            "INSERT INTO head VALUES ('', ?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE
             SET seq = excluded.seq, op_index = excluded.op_index, patches = excluded.patches",
        )?;
        head.execute(params![key.scope_key, key.id, self.seq, op_index, patches])?;
        Ok(())
    }

    /// How many patches a document is from its last whole form, after one more.
    fn count_patch(&self, key: &Key, op_index: u64, document: &Data) -> Result<u64, StoreError> {
        let patches = history::patches(self.transaction, key)? + 1;
        if patches < PATCHES_PER_SNAPSHOT {
            return Ok(patches);
        }
        let mut insert =
            self.transaction.prepare_cached("INSERT INTO snapshot VALUES ('', ?, ?, ?, ?, ?)")?;
        insert.execute(params![key.scope_key, key.id, self.seq, op_index, document.to_stored()])?;
        let mut forget = self.transaction.prepare_cached(
            "DELETE FROM snapshot WHERE branch = '' AND scope_key = ?1 AND id = ?2 AND (seq, op_index) NOT IN (
                SELECT seq, op_index FROM snapshot WHERE branch = '' AND scope_key = ?1 AND id = ?2
                ORDER BY seq DESC, op_index DESC LIMIT ?3)",
        )?;
        forget.execute(params![key.scope_key, key.id, SNAPSHOTS_KEPT])?;
        Ok(0)
    }
}

/// What a commit did: each revision, and how each document stands after all of them.
#[derive(Default)]
struct Written {
    revisions: Vec<Revision>,
    states: HashMap<Key, State>,
}

/// What a stored patch says.
fn stored_patches(text: &str) -> Result<Vec<Patch>, StoreError> {
    let data = Data::from_stored(text).map_err(|_| StoreError::Damaged)?;
    let patches = data.as_list().ok_or(StoreError::Damaged)?;
    patches.iter().map(|patch| Patch::from_data(patch).map_err(StoreError::from)).collect()
}

#[cfg(test)]
mod tests;
