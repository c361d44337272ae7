//! The entries in SQLite, and the number of keys per namespace.
//!
//! Compare-and-set needs no transaction: the database's thread never interleaves the statements of
//! two jobs.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::store::database::{Database, StoreError};

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

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NamespaceFull(#[from] NamespaceFull),
}

/// The namespace already has the most keys that it can hold.
#[derive(Debug, thiserror::Error)]
#[error("namespace is full: it has {0} keys")]
pub(super) struct NamespaceFull(u64);

pub(super) struct EntryKey {
    pub(super) namespace: String,
    pub(super) key: String,
}

/// A handle to the database's thread; cheap to clone.
#[derive(Clone)]
pub(super) struct Store {
    database: Database,
    keys_max: u64,
}

impl Store {
    pub(super) fn open(path: Option<&Path>, keys_max: u64) -> Result<Self, StoreError> {
        let database = Database::open("kv", path, |connection| connection.execute_batch(TABLES))?;
        Ok(Self { database, keys_max })
    }

    pub(super) async fn get(&self, entry: EntryKey) -> Result<Option<String>, StoreError> {
        self.database.run(move |connection| read(connection, &entry)).await
    }

    pub(super) async fn set(&self, entry: EntryKey, value: String) -> Result<(), WriteError> {
        let keys_max = self.keys_max;
        Ok(self.database.run(move |connection| write(connection, &entry, &value, keys_max)).await??)
    }

    pub(super) async fn delete(&self, entry: EntryKey) -> Result<bool, StoreError> {
        let delete = move |connection: &mut Connection| {
            let mut delete =
                connection.prepare_cached("DELETE FROM entries WHERE namespace = ? AND key = ?")?;
            Ok(delete.execute(params![entry.namespace, entry.key])? > 0)
        };
        self.database.run(delete).await
    }

    /// Stores `value` if the current value equals `expected`; `None` expects the key to be absent.
    /// Returns whether the value was stored.
    pub(super) async fn swap(
        &self,
        entry: EntryKey,
        expected: Option<Value>,
        value: String,
    ) -> Result<bool, WriteError> {
        let keys_max = self.keys_max;
        let swap = move |connection: &mut Connection| {
            let current =
                read(connection, &entry)?.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if current != expected {
                return Ok(Ok(false));
            }
            Ok(write(connection, &entry, &value, keys_max)?.map(|()| true))
        };
        Ok(self.database.run(swap).await??)
    }

    /// Returns the keys that start with `prefix` and come after `after`, in byte order.
    pub(super) async fn list(
        &self,
        namespace: String,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let list = move |connection: &mut Connection| {
            let mut select = connection.prepare_cached(
                "SELECT key FROM entries WHERE namespace = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key",
            )?;
            let mut rows = select.query(params![namespace, prefix, after])?;
            let mut keys = Vec::new();
            while keys.len() < limit
                && let Some(row) = rows.next()?
            {
                let key: String = row.get(0)?;
                // In byte order, the keys that share a prefix are adjacent.
                if !key.starts_with(&prefix) {
                    break;
                }
                keys.push(key);
            }
            Ok(keys)
        };
        self.database.run(list).await
    }
}

fn read(connection: &Connection, entry: &EntryKey) -> rusqlite::Result<Option<String>> {
    let mut select =
        connection.prepare_cached("SELECT value FROM entries WHERE namespace = ? AND key = ?")?;
    select.query_row(params![entry.namespace, entry.key], |row| row.get(0)).optional()
}

fn write(
    connection: &Connection,
    entry: &EntryKey,
    value: &str,
    keys_max: u64,
) -> rusqlite::Result<Result<(), NamespaceFull>> {
    let mut update =
        connection.prepare_cached("UPDATE entries SET value = ?3 WHERE namespace = ?1 AND key = ?2")?;
    if update.execute(params![entry.namespace, entry.key, value])? > 0 {
        return Ok(Ok(()));
    }
    let mut count = connection.prepare_cached("SELECT keys FROM namespaces WHERE namespace = ?")?;
    let keys: Option<i64> = count.query_row(params![entry.namespace], |row| row.get(0)).optional()?;
    if u64::try_from(keys.unwrap_or(0)).unwrap_or(0) >= keys_max {
        return Ok(Err(NamespaceFull(keys_max)));
    }
    let mut insert = connection.prepare_cached("INSERT INTO entries VALUES (?, ?, ?)")?;
    insert.execute(params![entry.namespace, entry.key, value])?;
    Ok(Ok(()))
}
