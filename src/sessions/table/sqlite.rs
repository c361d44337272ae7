//! The session table of a server that remembers its sessions: rows of the state database.
//!
//! A record is a text in its row, beside the columns that it is found by. Each operation is one job of the database's
//! thread, so nothing comes between what it reads and what it writes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    Release, Released, SessionClaim, SessionRecord, SessionTable, TableError, TableFuture, may_claim,
};
use crate::store::database::Database;

/// See the module.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    database: Database,
}

impl SqliteTable {
    /// The table of a state database.
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> TableFuture<'_, T> {
        let database = self.database.clone();
        Box::pin(async move { database.run(job).await.map_err(|error| TableError(error.to_string())) })
    }
}

impl SessionTable for SqliteTable {
    fn create(&self, record: SessionRecord) -> TableFuture<'_, ()> {
        self.run(move |connection| {
            let (expires, text) = (expires_at_ms(&record), to_text(&record));
            connection
                .prepare_cached("INSERT INTO session VALUES (?, ?, ?, ?, ?)")?
                .execute(params![&*record.id, &*record.principal, &*record.owner, expires, text])
                .map(drop)
        })
    }

    fn find<'a>(&'a self, id: &'a str) -> TableFuture<'a, Option<SessionRecord>> {
        let id = id.to_owned();
        self.run(move |connection| find(connection, &id))
    }

    fn claim<'a>(&'a self, claim: SessionClaim<'a>) -> TableFuture<'a, Option<u64>> {
        let (id, principal, owner) =
            (claim.id.to_owned(), claim.principal.to_owned(), claim.owner.to_owned());
        let (shown, next, now) = (claim.shown, claim.next, claim.now);
        self.run(move |connection| {
            let claim = SessionClaim { id: &id, principal: &principal, owner: &owner, shown, next, now };
            let Some(mut record) = find(connection, &id)?.filter(|record| may_claim(record, &claim)) else {
                return Ok(None);
            };
            record.tokens.rotate(shown, next);
            record.connection += 1;
            record.expires_at = None;
            update(connection, &record)?;
            Ok(Some(record.connection))
        })
    }

    fn confirm<'a>(&'a self, id: &'a str, connection: u64, ran_eval: bool) -> TableFuture<'a, ()> {
        let (id, number) = (id.to_owned(), connection);
        self.run(move |connection| {
            let found = find(connection, &id)?.filter(|record| record.connection == number);
            let Some(mut record) = found else { return Ok(()) };
            record.tokens.confirm();
            record.ran_eval |= ran_eval;
            update(connection, &record)
        })
    }

    fn release<'a>(&'a self, release: Release<'a>) -> TableFuture<'a, Released> {
        let Release { id, connection: number, ran_eval, keep_until } = release;
        let id = id.to_owned();
        self.run(move |connection| {
            let found = find(connection, &id)?.filter(|record| record.connection == number);
            let Some(mut record) = found else { return Ok(Released::Superseded) };
            record.ran_eval |= ran_eval;
            if record.ran_eval && keep_until.is_some() {
                record.expires_at = keep_until;
                update(connection, &record)?;
                return Ok(Released::Detached);
            }
            remove(connection, &id)?;
            Ok(Released::Removed)
        })
    }

    fn evict<'a>(
        &'a self,
        owner: &'a str,
        principal: &'a str,
        detached_max: usize,
    ) -> TableFuture<'a, Option<Arc<str>>> {
        let (owner, principal) = (owner.to_owned(), principal.to_owned());
        self.run(move |connection| {
            let of_principal = "FROM session WHERE principal = ? AND owner = ? AND expires_at_ms IS NOT NULL";
            let count: usize = connection
                .prepare_cached(&format!("SELECT count(*) {of_principal}"))?
                .query_row([&principal, &owner], |row| row.get(0))?;
            if count <= detached_max {
                return Ok(None);
            }
            let oldest: Option<String> = connection
                .prepare_cached(&format!("SELECT id {of_principal} ORDER BY expires_at_ms, id LIMIT 1"))?
                .query_row([&principal, &owner], |row| row.get(0))
                .optional()?;
            if let Some(id) = &oldest {
                remove(connection, id)?;
            }
            Ok(oldest.map(Into::into))
        })
    }

    fn expire<'a>(&'a self, owner: &'a str, now: SystemTime) -> TableFuture<'a, Vec<Arc<str>>> {
        let owner = owner.to_owned();
        self.run(move |connection| {
            let transaction = connection.transaction()?;
            let over: Vec<String> = transaction
                .prepare_cached("DELETE FROM session WHERE owner = ? AND expires_at_ms <= ? RETURNING id")?
                .query_map(params![owner, to_ms(now)], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            transaction.commit()?;
            Ok(over.into_iter().map(Into::into).collect())
        })
    }

    fn remove<'a>(&'a self, ids: &'a [Arc<str>]) -> TableFuture<'a, ()> {
        let ids = ids.to_vec();
        self.run(move |connection| {
            let transaction = connection.transaction()?;
            for id in &ids {
                remove(&transaction, id)?;
            }
            transaction.commit()
        })
    }

    fn list<'a>(&'a self, principal: Option<&'a str>, max: usize) -> TableFuture<'a, Vec<SessionRecord>> {
        let principal = principal.map(str::to_owned);
        self.run(move |connection| {
            let max = i64::try_from(max).unwrap_or(i64::MAX);
            let query = "SELECT record, expires_at_ms FROM session WHERE ?1 IS NULL OR principal = ?1 ORDER BY id LIMIT ?2";
            let mut query = connection.prepare_cached(query)?;
            let rows = query.query_map(params![principal, max], read)?;
            rows.collect()
        })
    }
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<SessionRecord>> {
    connection
        .prepare_cached("SELECT record, expires_at_ms FROM session WHERE id = ?")?
        .query_row([id], read)
        .optional()
}

fn update(connection: &Connection, record: &SessionRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE session SET owner = ?2, expires_at_ms = ?3, record = ?4 WHERE id = ?1")?
        .execute(params![&*record.id, &*record.owner, expires_at_ms(record), to_text(record)])
        .map(drop)
}

fn remove(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM session WHERE id = ?")?.execute([id]).map(drop)
}

fn to_text(record: &SessionRecord) -> String {
    // All its keys are strings.
    serde_json::to_string(record).unwrap_or_default()
}

/// A row with the record and when it expires. The column counts: at the start of a server it is set for many.
fn read(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let (text, expires_at_ms): (String, Option<u64>) = (row.get(0)?, row.get(1)?);
    let record: SessionRecord = serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(SessionRecord { expires_at: expires_at_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)), ..record })
}

fn expires_at_ms(record: &SessionRecord) -> Option<i64> {
    record.expires_at.map(to_ms)
}

/// Milliseconds from 1970, which is as exact as expiry has to be.
fn to_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::table_suite;
    use super::*;
    use crate::store::create_tables;

    #[tokio::test]
    async fn sqlite_table_passes_the_suite() {
        table_suite(async || SqliteTable::new(Database::open("test", None, create_tables).unwrap())).await;
    }

    #[tokio::test]
    async fn records_are_there_when_the_file_is_opened_again() {
        let path = std::env::temp_dir().join(format!("scomp-table-{}.sqlite", std::process::id()));
        let open = || SqliteTable::new(Database::open("test", Some(&path), create_tables).unwrap());
        let table = open();
        let record = SessionRecord {
            id: "s".into(),
            principal: "ann".into(),
            tokens: crate::sessions::token::TokenHashes::new(crate::sessions::token::TokenHash::new("first")),
            owner: "local".into(),
            connection: 3,
            expires_at: Some(UNIX_EPOCH + Duration::from_millis(1_500)),
            first_number: 7,
            ran_eval: true,
        };
        table.create(record.clone()).await.unwrap();
        drop(table);
        let found = open().find("s").await.unwrap().unwrap();
        assert_eq!(to_text(&found), to_text(&record));
        std::fs::remove_file(path).unwrap();
    }
}
