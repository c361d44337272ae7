//! The gateway's data in SQLite: sessions and their turns, facts per account, tokens used.
//!
//! Each method runs a job on the database's thread. The statements are in `tables`, which is
//! synchronous.

mod tables;

use std::path::Path;

use super::budget::UsageTotals;
use super::facts::Fact;
use super::route::SessionId;
use super::wire::Usage;
use crate::store::database::Database;
pub(crate) use crate::store::database::StoreError;
pub(crate) use tables::{SessionSummary, Turn};

/// What is known when a message arrives.
#[derive(Debug, PartialEq)]
pub(crate) struct ChatContext {
    /// The last turns of the session, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// The facts of the account, newest first.
    pub(crate) facts: Vec<Fact>,
    pub(crate) usage: UsageTotals,
}

/// The token usage of one model call.
#[derive(Debug, Clone)]
pub(crate) struct UsageRecord {
    pub(crate) session: SessionId,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) seconds: i64,
}

/// A handle to the database's thread; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    /// Opens a file, or creates an in-memory store that lives as long as its handles. The contents
    /// of a file without principals are assigned to `legacy_principal`.
    pub(crate) fn open(path: Option<&Path>, legacy_principal: &str) -> Result<Self, StoreError> {
        let prepare = |connection: &rusqlite::Connection| tables::prepare(connection, legacy_principal);
        Ok(Self { database: Database::open("exoclaw", path, prepare)? })
    }

    /// Creates the session if it is new, and records that it was used.
    pub(crate) async fn touch_session(&self, session: SessionId, seconds: i64) -> Result<(), StoreError> {
        self.database.run(move |connection| tables::touch_session(connection, &session, seconds)).await
    }

    /// Loads what an agent needs for a message, with at most `window` turns.
    pub(crate) async fn load_context(
        &self,
        session: SessionId,
        window: usize,
        seconds: i64,
    ) -> Result<ChatContext, StoreError> {
        self.database
            .run(move |connection| {
                let SessionId { principal, channel, account, .. } = &session;
                Ok(ChatContext {
                    turns: tables::load_turns(connection, &session, window)?,
                    facts: tables::load_facts(connection, principal, channel, account)?,
                    usage: tables::load_usage(connection, Some(&session), seconds)?,
                })
            })
            .await
    }

    /// Saves an answered message and the facts that it stated.
    pub(crate) async fn save_turn(
        &self,
        session: SessionId,
        turn: Turn,
        facts: Vec<Fact>,
    ) -> Result<(), StoreError> {
        self.database.run(move |connection| tables::save_turn(connection, &session, &turn, &facts)).await
    }

    /// Queues the record without waiting, because a chat that is aborted has to be counted as well.
    /// A budget that is loaded later includes it, because jobs run in order.
    pub(crate) fn record_usage(&self, record: UsageRecord) {
        let session = record.session.to_string();
        let queued = self.database.submit(move |connection| {
            if let Err(error) = tables::record_usage(connection, &record) {
                tracing::error!(session = %record.session, %error, "token usage was not recorded");
            }
        });
        if let Err(error) = queued {
            tracing::error!(%session, %error, "token usage was not recorded");
        }
    }

    /// Returns the last turns of a session, oldest first.
    pub(crate) async fn load_turns(&self, session: SessionId, limit: usize) -> Result<Vec<Turn>, StoreError> {
        self.database.run(move |connection| tables::load_turns(connection, &session, limit)).await
    }

    /// Deletes the turns of a session and returns their number.
    pub(crate) async fn clear_turns(&self, session: SessionId) -> Result<usize, StoreError> {
        self.database.run(move |connection| tables::clear_turns(connection, &session)).await
    }

    pub(crate) async fn count_sessions(&self, principal: String) -> Result<u64, StoreError> {
        self.database.run(move |connection| tables::count_sessions_of(connection, &principal)).await
    }

    /// Returns the most recently used sessions of a principal, newest first.
    pub(crate) async fn list_sessions(
        &self,
        principal: String,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, StoreError> {
        self.database.run(move |connection| tables::list_sessions(connection, &principal, limit)).await
    }

    /// Without a session, its total is 0.
    pub(crate) async fn load_usage(
        &self,
        session: Option<SessionId>,
        seconds: i64,
    ) -> Result<UsageTotals, StoreError> {
        self.database.run(move |connection| tables::load_usage(connection, session.as_ref(), seconds)).await
    }

    /// Makes a principal the owner of an agent. Returns false if the agent has sessions and belongs
    /// to another one.
    pub(crate) async fn claim_agent(&self, agent: String, principal: String) -> Result<bool, StoreError> {
        self.database.run(move |connection| tables::claim_agent(connection, &agent, &principal)).await
    }

    /// Returns the facts of a principal's account, newest first.
    pub(crate) async fn load_facts(
        &self,
        principal: String,
        channel: String,
        account: String,
    ) -> Result<Vec<Fact>, StoreError> {
        self.database
            .run(move |connection| tables::load_facts(connection, &principal, &channel, &account))
            .await
    }
}
