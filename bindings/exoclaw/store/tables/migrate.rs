//! Migrates files from before sessions and facts had principals.

use rusqlite::{Connection, OptionalExtension as _};

/// The current version of the tables, stored as `user_version`.
const VERSION: i64 = 1;

/// Creates the tables, and assigns the contents of an older file to `legacy_principal`, in one
/// transaction.
pub(super) fn add_principals(
    connection: &Connection,
    legacy_principal: &str,
    tables: &str,
) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let has_tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sessions'";
    let is_old = version < VERSION && connection.query_row(has_tables, [], |_| Ok(())).optional()?.is_some();
    // Turns refer to the table of sessions by name. Without this mode, renaming it would rename the
    // reference too.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let transaction = connection.unchecked_transaction()?;
    if is_old {
        transaction.execute_batch(
            "ALTER TABLE sessions RENAME TO old_sessions; ALTER TABLE facts RENAME TO old_facts;
             DROP INDEX IF EXISTS sessions_by_use;",
        )?;
    }
    transaction.execute_batch(tables)?;
    if is_old {
        transaction.execute(
            "INSERT INTO sessions (id, principal, agent, channel, account, peer, used_at, tokens)
             SELECT id, ?1, agent, channel, account, peer, used_at, tokens FROM old_sessions",
            [legacy_principal],
        )?;
        transaction.execute(
            "INSERT INTO facts (id, principal, channel, account, subject, value)
             SELECT id, ?1, channel, account, subject, value FROM old_facts",
            [legacy_principal],
        )?;
        transaction.execute_batch("DROP TABLE old_sessions; DROP TABLE old_facts;")?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    connection.pragma_update(None, "legacy_alter_table", false)
}
