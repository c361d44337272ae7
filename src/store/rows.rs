//! The state database: what is known of stored sessions without reading their images.
//!
//! A row of an image may be missing or behind after a crash. What matters of it is in the image as well, or is
//! remembered again when the images are listed at the start.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;
use super::database::{Database, StoreError as DatabaseError};

/// The format of the folder. A folder of a later one is refused.
pub(crate) const STATE_FORMAT: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS session (
        id TEXT PRIMARY KEY, principal TEXT NOT NULL, owner TEXT NOT NULL, expires_at_ms INTEGER, record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS session_expires ON session (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
    CREATE INDEX IF NOT EXISTS session_principal ON session (principal);
    CREATE TABLE IF NOT EXISTS image (
        id TEXT PRIMARY KEY, slot INTEGER NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
        wake_at_ms INTEGER
    ) STRICT;";

/// What the database says about an image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ImageRow {
    pub(super) slot: u32,
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) wake_at_ms: Option<u64>,
}

/// What the database holds when a server starts.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Past [`STATE_FORMAT`] nothing else was read.
    pub(super) format: i64,
    /// Where the address windows of sessions begin.
    pub(super) base: u64,
    /// Whether the server before stopped in order.
    pub(super) is_clean: bool,
    pub(super) images: HashMap<String, ImageRow>,
    /// The principals of all sessions.
    pub(super) principals: HashMap<String, Arc<str>>,
}

/// Prepares the tables and reads what is there. `new_base` is for a new folder. From here on the folder counts as one
/// whose server did not stop in order.
pub(super) fn start(connection: &Connection, new_base: u64) -> rusqlite::Result<Start> {
    create_tables(connection)?;
    let format = read_meta(connection, "format")?.unwrap_or(STATE_FORMAT);
    if format > STATE_FORMAT {
        return Ok(Start { format, ..Start::default() });
    }
    write_meta(connection, "format", STATE_FORMAT)?;
    let base = match read_meta(connection, "base")? {
        Some(base) => base.cast_unsigned(),
        None => {
            write_meta(connection, "base", new_base.cast_signed())?;
            new_base
        }
    };
    let is_clean = read_meta(connection, "clean")?.is_none_or(|clean| clean == 1);
    write_meta(connection, "clean", 0)?;
    Ok(Start {
        format,
        base,
        is_clean,
        images: read_images(connection)?,
        principals: read_principals(connection)?,
    })
}

/// Makes the tables that are missing.
pub(crate) fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)
}

fn read_meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT value FROM meta WHERE key = ?";
    connection.query_row(query, [key], |row| row.get(0)).optional()
}

fn write_meta(connection: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    let insert = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    connection.execute(insert, params![key, value]).map(drop)
}

fn read_images(connection: &Connection) -> rusqlite::Result<HashMap<String, ImageRow>> {
    let mut query = connection.prepare("SELECT id, slot, epoch, sequence, wake_at_ms FROM image")?;
    let rows = query.query_map([], |row| {
        let image = ImageRow {
            slot: row.get(1)?,
            epoch: row.get(2)?,
            sequence: row.get(3)?,
            wake_at_ms: row.get(4)?,
        };
        Ok((row.get(0)?, image))
    })?;
    rows.collect()
}

fn read_principals(connection: &Connection) -> rusqlite::Result<HashMap<String, Arc<str>>> {
    let mut query = connection.prepare("SELECT id, principal FROM session")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?.into())))?;
    rows.collect()
}

/// Writes what is known of an image.
pub(super) fn put(connection: &Connection, id: &str, row: ImageRow) -> rusqlite::Result<()> {
    let ImageRow { slot, epoch, sequence, wake_at_ms } = row;
    let insert = "INSERT INTO image VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO UPDATE SET
                  slot = ?2, epoch = ?3, sequence = max(sequence, ?4), wake_at_ms = ?5";
    connection.prepare_cached(insert)?.execute(params![id, slot, epoch, sequence, wake_at_ms]).map(drop)
}

pub(super) fn remove(connection: &mut Connection, ids: &[Arc<str>]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for id in ids {
        transaction.prepare_cached("DELETE FROM image WHERE id = ?")?.execute([&**id])?;
    }
    transaction.commit()
}

/// Removes the records of sessions that are gone.
pub(super) fn end_sessions(connection: &mut Connection, ids: &[Arc<str>]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for id in ids {
        transaction.prepare_cached("DELETE FROM session WHERE id = ?")?.execute([&**id])?;
    }
    transaction.commit()
}

/// Connections ended with the server before: their sessions wait for their clients.
pub(super) fn detach_all(connection: &Connection, until_ms: u64) -> rusqlite::Result<()> {
    let update = "UPDATE session SET expires_at_ms = ? WHERE expires_at_ms IS NULL";
    connection.execute(update, [until_ms]).map(drop)
}

/// The server stops in order.
pub(super) fn mark_clean(connection: &Connection) -> rusqlite::Result<()> {
    write_meta(connection, "clean", 1)
}

/// Runs a job on the database's thread and blocks this one until it is done.
pub(super) fn run_blocking<T: Send + 'static>(
    database: &Database,
    job: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let (done_tx, done_rx) = sync_channel(1);
    let queued = database.submit(move |connection| drop(done_tx.send(job(connection))));
    queued.map_err(|_| DatabaseError::Closed)?;
    let outcome = done_rx.recv().map_err(|_| DatabaseError::Closed)?;
    Ok(outcome.map_err(DatabaseError::Sqlite)?)
}
