//! The tables and the statements on them.
//!
//! Every table is bounded: past a limit the oldest sessions, turns, facts and call records are
//! deleted. Token usage is also stored as sums, so that loading a budget takes three lookups.

mod migrate;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::Serialize;

use super::{Fact, UsageRecord, UsageTotals};
use crate::bindings::exoclaw::budget::Periods;
use crate::bindings::exoclaw::route::SessionId;

/// Most sessions in the store. Their names come from clients, which could invent any number of
/// them.
pub(super) const SESSIONS_MAX: u64 = 100_000;

/// Most owners of agents before those of agents without sessions are deleted. Ids come from
/// scripts, which could invent any number of them; this is ten times as many as can be registered.
pub(super) const OWNERS_MAX: u64 = 10_000;

/// Most turns of one session, as many as the largest window.
pub(super) const TURNS_PER_SESSION_MAX: usize = 1000;

/// Most facts of one account.
pub(super) const FACTS_PER_ACCOUNT_MAX: usize = 200;

/// Most individual records of model calls. The sums include all calls.
pub(super) const CALLS_RECORDED_MAX: i64 = 1_000_000;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        principal TEXT NOT NULL,
        agent TEXT NOT NULL, channel TEXT NOT NULL, account TEXT NOT NULL, peer TEXT NOT NULL,
        used_at INTEGER NOT NULL, tokens INTEGER NOT NULL DEFAULT 0,
        UNIQUE (principal, agent, channel, account, peer)
    );
    CREATE INDEX IF NOT EXISTS sessions_by_use ON sessions (used_at);
    CREATE INDEX IF NOT EXISTS sessions_by_agent ON sessions (agent);
    CREATE TABLE IF NOT EXISTS owners (agent TEXT PRIMARY KEY, principal TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS turns (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        at INTEGER NOT NULL, user TEXT NOT NULL, assistant TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS turns_by_session ON turns (session, id);
    CREATE TABLE IF NOT EXISTS facts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        principal TEXT NOT NULL,
        channel TEXT NOT NULL, account TEXT NOT NULL, subject TEXT NOT NULL, value TEXT NOT NULL,
        UNIQUE (principal, channel, account, subject)
    );
    CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS spent (
        period TEXT NOT NULL, number INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (period, number)
    ) WITHOUT ROWID;
";

/// A message and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Turn {
    pub(crate) at: i64,
    pub(crate) user: String,
    pub(crate) assistant: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionSummary {
    pub(crate) session: SessionId,
    pub(crate) turns: u64,
    pub(crate) tokens: u64,
    pub(crate) used_at: i64,
}

/// Creates the tables. The contents of a file without principals are assigned to
/// `legacy_principal`.
pub(super) fn prepare(connection: &Connection, legacy_principal: &str) -> rusqlite::Result<()> {
    migrate::add_principals(connection, legacy_principal, TABLES)?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Makes a principal the owner of an agent. Returns false if the agent has sessions and belongs to
/// another one.
pub(super) fn claim_agent(
    connection: &mut Connection,
    agent: &str,
    principal: &str,
) -> rusqlite::Result<bool> {
    let transaction = connection.transaction()?;
    let select =
        "SELECT principal FROM owners WHERE agent = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE agent = ?1)";
    let owner: Option<String> = transaction.query_row(select, [agent], |row| row.get(0)).optional()?;
    let is_own = owner.is_none_or(|owner| owner == principal);
    if is_own {
        let count = transaction.query_row("SELECT count(*) FROM owners", [], |row| as_count(row, 0))?;
        if count >= OWNERS_MAX {
            let delete = "DELETE FROM owners WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.agent = owners.agent)";
            transaction.execute(delete, [])?;
        }
        let insert = "INSERT OR REPLACE INTO owners (agent, principal) VALUES (?1, ?2)";
        transaction.execute(insert, params![agent, principal])?;
    }
    transaction.commit()?;
    Ok(is_own)
}

pub(super) fn touch_session(
    connection: &mut Connection,
    session: &SessionId,
    seconds: i64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    upsert_session(&transaction, session, seconds)?;
    transaction.commit()
}

/// Records the use of a session and returns its row. A new one may evict the least recently used
/// session of the principal with the most sessions.
fn upsert_session(transaction: &Transaction<'_>, session: &SessionId, seconds: i64) -> rusqlite::Result<i64> {
    if let Some(row) = find_session(transaction, session)? {
        let mut update =
            transaction.prepare_cached("UPDATE sessions SET used_at = max(used_at, ?2) WHERE id = ?1")?;
        update.execute(params![row, seconds])?;
        return Ok(row);
    }
    if count_sessions(transaction)? >= SESSIONS_MAX {
        // A principal that creates many sessions must not evict those of others.
        let oldest = "DELETE FROM sessions WHERE id = (SELECT id FROM sessions WHERE principal = \
                      (SELECT principal FROM sessions GROUP BY principal ORDER BY count(*) DESC LIMIT 1) \
                      ORDER BY used_at, id LIMIT 1)";
        transaction.prepare_cached(oldest)?.execute([])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO sessions (principal, agent, channel, account, peer, used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let SessionId { principal, agent, channel, account, peer } = session;
    insert.insert(params![principal, agent, channel, account, peer, seconds])
}

fn find_session(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM sessions WHERE principal = ?1 AND agent = ?2 AND channel = ?3 AND account = ?4 AND peer = ?5",
    )?;
    let names = params![session.principal, session.agent, session.channel, session.account, session.peer];
    select.query_row(names, |row| row.get(0)).optional()
}

/// Oldest first.
pub(super) fn load_turns(
    connection: &Connection,
    session: &SessionId,
    limit: usize,
) -> rusqlite::Result<Vec<Turn>> {
    let Some(row) = find_session(connection, session)? else {
        return Ok(Vec::new());
    };
    let mut select = connection.prepare_cached(
        "SELECT at, user, assistant FROM turns WHERE session = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let turn = |row: &Row<'_>| Ok(Turn { at: row.get(0)?, user: row.get(1)?, assistant: row.get(2)? });
    let mut turns =
        select.query_map(params![row, as_limit(limit)], turn)?.collect::<rusqlite::Result<Vec<_>>>()?;
    turns.reverse();
    Ok(turns)
}

pub(super) fn save_turn(
    connection: &mut Connection,
    session: &SessionId,
    turn: &Turn,
    facts: &[Fact],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let row = upsert_session(&transaction, session, turn.at)?;
    transaction
        .prepare_cached("INSERT INTO turns (session, at, user, assistant) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![row, turn.at, turn.user, turn.assistant])?;
    let old = "DELETE FROM turns WHERE session = ?1 AND id <= \
               (SELECT id FROM turns WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    transaction.prepare_cached(old)?.execute(params![row, as_limit(TURNS_PER_SESSION_MAX)])?;
    save_facts(&transaction, session, facts)?;
    transaction.commit()
}

/// Replaces facts of the same subject, which become the newest.
fn save_facts(transaction: &Transaction<'_>, session: &SessionId, facts: &[Fact]) -> rusqlite::Result<()> {
    let SessionId { principal, channel, account, .. } = session;
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO facts (principal, channel, account, subject, value) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for fact in facts {
        insert.execute(params![principal, channel, account, fact.subject, fact.value])?;
    }
    let old = "DELETE FROM facts WHERE principal = ?1 AND channel = ?2 AND account = ?3 AND id <= \
               (SELECT id FROM facts WHERE principal = ?1 AND channel = ?2 AND account = ?3 \
                ORDER BY id DESC LIMIT 1 OFFSET ?4)";
    let most = as_limit(FACTS_PER_ACCOUNT_MAX);
    transaction.prepare_cached(old)?.execute(params![principal, channel, account, most])?;
    Ok(())
}

/// Newest first.
pub(super) fn load_facts(
    connection: &Connection,
    principal: &str,
    channel: &str,
    account: &str,
) -> rusqlite::Result<Vec<Fact>> {
    let mut select = connection.prepare_cached(
        "SELECT subject, value FROM facts WHERE principal = ?1 AND channel = ?2 AND account = ?3 ORDER BY id DESC",
    )?;
    let fact = |row: &Row<'_>| Ok(Fact { subject: row.get(0)?, value: row.get(1)? });
    select.query_map(params![principal, channel, account], fact)?.collect()
}

pub(super) fn clear_turns(connection: &Connection, session: &SessionId) -> rusqlite::Result<usize> {
    match find_session(connection, session)? {
        Some(row) => connection.prepare_cached("DELETE FROM turns WHERE session = ?1")?.execute([row]),
        None => Ok(0),
    }
}

pub(super) fn count_sessions_of(connection: &Connection, principal: &str) -> rusqlite::Result<u64> {
    let mut count = connection.prepare_cached("SELECT count(*) FROM sessions WHERE principal = ?1")?;
    count.query_row([principal], |row| as_count(row, 0))
}

pub(super) fn count_sessions(connection: &Connection) -> rusqlite::Result<u64> {
    let mut count = connection.prepare_cached("SELECT count(*) FROM sessions")?;
    count.query_row([], |row| as_count(row, 0))
}

/// Most recently used first.
pub(super) fn list_sessions(
    connection: &Connection,
    principal: &str,
    limit: usize,
) -> rusqlite::Result<Vec<SessionSummary>> {
    let mut select = connection.prepare_cached(
        "SELECT agent, channel, account, peer, used_at, tokens,
                (SELECT count(*) FROM turns WHERE turns.session = sessions.id)
         FROM sessions WHERE principal = ?1 ORDER BY used_at DESC, id DESC LIMIT ?2",
    )?;
    let summary = |row: &Row<'_>| {
        let (agent, channel, account, peer) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let session = SessionId { principal: principal.to_owned(), agent, channel, account, peer };
        Ok(SessionSummary {
            session,
            used_at: row.get(4)?,
            tokens: as_count(row, 5)?,
            turns: as_count(row, 6)?,
        })
    };
    select.query_map(params![principal, as_limit(limit)], summary)?.collect()
}

/// Adds a model call to the records, and its tokens to the sums of its session, day and month.
pub(super) fn record_usage(connection: &mut Connection, record: &UsageRecord) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let (input, output) = (as_integer(record.usage.input_tokens), as_integer(record.usage.output_tokens));
    let mut insert = transaction.prepare_cached(
        "INSERT INTO calls (at, session, agent, model, input_tokens, output_tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let session = record.session.to_string();
    let call =
        insert.insert(params![record.seconds, session, record.session.agent, record.model, input, output])?;
    drop(insert);
    transaction.prepare_cached("DELETE FROM calls WHERE id <= ?1")?.execute([call - CALLS_RECORDED_MAX])?;
    let total = as_integer(record.usage.total());
    let row = upsert_session(&transaction, &record.session, record.seconds)?;
    let add = format!("UPDATE sessions SET tokens = {} WHERE id = ?1", capped_sum("tokens", "?2"));
    transaction.prepare_cached(&add)?.execute(params![row, total])?;
    let periods = Periods::at(record.seconds);
    let add = format!(
        "INSERT INTO spent VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET tokens = {}",
        capped_sum("tokens", "excluded.tokens")
    );
    for (period, number) in [("day", periods.day), ("month", periods.month)] {
        transaction.prepare_cached(&add)?.execute(params![period, number, total])?;
    }
    transaction.commit()
}

/// An SQL expression that saturates. Providers may report any number, and SQLite turns a sum that
/// overflows into a float.
fn capped_sum(one: &str, other: &str) -> String {
    let max = i64::MAX;
    format!("CASE WHEN {one} > {max} - {other} THEN {max} ELSE {one} + {other} END")
}

pub(super) fn load_usage(
    connection: &Connection,
    session: Option<&SessionId>,
    seconds: i64,
) -> rusqlite::Result<UsageTotals> {
    let periods = Periods::at(seconds);
    let mut select =
        connection.prepare_cached("SELECT tokens FROM spent WHERE period = ?1 AND number = ?2")?;
    let mut load_period = |period: &str, number: i64| {
        select
            .query_row(params![period, number], |row| as_count(row, 0))
            .optional()
            .map(Option::unwrap_or_default)
    };
    let (daily, monthly) = (load_period("day", periods.day)?, load_period("month", periods.month)?);
    let row = session.map(|session| find_session(connection, session)).transpose()?.flatten();
    let mut select = connection.prepare_cached("SELECT tokens FROM sessions WHERE id = ?1")?;
    let session = select.query_row([row], |row| as_count(row, 0)).optional()?.unwrap_or_default();
    Ok(UsageTotals { session, daily, monthly })
}

fn as_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn as_integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn as_count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests;
