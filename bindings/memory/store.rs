//! The SQLite file of a space: its commits, every revision of its documents, and their current
//! heads.
//!
//! A commit is one immediate transaction, so it is written completely or not at all, and with
//! `synchronous=FULL` it is on the disk before a client learns of it. Revisions are never changed;
//! a document is its last whole revision (or snapshot) and the patches since, of which there are
//! fewer than [`PATCHES_PER_SNAPSHOT`].

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::codec::Data;
use super::commit::Commit;
use super::names::{DocumentKey, SessionIdentity};
use super::patch::PatchError;
use super::traverse::DocumentState;

mod cache;
mod history;
mod writer;

use cache::Cache;
use writer::Writer;

/// Patches after which a snapshot of the document is stored.
const PATCHES_PER_SNAPSHOT: u64 = 10;

/// Snapshots kept per document: the last is for reading, the one before for recent history.
const SNAPSHOTS_KEPT: u64 = 2;

/// Capacity of the statement cache; more than there are statements.
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

/// What an accepted commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Durability {
    /// A power failure: every commit waits for the disk.
    #[default]
    Full,
    /// The end of the process; a power failure may lose the last commits.
    Normal,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("stale {0} read: {1} at seq {2} conflicted with seq {3}")]
    StaleRead(&'static str, String, u64, u64),
    #[error("pending dependency not resolved: {0}")]
    UnresolvedRead(u64),
    #[error("localSeq {0} is already used by another commit")]
    LocalSeqReused(u64),
    #[error("scope {0} requires a principal")]
    PrincipalRequired(&'static str),
    #[error("precondition failed: {0}")]
    Precondition(&'static str),
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("store failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("store is corrupt: a document cannot be decoded")]
    Corrupt,
}

/// An accepted change of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Revision {
    pub(super) key: DocumentKey,
    pub(super) op_index: u64,
    pub(super) op: String,
    /// The document or the patches; `None` for a deletion.
    pub(super) data: Option<Data>,
}

/// An accepted commit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommitReceipt {
    pub(super) seq: u64,
    pub(super) revisions: Vec<Revision>,
    /// The commit was accepted before, and nothing was written now.
    pub(super) is_replay: bool,
}

pub(super) struct Store {
    connection: Connection,
    seq: u64,
    cache: Cache,
    /// The file that the first commit creates. Until then the store is empty and in memory, so that
    /// reading a space that does not exist leaves no file behind.
    missing_file: Option<(PathBuf, Durability)>,
}

impl Store {
    /// Opens the file, which the first commit creates, or without a file a store in memory.
    pub(super) fn open(file: Option<&Path>, durability: Durability) -> Result<Self, StoreError> {
        match file {
            Some(file) if file.exists() => Self::with_connection(Connection::open(file)?, durability),
            Some(file) => {
                let empty = Self::with_connection(Connection::open_in_memory()?, durability)?;
                Ok(Self { missing_file: Some((file.to_owned(), durability)), ..empty })
            }
            None => Self::with_connection(Connection::open_in_memory()?, durability),
        }
    }

    fn create_file(&mut self) -> Result<(), StoreError> {
        if let Some((file, durability)) = &self.missing_file {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            *self = Self::with_connection(Connection::open(file)?, *durability)?;
        }
        Ok(())
    }

    fn with_connection(connection: Connection, durability: Durability) -> Result<Self, StoreError> {
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
        Ok(Self { connection, seq, cache: Cache::default(), missing_file: None })
    }

    /// The seq of the last commit; 0 before the first one.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The principal of the first commit that has one, escaped as in its session key.
    pub(super) fn find_creator(&self) -> Result<Option<String>, StoreError> {
        let mut select = self.connection.prepare_cached(
            r#"SELECT session_key FROM "commit" WHERE session_key GLOB 'session:*:*' ORDER BY seq LIMIT 1"#,
        )?;
        let key: Option<String> = select.query_row([], |row| row.get(0)).optional()?;
        Ok(key.and_then(|key| key.split(':').nth(1).map(str::to_owned)))
    }

    pub(super) fn load_document(&mut self, key: &DocumentKey) -> Result<DocumentState, StoreError> {
        if let Some(state) = self.cache.get(key) {
            return Ok(state);
        }
        let state = history::load_current(&self.connection, key)?;
        self.cache.put(key.clone(), state.clone());
        Ok(state)
    }

    /// Loads a document as of a commit.
    pub(super) fn load_document_at(&self, key: &DocumentKey, seq: u64) -> Result<DocumentState, StoreError> {
        history::load_at(&self.connection, key, seq)
    }

    /// Writes a commit completely, or not at all.
    pub(super) fn commit(
        &mut self,
        identity: &SessionIdentity,
        commit: &Commit,
    ) -> Result<CommitReceipt, StoreError> {
        self.create_file()?;
        let seq = self.seq + 1;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut writer = Writer::new(&transaction, identity, seq, &mut self.cache);
        let session_key = identity.session_key();
        if let Some(receipt) = writer.find_replay(&session_key, commit)? {
            return Ok(receipt);
        }
        writer.check_conditions(&session_key, commit)?;
        let effects = writer.write(&session_key, commit)?;
        transaction.commit()?;
        self.seq = seq;
        for (key, state) in effects.states {
            self.cache.put(key, state);
        }
        Ok(CommitReceipt { seq, revisions: effects.revisions, is_replay: false })
    }
}

#[cfg(test)]
mod tests;
