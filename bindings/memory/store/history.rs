//! Loads documents, current or as of an earlier commit, and the writes after a read.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::codec::Data;
use super::super::commit::Write;
use super::super::names::DocumentKey;
use super::super::patch::{Patch, apply_all};
use super::super::traverse::DocumentState;
use super::{Revision, StoreError};

/// A whole document, or its absence, to which later patches are applied.
struct Base {
    seq: u64,
    op_index: u64,
    document: Option<Data>,
}

/// Loads the current document. If it was last written as a whole, one lookup is enough.
pub(super) fn load_current(connection: &Connection, key: &DocumentKey) -> Result<DocumentState, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT seq, op, data FROM head JOIN revision USING (branch, scope_key, id, seq, op_index)
         WHERE branch = '' AND scope_key = ? AND id = ?",
    )?;
    let last = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let last: Option<(u64, String, Option<String>)> =
        select.query_row(params![key.scope_key, key.id], last).optional()?;
    match last {
        None => Ok(DocumentState::default()),
        Some((seq, op, _)) if op == "patch" => load_at(connection, key, seq),
        Some((seq, _, text)) => {
            let document = text.map(|text| Data::from_canonical_json(&text)).transpose();
            Ok(DocumentState { seq, document: document.map_err(|_| StoreError::Corrupt)?.map(Arc::new) })
        }
    }
}

/// Loads a document as of a commit.
pub(super) fn load_at(
    connection: &Connection,
    key: &DocumentKey,
    at: u64,
) -> Result<DocumentState, StoreError> {
    // SQLite integers are signed.
    let at = at.min(i64::MAX.unsigned_abs());
    let seq = load_last_seq(connection, key, at)?;
    if seq == 0 {
        return Ok(DocumentState::default());
    }
    let base = load_base(connection, key, at)?;
    let mut document = base.document;
    let mut select = connection.prepare_cached(
        "SELECT data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         AND (seq, op_index) > (?, ?) ORDER BY seq, op_index",
    )?;
    let mut rows = select.query(params![key.scope_key, key.id, at, base.seq, base.op_index])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        document = Some(apply_all(document, &parse_stored_patches(&text)?)?);
    }
    Ok(DocumentState { seq, document: document.map(Arc::new) })
}

fn load_last_seq(connection: &Connection, key: &DocumentKey, at: u64) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT COALESCE(MAX(seq), 0) FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?",
    )?;
    Ok(select.query_row(params![key.scope_key, key.id, at], |row| row.get(0))?)
}

/// Loads the later of the last snapshot and the last whole revision. Only the few revisions after
/// the snapshot are searched, however many precede it.
fn load_base(connection: &Connection, key: &DocumentKey, at: u64) -> Result<Base, StoreError> {
    let mut snapshot = connection.prepare_cached(
        "SELECT seq, op_index, document FROM snapshot WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         ORDER BY seq DESC, op_index DESC LIMIT 1",
    )?;
    let snapshot = snapshot.query_row(params![key.scope_key, key.id, at], read_base_row).optional()?;
    let (from_seq, from_index) = snapshot.as_ref().map_or((0, 0), |(seq, op_index, _)| (*seq, *op_index));
    let mut whole = connection.prepare_cached(
        "SELECT seq, op_index, data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq <= ?
         AND (seq, op_index) > (?, ?) AND op <> 'patch' ORDER BY seq DESC, op_index DESC LIMIT 1",
    )?;
    let whole = whole
        .query_row(params![key.scope_key, key.id, at, from_seq, from_index], read_base_row)
        .optional()?;
    let Some((seq, op_index, text)) = whole.or(snapshot) else {
        return Ok(Base { seq: 0, op_index: 0, document: None });
    };
    let document =
        text.map(|text| Data::from_canonical_json(&text)).transpose().map_err(|_| StoreError::Corrupt)?;
    Ok(Base { seq, op_index, document })
}

fn read_base_row(row: &Row<'_>) -> rusqlite::Result<(u64, u64, Option<String>)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// The seq of the last commit that changed a document; 0 if it was never written.
pub(super) fn load_head_seq(connection: &Connection, key: &DocumentKey) -> Result<u64, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT seq FROM head WHERE branch = '' AND scope_key = ? AND id = ?")?;
    let seq = select.query_row(params![key.scope_key, key.id], |row| row.get(0)).optional()?;
    Ok(seq.unwrap_or(0))
}

/// The writes to a document after a commit, in order.
pub(super) fn load_writes_after(
    connection: &Connection,
    key: &DocumentKey,
    after: u64,
) -> Result<Vec<(u64, Write)>, StoreError> {
    let after = after.min(i64::MAX.unsigned_abs());
    let mut select = connection.prepare_cached(
        "SELECT seq, op, data FROM revision WHERE branch = '' AND scope_key = ? AND id = ? AND seq > ?
         ORDER BY seq, op_index",
    )?;
    let mut rows = select.query(params![key.scope_key, key.id, after])?;
    let mut writes = Vec::new();
    while let Some(row) = rows.next()? {
        let (op, data): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        let write = match (op.as_str(), data) {
            ("patch", Some(text)) => Write::Patches(parse_stored_patches(&text)?),
            _ => Write::Document,
        };
        writes.push((row.get(0)?, write));
    }
    Ok(writes)
}

/// The revisions of a commit, in order.
pub(super) fn load_revisions(connection: &Connection, seq: u64) -> Result<Vec<Revision>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT id, scope_key, op_index, op, data FROM revision WHERE seq = ? ORDER BY op_index",
    )?;
    let mut rows = select.query([seq])?;
    let mut revisions = Vec::new();
    while let Some(row) = rows.next()? {
        let text: Option<String> = row.get(4)?;
        let data =
            text.map(|text| Data::from_canonical_json(&text)).transpose().map_err(|_| StoreError::Corrupt)?;
        let key = DocumentKey { id: row.get(0)?, scope_key: row.get(1)? };
        revisions.push(Revision { key, op_index: row.get(2)?, op: row.get(3)?, data });
    }
    Ok(revisions)
}

/// Number of patches of a document since it was last stored as a whole.
pub(super) fn load_patch_count(connection: &Connection, key: &DocumentKey) -> Result<u64, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT patches FROM head WHERE branch = '' AND scope_key = ? AND id = ?")?;
    let patches = select.query_row(params![key.scope_key, key.id], |row| row.get(0)).optional()?;
    Ok(patches.unwrap_or(0))
}

fn parse_stored_patches(text: &str) -> Result<Vec<Patch>, StoreError> {
    let data = Data::from_canonical_json(text).map_err(|_| StoreError::Corrupt)?;
    let patches = data.as_list().ok_or(StoreError::Corrupt)?;
    patches.iter().map(|patch| Patch::from_data(patch).map_err(StoreError::from)).collect()
}
