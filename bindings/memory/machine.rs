//! One space: its sessions, their watches, and its store.
//!
//! A request returns its response and adds messages for other connections; time is a parameter.
//! Commits only record the changed documents. Syncs are built later ([`Space::flush`]), so that a
//! burst of commits becomes one message. The watchers of each document are indexed, so a commit
//! takes no time for sessions that do not watch its documents.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::access::{Access, SpaceOwner};
use super::auth::is_identity;
use super::codec::{Data, object};
use super::commit::Commit;
use super::names::{DocumentKey, encode_component, split_script_space};
use super::store::{Store, StoreError};
use super::watch;
use super::wire::{self, Command, Query, WireError};

mod blobs;
mod flush;
mod reader;
mod session;
mod watches;

use flush::PendingFlush;
use reader::Reader;
pub(super) use session::OpenRequest;
use session::Session;

/// How long a session outlives its connection.
const DETACHED_MAX: Duration = Duration::from_secs(30);

/// Most sessions of a space: each may watch, and each watcher receives a sync.
pub(super) const SESSIONS_MAX: usize = 20_000;

/// Identifies a connection; never reused.
pub(super) type ConnectionId = u64;

/// Messages to be sent, in order.
pub(super) type OutgoingMessages = Vec<(ConnectionId, Data)>;

pub(super) struct Space {
    name: String,
    /// The name of the space in links of its documents.
    link_name: String,
    access: Access,
    owner: SpaceOwner,
    store: Store,
    sessions: HashMap<String, Session>,
    /// Ids of the sessions that track a document.
    watchers: HashMap<DocumentKey, BTreeSet<String>>,
    /// Documents written since the last flush, with the session and seq of the last write.
    changed: HashMap<DocumentKey, (String, u64)>,
    /// Sessions that need a sync although none of their documents was written.
    sync_due: BTreeSet<String>,
    pending_flush: Option<PendingFlush>,
    new_id: fn() -> String,
}

impl Space {
    pub(super) fn new(
        name: String,
        access: Access,
        store: Store,
        new_id: fn() -> String,
    ) -> Result<Self, StoreError> {
        let script_space = split_script_space(&name).map(|(_, space)| space.to_owned());
        let owner = match &script_space {
            Some(_) => SpaceOwner::Scripts,
            None if is_identity(&name) => SpaceOwner::Identity(name.clone()),
            None if store.seq() == 0 => SpaceOwner::Unclaimed,
            None => SpaceOwner::Creator(store.find_creator()?),
        };
        Ok(Self {
            link_name: script_space.unwrap_or_else(|| name.clone()),
            name,
            access,
            owner,
            store,
            sessions: HashMap::new(),
            watchers: HashMap::new(),
            changed: HashMap::new(),
            sync_due: BTreeSet::new(),
            pending_flush: None,
            new_id,
        })
    }

    /// Whether the space has no commits.
    pub(super) fn is_empty(&self) -> bool {
        self.store.seq() == 0
    }

    pub(super) fn has_no_sessions(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Executes a request of a session.
    pub(super) fn handle_request(
        &mut self,
        connection_id: ConnectionId,
        session_id: &str,
        command: Command,
        now: Instant,
        outgoing: &mut OutgoingMessages,
    ) -> Result<Data, WireError> {
        let session =
            self.sessions.get_mut(session_id).filter(|session| session.connection_id == Some(connection_id));
        let Some(session) = session else {
            return Err(WireError::new("SessionError", "Session is not open on this connection"));
        };
        match command {
            Command::Transact { commit } => {
                self.transact((connection_id, session_id), &commit, now, outgoing)
            }
            Command::Query { query } => self.query(session_id, &query),
            Command::WatchSet { watches } => self.watch_set(session_id, &watches),
            Command::WatchAdd { watches } => self.watch_add(session_id, &watches),
            Command::Ack { seen_seq } => {
                session.seen_seq = session.seen_seq.max(seen_seq);
                Ok(object([("serverSeq", self.store.seq().into())]))
            }
            Command::SchedulerSnapshots => {
                Ok(object([("serverSeq", self.store.seq().into()), ("snapshots", Data::List(vec![]))]))
            }
        }
    }

    fn transact(
        &mut self,
        (connection_id, session_id): (ConnectionId, &str),
        commit: &Data,
        now: Instant,
        outgoing: &mut OutgoingMessages,
    ) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let identity = session.identity.clone();
        if !self.access.may_write(&self.owner, identity.principal.as_deref()) {
            return Err(WireError::new("AuthorizationError", "this identity may not write to the space"));
        }
        let commit = Commit::from_data(commit)
            .map_err(|error| WireError::new("TransactionError", error.to_string()))?;
        match self.store.commit(&identity, &commit) {
            Ok(receipt) => {
                if !receipt.is_replay {
                    for revision in &receipt.revisions {
                        self.changed.insert(revision.key.clone(), (session_id.to_owned(), receipt.seq));
                    }
                    self.schedule_flush(now);
                    self.claim_ownership(identity.principal.as_deref(), outgoing);
                }
                Ok(wire::receipt_data(&receipt))
            }
            Err(error @ (StoreError::StaleRead(..) | StoreError::UnresolvedRead(_))) => {
                // The client sees the conflicting commits before the error, if it watches their
                // documents.
                self.flush_connection(connection_id, outgoing);
                let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
                // The client waits for a sync before it tries again, so one is sent even if it is
                // empty.
                session.stale.extend(commit.entities().cloned());
                session.pending_caught_up = session.pending_caught_up.max(commit.local_seq);
                self.sync_due.insert(session_id.to_owned());
                self.schedule_flush(now);
                let conflict = WireError::new("ConflictError", error.to_string());
                Err(conflict.with("retryAfterSeq", self.store.seq()))
            }
            Err(error) => Err(to_wire_error(&error)),
        }
    }

    fn query(&mut self, session_id: &str, query: &Data) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get(session_id) else { return Err(unknown_session()) };
        if query.get("subscribe").and_then(Data::as_bool) == Some(true) {
            let message = "query.subscribe: not supported; use session.watch.set";
            return Err(WireError::new("ProtocolError", message));
        }
        let query = Query::parse(query)?;
        let last = self.store.seq();
        if let Some(seq) = query.at_seq.filter(|seq| *seq > last) {
            let message = format!("query.atSeq: expected at most {last}, got {seq}");
            return Err(WireError::new("QueryError", message));
        }
        let mut reader = Reader::new(&mut self.store, &session.identity, query.at_seq);
        let documents = watch::run_query(&self.link_name, &mut reader, &query)?;
        let entities = documents.iter().map(|(entity, state)| wire::entity_snapshot(entity, state)).collect();
        Ok(object([("serverSeq", self.store.seq().into()), ("entities", Data::List(entities))]))
    }

    /// The first commit determines the owner of the space. Open sessions of other identities are
    /// revoked.
    fn claim_ownership(&mut self, principal: Option<&str>, outgoing: &mut OutgoingMessages) {
        if self.owner == SpaceOwner::Unclaimed {
            self.owner = SpaceOwner::Creator(principal.map(encode_component));
            self.revoke_unauthorized(outgoing);
        }
    }
}

fn unknown_session() -> WireError {
    WireError::new("SessionError", "Unknown session for space")
}

fn to_wire_error(error: &StoreError) -> WireError {
    let message = error.to_string();
    match error {
        StoreError::LocalSeqReused(_) | StoreError::PrincipalRequired(_) => {
            WireError::new("ProtocolError", message)
        }
        StoreError::Precondition(name) => {
            WireError::new("PreconditionFailedError", message).with("precondition", *name)
        }
        StoreError::StaleRead(..)
        | StoreError::UnresolvedRead(_)
        | StoreError::Patch(_)
        | StoreError::Sqlite(_)
        | StoreError::Io(_)
        | StoreError::Corrupt => WireError::new("TransactionError", message),
    }
}

#[cfg(test)]
mod tests;
