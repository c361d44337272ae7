//! One space: its sessions, who owns them, what they watch, and its store.
//!
//! Requests go in and messages come out, each for one connection; time is a parameter. Commits only note what became
//! dirty; what the sessions are told of it is worked out later and together ([`Space::flush`]), so that a burst of
//! commits is one message. Who watches a document is indexed: a commit costs nothing to those whom it does not touch.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::access::{Access, SpaceOwner};
use super::auth::is_identity;
use super::codec::{Data, object};
use super::commit::{Commit, CommitShape};
use super::names::{Entity, Key, Owner, encode_component, split_script_space};
use super::store::{Store, StoreError};
use super::traverse::State;
use super::watch;
use super::wire::{self, Command, Query, Sync, WireError};

mod reader;
mod session;

use reader::Reader;
pub(super) use session::Opening;
use session::Session;

/// How long a session outlives its connection.
const DETACHED_MAX: Duration = Duration::from_secs(30);

/// How long commits are collected before the watchers are told.
const COLLECT: Duration = Duration::from_millis(5);

/// How long watchers wait while commits keep coming in.
const COLLECT_MAX: Duration = Duration::from_millis(500);

/// Most sessions of a space: each may watch, and every one of them is told.
pub(super) const SESSIONS_MAX: usize = 20_000;

/// A connection, by a number that is never used again.
pub(super) type Connection = u64;

/// Messages to be sent, in order.
pub(super) type Outbox = Vec<(Connection, Data)>;

#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    last: Instant,
}

/// A space and all who are in it.
pub(super) struct Space {
    name: String,
    /// The name by which links in its documents call it.
    link_name: String,
    access: Access,
    owner: SpaceOwner,
    store: Store,
    sessions: HashMap<String, Session>,
    /// The sessions that watch a document.
    watchers: HashMap<Key, BTreeSet<String>>,
    /// Documents that were written since the last flush, by whom last, and when.
    dirty: HashMap<Key, (String, u64)>,
    /// Sessions that are owed a message although nothing they watch was written.
    owed: BTreeSet<String>,
    /// Since when something waits to be told, and when the last of it came.
    waiting: Option<Waiting>,
    fresh: fn() -> String,
}

impl Space {
    pub(super) fn new(
        name: String,
        access: Access,
        store: Store,
        fresh: fn() -> String,
    ) -> Result<Self, StoreError> {
        let script_space = split_script_space(&name).map(|(_, space)| space.to_owned());
        let owner = match &script_space {
            Some(_) => SpaceOwner::Scripts,
            None if is_identity(&name) => SpaceOwner::Identity(name.clone()),
            None if store.seq() == 0 => SpaceOwner::Unclaimed,
            None => SpaceOwner::Creator(store.creator()?),
        };
        Ok(Self {
            link_name: script_space.unwrap_or_else(|| name.clone()),
            name,
            access,
            owner,
            store,
            sessions: HashMap::new(),
            watchers: HashMap::new(),
            dirty: HashMap::new(),
            owed: BTreeSet::new(),
            waiting: None,
            fresh,
        })
    }

    /// Whether nothing was ever written.
    pub(super) fn is_empty(&self) -> bool {
        self.store.seq() == 0
    }

    /// Whether nobody is here, so that its file can be closed.
    pub(super) fn is_deserted(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Does what a session asks for.
    pub(super) fn request(
        &mut self,
        connection: Connection,
        session_id: &str,
        command: Command,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<Data, WireError> {
        let session = self.sessions.get_mut(session_id).filter(|session| session.owner == Some(connection));
        let Some(session) = session else {
            return Err(WireError::new("SessionError", "Session is not open on this connection"));
        };
        match command {
            Command::Transact { commit } => self.transact((connection, session_id), &commit, now, outbox),
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
        (connection, session_id): (Connection, &str),
        commit: &Data,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let owner = session.identity.clone();
        if !self.access.may_write(&self.owner, owner.principal.as_deref()) {
            return Err(WireError::new("AuthorizationError", "this identity may not write to the space"));
        }
        let commit = Commit::from_data(commit).map_err(|error: CommitShape| transaction_error(&error))?;
        match self.store.commit(&owner, &commit) {
            Ok(applied) => {
                if !applied.is_replay {
                    for revision in &applied.revisions {
                        self.dirty.insert(revision.key.clone(), (session_id.to_owned(), applied.seq));
                    }
                    self.owe(now);
                    self.claim(owner.principal.as_deref(), outbox);
                }
                Ok(wire::receipt(&applied))
            }
            Err(error @ (StoreError::Stale(..) | StoreError::Unresolved(_))) => {
                // What was committed before and watched here goes out first: a view that is refused is not stale.
                self.flush_connection(connection, outbox);
                let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
                // The client waits for what it missed before it tries again: see that it gets a message.
                session.missed.extend(commit.entities().cloned());
                session.pending_caught_up = session.pending_caught_up.max(commit.local_seq);
                self.owed.insert(session_id.to_owned());
                self.owe(now);
                let conflict = WireError::new("ConflictError", error.to_string());
                Err(conflict.with("retryAfterSeq", self.store.seq()))
            }
            Err(error) => Err(store_error(&error)),
        }
    }

    fn query(&mut self, session_id: &str, query: &Data) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get(session_id) else { return Err(unknown_session()) };
        if query.get("subscribe").and_then(Data::as_bool) == Some(true) {
            let message = "graph.query is answered once; use session.watch.set to subscribe";
            return Err(WireError::new("ProtocolError", message));
        }
        let query = Query::read(query)?;
        let last = self.store.seq();
        if let Some(seq) = query.at_seq.filter(|seq| *seq > last) {
            let message = format!("atSeq {seq} is beyond the last commit {last}");
            return Err(WireError::new("QueryError", message));
        }
        let mut reader = Reader::new(&mut self.store, &session.identity, query.at_seq);
        let found = watch::query(&self.link_name, &mut reader, &query)?;
        let entities = found.iter().map(|(entity, state)| wire::snapshot(entity, state)).collect();
        Ok(object([("serverSeq", self.store.seq().into()), ("entities", Data::List(entities))]))
    }

    fn watch_set(&mut self, session_id: &str, watches: &[Data]) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let mut reader = Reader::new(&mut self.store, &session.identity, None);
        let before = session.keys();
        let sync = session.interest.set(&self.link_name, &mut reader, watches)?;
        self.unindex(session_id, &before);
        self.synced(session_id, sync)
    }

    fn watch_add(&mut self, session_id: &str, watches: &[Data]) -> Result<Data, WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        let mut reader = Reader::new(&mut self.store, &session.identity, None);
        let sync = session.interest.add(&self.link_name, &mut reader, watches)?;
        self.synced(session_id, sync)
    }

    fn synced(&mut self, session_id: &str, sync: Sync) -> Result<Data, WireError> {
        self.index(session_id);
        let seq = self.store.seq();
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(unknown_session()) };
        session.told_seq = seq;
        let sync = Sync { from_seq: session.seen_seq, to_seq: seq, ..sync };
        Ok(object([("serverSeq", seq.into()), ("sync", sync.to_data())]))
    }

    /// Notes which documents a session has come to watch.
    fn index(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        for entity in session.interest.take_new() {
            if let Some(key) = session.identity.key(&entity) {
                self.watchers.entry(key).or_default().insert(session_id.to_owned());
            }
        }
    }

    fn unindex(&mut self, session_id: &str, keys: &[Key]) {
        for key in keys {
            if let Some(watchers) = self.watchers.get_mut(key) {
                watchers.remove(session_id);
                if watchers.is_empty() {
                    self.watchers.remove(key);
                }
            }
        }
    }

    /// Stores a blob, unless it is there: its id says what is in it.
    pub(super) fn put_blob(
        &mut self,
        id: &str,
        document: Data,
        principal: Option<&str>,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<u64, WireError> {
        if !self.access.may_write(&self.owner, principal) {
            return Err(WireError::new("AuthorizationError", "this identity may not write to the space"));
        }
        let state = self.blob_state(id)?;
        if state.document.is_some() {
            return Ok(state.seq);
        }
        let commit = Commit::blob(id, document, self.store.seq());
        // A session of its own for each blob, so that the same one can be sent again.
        let owner = Owner { principal: principal.map(str::to_owned), session_id: format!("blob:{id}") };
        let applied = self.store.commit(&owner, &commit).map_err(|error| store_error(&error))?;
        for revision in applied.revisions {
            self.dirty.insert(revision.key, (String::new(), applied.seq));
        }
        self.owe(now);
        self.claim(principal, outbox);
        Ok(applied.seq)
    }

    /// The document of a blob.
    pub(super) fn blob(&mut self, id: &str, principal: Option<&str>) -> Result<State, WireError> {
        if !self.access.may_read(&self.owner, principal) {
            return Err(WireError::new("AuthorizationError", "this identity may not read the space"));
        }
        self.blob_state(id)
    }

    fn blob_state(&mut self, id: &str) -> Result<State, WireError> {
        let key = Key { id: id.to_owned(), scope_key: "space".to_owned() };
        self.store.state(&key).map_err(|error| store_error(&error))
    }

    /// The first commit decides whose the space is. Sessions of others that were open until then end.
    fn claim(&mut self, principal: Option<&str>, outbox: &mut Outbox) {
        if self.owner == SpaceOwner::Unclaimed {
            self.owner = SpaceOwner::Creator(principal.map(encode_component));
            self.revoke_strangers(outbox);
        }
    }

    /// When [`Space::flush`] is worth while if nothing more comes in, and when even if more does.
    pub(super) fn flush_at(&self) -> Option<(Instant, Instant)> {
        self.waiting.map(|Waiting { since, last }| (last + COLLECT, since + COLLECT_MAX))
    }

    /// A request is done. Writing may have taken longer than commits are collected, so that time begins now.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some(waiting) = &mut self.waiting {
            waiting.last = now;
        }
    }

    fn owe(&mut self, now: Instant) {
        self.waiting.get_or_insert(Waiting { since: now, last: now });
    }

    /// Tells the sessions what was written since the last time.
    pub(super) fn flush(&mut self, outbox: &mut Outbox) {
        self.waiting = None;
        let dirty = std::mem::take(&mut self.dirty);
        let mut touched = std::mem::take(&mut self.owed);
        touched.extend(dirty.keys().filter_map(|key| self.watchers.get(key)).flatten().cloned());
        for session_id in touched {
            self.tell(&session_id, &dirty, outbox);
        }
    }

    /// Tells the sessions of one connection what was written; the others wait for the flush.
    fn flush_connection(&mut self, connection: Connection, outbox: &mut Outbox) {
        let watchers = self.dirty.keys().filter_map(|key| self.watchers.get(key)).flatten();
        let is_here = |session_id: &&String| {
            self.sessions.get(*session_id).is_some_and(|session| session.owner == Some(connection))
        };
        let here: BTreeSet<String> = watchers.filter(is_here).cloned().collect();
        let dirty = std::mem::take(&mut self.dirty);
        for session_id in here {
            self.tell(&session_id, &dirty, outbox);
        }
        self.dirty = dirty;
    }

    fn tell(&mut self, session_id: &str, dirty: &HashMap<Key, (String, u64)>, outbox: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let written: Vec<Entity> = dirty.keys().filter_map(|key| session.entity(key)).collect();
        session.missed.extend(written);
        // Whoever is not there is told when it comes back.
        let Some(connection) = session.owner else { return };
        let identity = session.identity.clone();
        let is_own = |entity: &Entity, seq: u64| {
            let origin = identity.key(entity).and_then(|key| dirty.get(&key));
            origin.is_some_and(|(writer, written)| writer == session_id && *written == seq)
        };
        if let Some(sync) = self.catch_up(session_id, &is_own) {
            outbox.push((connection, wire::effect(&self.name, session_id, sync.to_data())));
        }
    }

    /// What a session missed, if anything.
    fn catch_up(&mut self, session_id: &str, is_own: watch::IsOwn<'_>) -> Option<Sync> {
        let session = self.sessions.get_mut(session_id)?;
        let missed = std::mem::take(&mut session.missed);
        let missed: BTreeSet<Entity> =
            missed.into_iter().filter(|entity| session.interest.tracks(entity)).collect();
        let mut sync = Sync::default();
        if !missed.is_empty() {
            let mut reader = Reader::new(&mut self.store, &session.identity, None);
            match session.interest.refresh(&self.link_name, &mut reader, missed, is_own) {
                Ok(found) => sync = found,
                Err(error) => tracing::warn!(space = self.name, %error, "a session's watches grew too large"),
            }
            self.index(session_id);
        }
        let session = self.sessions.get_mut(session_id)?;
        if session.pending_caught_up > session.caught_up {
            session.caught_up = session.pending_caught_up;
            sync.caught_up_local_seq = Some(session.caught_up);
        }
        if sync.is_empty() {
            return None;
        }
        let seq = self.store.seq();
        sync.from_seq = std::mem::replace(&mut session.told_seq, seq);
        sync.to_seq = seq;
        Some(sync)
    }
}

fn unknown_session() -> WireError {
    WireError::new("SessionError", "Unknown session for space")
}

fn transaction_error(error: &CommitShape) -> WireError {
    WireError::new("TransactionError", error.to_string())
}

fn store_error(error: &StoreError) -> WireError {
    let message = error.to_string();
    match error {
        StoreError::Reused(_) | StoreError::NoPrincipal(_) => WireError::new("ProtocolError", message),
        StoreError::Precondition(name) => {
            WireError::new("PreconditionFailedError", message).with("precondition", *name)
        }
        StoreError::Stale(..)
        | StoreError::Unresolved(_)
        | StoreError::Patch(_)
        | StoreError::Sqlite(_)
        | StoreError::Folder(_)
        | StoreError::Damaged => WireError::new("TransactionError", message),
    }
}

#[cfg(test)]
mod tests;
