//! Files of versions in which sessions and facts had no principal.

use rusqlite::{Connection, OptionalExtension as _};

/// The version of the tables, as the file says it.
const VERSION: i64 = 1;

/// Makes the tables, and gives what an older file holds to the principal `former`, all of it or nothing.
pub(super) fn add_principals(connection: &Connection, former: &str, tables: &str) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let has_tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sessions'";
    let is_old = version < VERSION && connection.query_row(has_tables, [], |_| Ok(())).optional()?.is_some();
    // Turns refer to sessions by name, so the names must not follow the tables that are moved away.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let transaction = connection.unchecked_transaction()?;
    if is_old {
        transaction.execute_batch(
            "ALTER TABLE sessions RENAME TO former_sessions; ALTER TABLE facts RENAME TO former_facts;
             DROP INDEX IF EXISTS sessions_by_use;",
        )?;
    }
    transaction.execute_batch(tables)?;
    if is_old {
        transaction.execute(
            "INSERT INTO sessions (id, principal, agent, channel, account, peer, used_at, tokens)
             SELECT id, ?1, agent, channel, account, peer, used_at, tokens FROM former_sessions",
            [former],
        )?;
        transaction.execute(
            "INSERT INTO facts (id, principal, channel, account, subject, value)
             SELECT id, ?1, channel, account, subject, value FROM former_facts",
            [former],
        )?;
        transaction.execute_batch("DROP TABLE former_sessions; DROP TABLE former_facts;")?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    connection.pragma_update(None, "legacy_alter_table", false)
}
