//! The session table: what is known of each session apart from where it runs.
//!
//! A record says whose a session is, who may resume it, which node runs it and how long it is kept. It holds nothing
//! alive, so a table may be a map in this process, a file or a database that several nodes share. That is why each
//! operation is one atomic step that takes values and returns values: no reference into the table leaves it, nothing is
//! called under its lock, and the time is a parameter.
//!
//! A record's connection number is its fencing number: each claim raises it, and a write that names a lower one changes
//! nothing. An old connection that is slow to end thus cannot detach a session that a newer one has taken over.

mod memory;
mod sqlite;
#[cfg(test)]
mod suite;

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::token::{TokenHash, TokenHashes};
pub(super) use memory::MemoryTable;
pub(super) use sqlite::SqliteTable;
#[cfg(test)]
pub(super) use suite::table_suite;

/// The number of the connection that opens a session.
pub(super) const FIRST_CONNECTION: u64 = 1;

/// A session, as the table knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) id: Arc<str>,
    /// The name of the principal whose session it is.
    pub(crate) principal: Arc<str>,
    pub(crate) tokens: TokenHashes,
    /// The node that runs it.
    pub(crate) owner: Arc<str>,
    /// The number of the connection that holds it, or held it last.
    pub(crate) connection: u64,
    /// When it is to end unless it is resumed; absent while a connection holds it.
    pub(crate) expires_at: Option<SystemTime>,
    /// Bindings from this number on were added after the session began; a client's own names hide those.
    pub(crate) first_number: u32,
    /// Whether a client has sent code: a session without any is not kept.
    pub(crate) ran_eval: bool,
}

impl SessionRecord {
    /// Whether it is past its time.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// A connection that wants to take a session over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionClaim<'a> {
    pub(crate) id: &'a str,
    pub(crate) principal: &'a str,
    /// The node that claims it. A session of another node is not claimed: it runs there.
    pub(crate) owner: &'a str,
    /// The token that its client showed.
    pub(crate) shown: TokenHash,
    /// The token that its client gets next.
    pub(crate) next: TokenHash,
    pub(crate) now: SystemTime,
}

/// A connection that gives up its session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release<'a> {
    pub(crate) id: &'a str,
    pub(crate) connection: u64,
    /// Whether its client has sent code.
    pub(crate) ran_eval: bool,
    /// Until when the session is kept, if code was sent to it; absent for a session that has ended.
    pub(crate) keep_until: Option<SystemTime>,
}

/// What became of a session that its connection gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nothing: a newer connection holds it, or it is gone.
    Superseded,
    /// It waits for its client.
    Detached,
    /// It is gone from the table.
    Removed,
}

/// The table cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("session table: {0}")]
pub(crate) struct TableError(pub(super) String);

/// What an operation returns when it is done.
pub(crate) type TableFuture<'a, T> = BoxFuture<'a, Result<T, TableError>>;

/// The records of sessions. See the module; `suite.rs` has the tests that every implementation passes.
pub(crate) trait SessionTable: Send + Sync {
    /// Adds a record; fails if there is one with its id.
    fn create(&self, record: SessionRecord) -> TableFuture<'_, ()>;

    /// The record of that id.
    fn find<'a>(&'a self, id: &'a str) -> TableFuture<'a, Option<SessionRecord>>;

    /// Gives a session to a new connection, if it belongs to that principal and node, the token is good and its time is
    /// not over. Rotates the token, and returns the number of the connection.
    fn claim<'a>(&'a self, claim: SessionClaim<'a>) -> TableFuture<'a, Option<u64>>;

    /// The client of that connection has its token, so the one before is void; with `ran_eval`, it has sent code.
    /// Changes nothing if a newer connection holds the session.
    fn confirm<'a>(&'a self, id: &'a str, connection: u64, ran_eval: bool) -> TableFuture<'a, ()>;

    /// A connection gives up its session: it is detached, or removed if no code was sent to it or it has ended.
    fn release<'a>(&'a self, release: Release<'a>) -> TableFuture<'a, Released>;

    /// Removes the session of a principal that expires first, if more than `detached_max` of its sessions on that node
    /// are detached.
    fn evict<'a>(
        &'a self,
        owner: &'a str,
        principal: &'a str,
        detached_max: usize,
    ) -> TableFuture<'a, Option<Arc<str>>>;

    /// Removes the sessions of a node whose time is over.
    fn expire<'a>(&'a self, owner: &'a str, now: SystemTime) -> TableFuture<'a, Vec<Arc<str>>>;

    /// Removes sessions that are gone. Those that are not in the table are passed over.
    fn remove<'a>(&'a self, ids: &'a [Arc<str>]) -> TableFuture<'a, ()>;

    /// Up to `max` sessions in the order of their ids: of one principal, or of all.
    fn list<'a>(&'a self, principal: Option<&'a str>, max: usize) -> TableFuture<'a, Vec<SessionRecord>>;
}

fn may_claim(record: &SessionRecord, claim: &SessionClaim<'_>) -> bool {
    let is_own = &*record.principal == claim.principal && &*record.owner == claim.owner;
    is_own && record.tokens.accept(&claim.shown) && !record.has_expired(claim.now)
}
