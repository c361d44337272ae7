//! Reading what was written: a document now or at an earlier time, and what came after a read.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::codec::Data;
use super::super::commit::Written;
use super::super::names::Key;
use super::super::patch::apply_all;
use super::super::traverse::State;
use super::{Revision, StoreError, stored_patches};

/// A whole document, or the absence of one, from which patches go on.
struct Base {
    seq: u64,
    op_index: u64,
    document: Option<Data>,
}

/// A document as it stands. Most were written whole last, and are one lookup away.
pub(super) fn current(connection: &Connection, key: &Key) -> Result<State, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT seq, op, data FROM head JOIN revision USING (branch, scope_key, id, seq, op_index)
         WHERE branch = '' AND scope_key = ? AND id = ?",
    )?;
    let last = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let last: Option<(u64, String, Option<String>)> =
        select.query_row(params![key.scope_key, key.id], last).optional()?;
    match last {
        None => Ok(State::default()),
        Some((seq, op, _)) if op == "patch" => at(connection, key, seq),
        Some((seq, _, text)) => {
            let document = text.map(|text| Data::from_stored(&text)).transpose();
            Ok(State { seq, document: document.map_err(|_| StoreError::Damaged)?.map(Arc::new) })
        }
    }
}

/// A document after a commit.
pub(super) fn at(connection: &Connection, key: &Key, at: u64) -> Result<State, StoreError> {
    // SQLite counts up to here.
    let at = at.min(i64::MAX.unsigned_abs());
    let seq = last_seq(connection, key, at)?;
    if seq == 0 {
        return Ok(State::default());
    }
    let base = base(connection, key, at)?;
    let mut document = base.document;
    let mut select = connection.prepare_cached(
        "SELECT data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         AND (seq, op_index) > (?, ?) ORDER BY seq, op_index",
    )?;
    let mut rows = select.query(params![key.scope_key, key.id, at, base.seq, base.op_index])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        document = Some(apply_all(document, &stored_patches(&text)?)?);
    }
    Ok(State { seq, document: document.map(Arc::new) })
}

fn last_seq(connection: &Connection, key: &Key, at: u64) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT COALESCE(MAX(seq), 0) FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?",
    )?;
    Ok(select.query_row(params![key.scope_key, key.id, at], |row| row.get(0))?)
}

/// The later one of the last snapshot and the last whole revision. After a snapshot there are few revisions to look
/// through, however many there are before it.
fn base(connection: &Connection, key: &Key, at: u64) -> Result<Base, StoreError> {
    let mut snapshot = connection.prepare_cached(
        "SELECT seq, op_index, document FROM snapshot WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         ORDER BY seq DESC, op_index DESC LIMIT 1",
    )?;
    let snapshot = snapshot.query_row(params![key.scope_key, key.id, at], found).optional()?;
    let (from_seq, from_index) = snapshot.as_ref().map_or((0, 0), |(seq, op_index, _)| (*seq, *op_index));
    let mut whole = connection.prepare_cached(
        "SELECT seq, op_index, data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         AND (seq, op_index) > (?, ?) AND op <> 'patch' ORDER BY seq DESC, op_index DESC LIMIT 1",
    )?;
    let whole =
        whole.query_row(params![key.scope_key, key.id, at, from_seq, from_index], found).optional()?;
    let Some((seq, op_index, text)) = whole.or(snapshot) else {
        return Ok(Base { seq: 0, op_index: 0, document: None });
    };
    let document = text.map(|text| Data::from_stored(&text)).transpose().map_err(|_| StoreError::Damaged)?;
    Ok(Base { seq, op_index, document })
}

fn found(row: &Row<'_>) -> rusqlite::Result<(u64, u64, Option<String>)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// The commit that a document was changed by last; 0 if by none.
pub(super) fn head_seq(connection: &Connection, key: &Key) -> Result<u64, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT seq FROM head WHERE branch = '' AND scope_key = ? AND id = ?")?;
    let seq = select.query_row(params![key.scope_key, key.id], |row| row.get(0)).optional()?;
    Ok(seq.unwrap_or(0))
}

/// Everything that was written to a document after a commit, in order.
pub(super) fn written_after(
    connection: &Connection,
    key: &Key,
    after: u64,
) -> Result<Vec<(u64, Written)>, StoreError> {
    let after = after.min(i64::MAX.unsigned_abs());
    let mut select = connection.prepare_cached(
        "SELECT seq, op, data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq > ?
         ORDER BY seq, op_index",
    )?;
    let mut rows = select.query(params![key.scope_key, key.id, after])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (op, data): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        let written = match (op.as_str(), data) {
            ("patch", Some(text)) => Written::Patches(stored_patches(&text)?),
            _ => Written::Whole,
        };
        found.push((row.get(0)?, written));
    }
    Ok(found)
}

/// What a commit wrote, in order.
pub(super) fn revisions_of(connection: &Connection, seq: u64) -> Result<Vec<Revision>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT id, scope_key, op_index, op, data FROM revision WHERE seq = ? ORDER BY op_index",
    )?;
    let mut rows = select.query([seq])?;
    let mut revisions = Vec::new();
    while let Some(row) = rows.next()? {
        let text: Option<String> = row.get(4)?;
        let data = text.map(|text| Data::from_stored(&text)).transpose().map_err(|_| StoreError::Damaged)?;
        let key = Key { id: row.get(0)?, scope_key: row.get(1)? };
        revisions.push(Revision { key, op_index: row.get(2)?, op: row.get(3)?, data });
    }
    Ok(revisions)
}

/// How many patches a document is from its last whole form.
pub(super) fn patches(connection: &Connection, key: &Key) -> Result<u64, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT patches FROM head WHERE branch = '' AND scope_key = ? AND id = ?")?;
    let patches = select.query_row(params![key.scope_key, key.id], |row| row.get(0)).optional()?;
    Ok(patches.unwrap_or(0))
}
