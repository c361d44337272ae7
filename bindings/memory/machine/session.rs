//! Sessions come, move to another connection, are left behind, and end.

use std::collections::BTreeSet;
use std::time::Instant;

use super::super::codec::{Data, object};
use super::super::names::{Entity, ID_BYTES_MAX, Key, Owner, Scope};
use super::super::watch::Interest;
use super::super::wire::{self, Sync, WireError};
use super::{Connection, DETACHED_MAX, Outbox, SESSIONS_MAX, Space};

/// A client's state in a space. It outlives the connection for a while.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) identity: Owner,
    token: String,
    /// The connection that it is open on.
    pub(super) owner: Option<Connection>,
    /// When it is forgotten, if nobody comes for it.
    expires_at: Option<Instant>,
    /// The last commit that the client has taken in, as it says.
    pub(super) seen_seq: u64,
    /// The last commit that the client was told of.
    pub(super) told_seq: u64,
    /// The last of the client's own refused commits after which it was brought up to date.
    pub(super) caught_up: u64,
    /// The same, for the next message.
    pub(super) pending_caught_up: u64,
    pub(super) interest: Interest,
    /// Documents that may have changed since the client was told of them.
    pub(super) missed: BTreeSet<Entity>,
}

impl Session {
    /// The watched documents, as the store names them.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.interest.tracked().filter_map(|entity| self.identity.key(entity)).collect()
    }

    fn is_over(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// What this session calls a document, if it watches it.
    pub(super) fn entity(&self, key: &Key) -> Option<Entity> {
        let scope = match key.scope_key.split(':').next() {
            Some("user") => Scope::User,
            Some("session") => Scope::Session,
            Some(_) | None => Scope::Space,
        };
        let entity = Entity::new(key.id.clone(), scope);
        let is_mine = self.identity.key(&entity).as_ref() == Some(key);
        (is_mine && self.interest.tracks(&entity)).then_some(entity)
    }
}

/// Who wants to open a session, and which.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Opening {
    pub(in super::super) connection: Connection,
    /// The verified identity; `None` where nobody has to have one.
    pub(in super::super) principal: Option<String>,
    pub(in super::super) session_id: Option<String>,
    pub(in super::super) token: Option<String>,
    pub(in super::super) seen_seq: u64,
}

impl Opening {
    pub(in super::super) fn new(connection: Connection, principal: Option<String>, session: &Data) -> Self {
        let text = |key: &str| session.get(key).and_then(Data::as_str).map(str::to_owned);
        let seen_seq = session.get("seenSeq").and_then(Data::as_u64).unwrap_or(0);
        Self { connection, principal, session_id: text("sessionId"), token: text("sessionToken"), seen_seq }
    }
}

impl Space {
    /// Opens a session, or takes up one that is known.
    pub(in super::super) fn open(
        &mut self,
        opening: &Opening,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<Data, WireError> {
        if !self.access.may_read(&self.owner, opening.principal.as_deref()) {
            return Err(WireError::new("AuthorizationError", "this identity may not read the space"));
        }
        let session_id = opening.session_id.clone().unwrap_or_else(|| format!("session:{}", (self.fresh)()));
        if self.sessions.get(&session_id).is_some_and(|session| session.is_over(now)) {
            self.forget(&session_id);
        }
        let is_resumed = self.sessions.contains_key(&session_id);
        if is_resumed {
            self.take_over(&session_id, opening, outbox)?;
        } else {
            self.begin(session_id.clone(), opening)?;
        }
        let token = (self.fresh)();
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.token.clone_from(&token);
            session.seen_seq = session.seen_seq.max(opening.seen_seq);
        }
        let sync = if is_resumed { self.resume(&session_id) } else { None };
        let caught_up = self.sessions.get(&session_id).map_or(0, |session| session.caught_up);
        let mut opened = object([
            ("sessionId", session_id.as_str().into()),
            ("sessionToken", token.as_str().into()),
            ("serverSeq", self.store.seq().into()),
            ("caughtUpLocalSeq", caught_up.into()),
        ]);
        if let Data::Map(members) = &mut opened {
            if is_resumed {
                members.insert("resumed".to_owned(), Data::Bool(true));
            }
            if let Some(sync) = sync {
                members.insert("sync".to_owned(), sync.to_data());
            }
        }
        Ok(opened)
    }

    /// What the session missed while it was away, with what was written just now and nobody was told of yet.
    fn resume(&mut self, session_id: &str) -> Option<Sync> {
        let session = self.sessions.get_mut(session_id)?;
        let written: Vec<Entity> = self.dirty.keys().filter_map(|key| session.entity(key)).collect();
        session.missed.extend(written);
        self.catch_up(session_id, &|_, _| false)
    }

    fn begin(&mut self, session_id: String, opening: &Opening) -> Result<(), WireError> {
        if session_id.is_empty() || session_id.len() > ID_BYTES_MAX {
            return Err(WireError::new("ProtocolError", "invalid sessionId"));
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(WireError::new("RateLimitError", "the space has too many sessions"));
        }
        let identity = Owner { principal: opening.principal.clone(), session_id: session_id.clone() };
        let session = Session {
            identity,
            token: String::new(),
            owner: Some(opening.connection),
            expires_at: None,
            seen_seq: opening.seen_seq,
            told_seq: self.store.seq(),
            caught_up: 0,
            pending_caught_up: 0,
            interest: Interest::default(),
            missed: BTreeSet::new(),
        };
        self.sessions.insert(session_id, session);
        Ok(())
    }

    fn take_over(
        &mut self,
        session_id: &str,
        opening: &Opening,
        outbox: &mut Outbox,
    ) -> Result<(), WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Ok(()) };
        if session.identity.principal != opening.principal {
            return Err(WireError::new("AuthorizationError", "the session belongs to another identity"));
        }
        if opening.token.as_deref() != Some(session.token.as_str()) {
            return Err(WireError::new("SessionRevokedError", "the session token is not the latest one"));
        }
        let before = session.owner.replace(opening.connection);
        session.expires_at = None;
        if let Some(before) = before.filter(|before| *before != opening.connection) {
            outbox.push((before, wire::revoked(&self.name, session_id, "taken-over")));
        }
        Ok(())
    }

    /// A connection is gone: its sessions wait for it to come back.
    pub(in super::super) fn disconnected(&mut self, connection: Connection, now: Instant) {
        for session in self.sessions.values_mut().filter(|session| session.owner == Some(connection)) {
            session.owner = None;
            session.expires_at = Some(now + DETACHED_MAX);
        }
    }

    /// Forgets the sessions that nobody came back for.
    pub(in super::super) fn expire(&mut self, now: Instant) {
        let over = self.sessions.iter().filter(|(_, session)| session.is_over(now));
        let over: Vec<String> = over.map(|(session_id, _)| session_id.clone()).collect();
        over.iter().for_each(|session_id| self.forget(session_id));
    }

    /// Ends the sessions of identities that may not read the space.
    pub(super) fn revoke_strangers(&mut self, outbox: &mut Outbox) {
        let may_stay =
            |session: &Session| self.access.may_read(&self.owner, session.identity.principal.as_deref());
        let strangers = self.sessions.iter().filter(|(_, session)| !may_stay(session));
        let strangers: Vec<_> =
            strangers.map(|(session_id, session)| (session_id.clone(), session.owner)).collect();
        for (session_id, connection) in strangers {
            self.forget(&session_id);
            if let Some(connection) = connection {
                outbox.push((connection, wire::revoked(&self.name, &session_id, "unauthorized")));
            }
        }
    }

    fn forget(&mut self, session_id: &str) {
        if let Some(session) = self.sessions.remove(session_id) {
            self.unindex(session_id, &session.keys());
        }
    }
}
