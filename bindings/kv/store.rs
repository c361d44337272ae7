//! The SQLite side: one connection on a thread of its own, to which the handlers send work.
//!
//! SQLite writes one at a time anyway, and a thread of its own keeps the disk away from the threads that run scripts.
//! Compare-and-set needs no transaction for the same reason: nothing runs between its two statements.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Work that waits for the disk.
/// More than any disk needs to be busy; whoever comes next waits in its own handler, within its own time limit.
const JOBS_QUEUED_MAX: usize = 1024;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS entries (
        namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (namespace, key)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS namespaces (namespace TEXT PRIMARY KEY, keys INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TRIGGER IF NOT EXISTS key_added AFTER INSERT ON entries BEGIN
        INSERT INTO namespaces VALUES (new.namespace, 1) ON CONFLICT DO UPDATE SET keys = keys + 1;
    END;
    CREATE TRIGGER IF NOT EXISTS key_removed AFTER DELETE ON entries BEGIN
        UPDATE namespaces SET keys = keys - 1 WHERE namespace = old.namespace;
    END;
";

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("the store failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the store's thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("the namespace is full: it has {0} keys")]
    Full(u64),
    #[error("the store is gone")]
    Gone,
}

/// Where a value lies.
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) key: String,
}

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// A handle; the thread ends with the last one.
#[derive(Clone)]
pub(super) struct Store {
    jobs_tx: mpsc::Sender<Job>,
    keys_max: Arc<u64>,
}

impl Store {
    pub(super) fn open(path: Option<&Path>, keys_max: u64) -> Result<Self, StoreError> {
        let connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        // Readers of the file beside us (a backup) do not stop us then, and a commit is one write.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch(TABLES)?;
        let (jobs_tx, mut jobs_rx) = mpsc::channel::<Job>(JOBS_QUEUED_MAX);
        std::thread::Builder::new().name("kv".to_owned()).spawn(move || {
            while let Some(job) = jobs_rx.blocking_recv() {
                job(&connection);
            }
        })?;
        Ok(Self { jobs_tx, keys_max: Arc::new(keys_max) })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done_tx, done_rx) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Work for a caller that stopped waiting is not begun.
            if !done_tx.is_closed() {
                let _ = done_tx.send(work(connection));
            }
        });
        self.jobs_tx.send(job).await.map_err(|_| StoreError::Gone)?;
        done_rx.await.map_err(|_| StoreError::Gone)?
    }

    pub(super) async fn get(&self, place: Place) -> Result<Option<String>, StoreError> {
        self.run(move |connection| read(connection, &place)).await
    }

    pub(super) async fn set(&self, place: Place, value: String) -> Result<(), StoreError> {
        let keys_max = *self.keys_max;
        self.run(move |connection| write(connection, &place, &value, keys_max)).await
    }

    pub(super) async fn delete(&self, place: Place) -> Result<bool, StoreError> {
        self.run(move |connection| {
            let mut delete =
                connection.prepare_cached("DELETE FROM entries WHERE namespace = ? AND key = ?")?;
            Ok(delete.execute(params![place.namespace, place.key])? > 0)
        })
        .await
    }

    /// Stores `value` if what is there is `expected`; `None` means that nothing is there.
    pub(super) async fn swap(
        &self,
        place: Place,
        expected: Option<Value>,
        value: String,
    ) -> Result<bool, StoreError> {
        let keys_max = *self.keys_max;
        self.run(move |connection| {
            let current =
                read(connection, &place)?.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if current != expected {
                return Ok(false);
            }
            write(connection, &place, &value, keys_max)?;
            Ok(true)
        })
        .await
    }

    /// Keys that begin with `prefix` and come after `after`, in the order of their bytes.
    pub(super) async fn list(
        &self,
        namespace: String,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.run(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT key FROM entries WHERE namespace = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key",
            )?;
            let mut rows = select.query(params![namespace, prefix, after])?;
            let mut keys = Vec::new();
            while keys.len() < limit
                && let Some(row) = rows.next()?
            {
                let key: String = row.get(0)?;
                // In the order of bytes, the keys with a prefix stand together.
                if !key.starts_with(&prefix) {
                    break;
                }
                keys.push(key);
            }
            Ok(keys)
        })
        .await
    }
}

fn read(connection: &Connection, place: &Place) -> Result<Option<String>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT value FROM entries WHERE namespace = ? AND key = ?")?;
    Ok(select.query_row(params![place.namespace, place.key], |row| row.get(0)).optional()?)
}

fn write(connection: &Connection, place: &Place, value: &str, keys_max: u64) -> Result<(), StoreError> {
    let mut update =
        connection.prepare_cached("UPDATE entries SET value = ?3 WHERE namespace = ?1 AND key = ?2")?;
    if update.execute(params![place.namespace, place.key, value])? > 0 {
        return Ok(());
    }
    let mut count = connection.prepare_cached("SELECT keys FROM namespaces WHERE namespace = ?")?;
    let keys: Option<i64> = count.query_row(params![place.namespace], |row| row.get(0)).optional()?;
    if u64::try_from(keys.unwrap_or(0)).unwrap_or(0) >= keys_max {
        return Err(StoreError::Full(keys_max));
    }
    let mut insert = connection.prepare_cached("INSERT INTO entries VALUES (?, ?, ?)")?;
    insert.execute(params![place.namespace, place.key, value])?;
    Ok(())
}
