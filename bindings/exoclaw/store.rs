//! What a gateway remembers, in SQLite: sessions and their turns, facts per account, tokens used.
//!
//! The chats send their work to the database's thread. The statements are in `tables`, which knows no threads.

mod tables;

use std::path::Path;

use super::budget::Used;
use super::facts::Fact;
use super::route::SessionId;
use super::wire::Usage;
use crate::bindings::sqlite::Database;
pub(crate) use crate::bindings::sqlite::StoreError;
pub(crate) use tables::{Listed, Turn};

/// What an agent is told beside the message.
#[derive(Debug, PartialEq)]
pub(crate) struct Context {
    /// The last turns, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// The newest first.
    pub(crate) facts: Vec<Fact>,
    pub(crate) used: Used,
}

/// One call of a model.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    pub(crate) session: SessionId,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) seconds: i64,
}

/// A handle. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    /// Opens a file, or makes a store that lives as long as its handles.
    /// What an older file holds becomes that of the principal `former`.
    pub(crate) fn open(path: Option<&Path>, former: &str) -> Result<Self, StoreError> {
        Ok(Self {
            database: Database::open("exoclaw", path, |connection| tables::prepare(connection, former))?,
        })
    }

    /// A message for the session came in.
    pub(crate) async fn touch(&self, session: SessionId, seconds: i64) -> Result<(), StoreError> {
        self.database.run(move |connection| tables::touch(connection, &session, seconds)).await
    }

    /// What the agent of a session is told, with at most `window` turns.
    pub(crate) async fn context(
        &self,
        session: SessionId,
        window: usize,
        seconds: i64,
    ) -> Result<Context, StoreError> {
        self.database
            .run(move |connection| {
                Ok(Context {
                    turns: tables::turns(connection, &session, window)?,
                    facts: tables::facts(connection, &session.principal, &session.channel, &session.account)?,
                    used: tables::used(connection, Some(&session), seconds)?,
                })
            })
            .await
    }

    /// A message was answered; `facts` are what it stated.
    pub(crate) async fn keep_turn(
        &self,
        session: SessionId,
        turn: Turn,
        facts: Vec<Fact>,
    ) -> Result<(), StoreError> {
        self.database.run(move |connection| tables::keep_turn(connection, &session, &turn, &facts)).await
    }

    /// Puts down what a call of a model cost, without waiting for it: a chat that was broken off is counted as well.
    /// Whoever asks for the budget later finds it counted, because work is done in order.
    pub(crate) fn spend(&self, spent: Spent) {
        let session = spent.session.to_string();
        let submitted = self.database.submit(move |connection| {
            if let Err(error) = tables::spend(connection, &spent) {
                tracing::error!(session = %spent.session, %error, "the usage of a model was not recorded");
            }
        });
        if let Err(error) = submitted {
            tracing::error!(%session, %error, "the usage of a model was not recorded");
        }
    }

    /// The last turns of a session, oldest first.
    pub(crate) async fn turns(&self, session: SessionId, limit: usize) -> Result<Vec<Turn>, StoreError> {
        self.database.run(move |connection| tables::turns(connection, &session, limit)).await
    }

    /// Forgets the turns of a session; says how many there were.
    pub(crate) async fn clear(&self, session: SessionId) -> Result<usize, StoreError> {
        self.database.run(move |connection| tables::clear(connection, &session)).await
    }

    /// How many sessions a principal has.
    pub(crate) async fn count_sessions(&self, principal: String) -> Result<u64, StoreError> {
        self.database.run(move |connection| tables::count_sessions_of(connection, &principal)).await
    }

    /// The sessions of a principal that were used last, the newest first.
    pub(crate) async fn sessions(&self, principal: String, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.database.run(move |connection| tables::sessions(connection, &principal, limit)).await
    }

    /// What was used, in all and by a session.
    pub(crate) async fn used(&self, session: Option<SessionId>, seconds: i64) -> Result<Used, StoreError> {
        self.database.run(move |connection| tables::used(connection, session.as_ref(), seconds)).await
    }

    /// Makes an agent a principal's; false if it is another's and has sessions.
    pub(crate) async fn claim(&self, agent: String, principal: String) -> Result<bool, StoreError> {
        self.database.run(move |connection| tables::claim(connection, &agent, &principal)).await
    }

    /// What is known of a principal's account, the newest first.
    pub(crate) async fn facts(
        &self,
        principal: String,
        channel: String,
        account: String,
    ) -> Result<Vec<Fact>, StoreError> {
        self.database.run(move |connection| tables::facts(connection, &principal, &channel, &account)).await
    }
}
