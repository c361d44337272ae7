//! The SQLite side: what the handlers have done there.
//!
//! Compare-and-set needs no transaction: nothing comes between the two statements of one piece of work.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::bindings::sqlite::{Database, StoreError};

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

/// Why a value was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Full(#[from] Full),
}

/// There is no room for one more key.
#[derive(Debug, thiserror::Error)]
#[error("the namespace is full: it has {0} keys")]
pub(super) struct Full(u64);

/// Where a value lies.
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) key: String,
}

/// A handle. Cheap to clone.
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

    pub(super) async fn get(&self, place: Place) -> Result<Option<String>, StoreError> {
        self.database.run(move |connection| read(connection, &place)).await
    }

    pub(super) async fn set(&self, place: Place, value: String) -> Result<(), WriteError> {
        let keys_max = self.keys_max;
        Ok(self.database.run(move |connection| write(connection, &place, &value, keys_max)).await??)
    }

    pub(super) async fn delete(&self, place: Place) -> Result<bool, StoreError> {
        let delete = move |connection: &mut Connection| {
            let mut delete =
                connection.prepare_cached("DELETE FROM entries WHERE namespace = ? AND key = ?")?;
            Ok(delete.execute(params![place.namespace, place.key])? > 0)
        };
        self.database.run(delete).await
    }

    /// Stores `value` if what is there is `expected`; `None` means that nothing is there.
    pub(super) async fn swap(
        &self,
        place: Place,
        expected: Option<Value>,
        value: String,
    ) -> Result<bool, WriteError> {
        let keys_max = self.keys_max;
        let swap = move |connection: &mut Connection| {
            let current =
                read(connection, &place)?.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if current != expected {
                return Ok(Ok(false));
            }
            Ok(write(connection, &place, &value, keys_max)?.map(|()| true))
        };
        Ok(self.database.run(swap).await??)
    }

    /// Keys that begin with `prefix` and come after `after`, in the order of their bytes.
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
                // In the order of bytes, the keys with a prefix stand together.
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

fn read(connection: &Connection, place: &Place) -> rusqlite::Result<Option<String>> {
    let mut select =
        connection.prepare_cached("SELECT value FROM entries WHERE namespace = ? AND key = ?")?;
    select.query_row(params![place.namespace, place.key], |row| row.get(0)).optional()
}

fn write(
    connection: &Connection,
    place: &Place,
    value: &str,
    keys_max: u64,
) -> rusqlite::Result<Result<(), Full>> {
    let mut update =
        connection.prepare_cached("UPDATE entries SET value = ?3 WHERE namespace = ?1 AND key = ?2")?;
    if update.execute(params![place.namespace, place.key, value])? > 0 {
        return Ok(Ok(()));
    }
    let mut count = connection.prepare_cached("SELECT keys FROM namespaces WHERE namespace = ?")?;
    let keys: Option<i64> = count.query_row(params![place.namespace], |row| row.get(0)).optional()?;
    if u64::try_from(keys.unwrap_or(0)).unwrap_or(0) >= keys_max {
        return Ok(Err(Full(keys_max)));
    }
    let mut insert = connection.prepare_cached("INSERT INTO entries VALUES (?, ?, ?)")?;
    insert.execute(params![place.namespace, place.key, value])?;
    Ok(Ok(()))
}
