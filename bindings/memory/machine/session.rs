//! The lifecycle of sessions: open, take over, disconnect, expire and revoke.

use std::collections::BTreeSet;
use std::time::Instant;

use super::super::codec::{Data, object};
use super::super::names::{DocumentKey, Entity, ID_BYTES_MAX, Scope, SessionIdentity};
use super::super::watch::WatchSet;
use super::super::wire::{self, Sync, WireError};
use super::{ConnectionId, DETACHED_MAX, OutgoingMessages, SESSIONS_MAX, Space};

/// A client's state in a space. It outlives its connection by [`DETACHED_MAX`].
#[derive(Debug)]
pub(super) struct Session {
    pub(super) identity: SessionIdentity,
    token: String,
    /// `None` while the client is disconnected.
    pub(super) connection_id: Option<ConnectionId>,
    /// When a disconnected session is removed.
    expires_at: Option<Instant>,
    /// The last commit that the client acknowledged.
    pub(super) seen_seq: u64,
    /// The last commit that was sent to the client.
    pub(super) sent_seq: u64,
    /// The `localSeq` of the last rejected commit whose conflicting changes were sent.
    pub(super) caught_up: u64,
    /// The value of `caught_up` after the next sync.
    pub(super) pending_caught_up: u64,
    pub(super) watch_set: WatchSet,
    /// Documents that may have changed since they were last sent.
    pub(super) stale: BTreeSet<Entity>,
}

impl Session {
    /// The tracked documents, as the store names them.
    pub(super) fn document_keys(&self) -> Vec<DocumentKey> {
        self.watch_set.tracked().filter_map(|entity| self.identity.document_key(entity)).collect()
    }

    fn is_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The session's name for a document, if it tracks the document.
    pub(super) fn tracked_entity(&self, key: &DocumentKey) -> Option<Entity> {
        let scope = match key.scope_key.split(':').next() {
            Some("user") => Scope::User,
            Some("session") => Scope::Session,
            Some(_) | None => Scope::Space,
        };
        let entity = Entity::new(key.id.clone(), scope);
        let is_same = self.identity.document_key(&entity).as_ref() == Some(key);
        (is_same && self.watch_set.tracks(&entity)).then_some(entity)
    }
}

/// A `session.open` after authentication.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct OpenRequest {
    pub(in super::super) connection_id: ConnectionId,
    /// The verified identity; `None` if the settings require none.
    pub(in super::super) principal: Option<String>,
    pub(in super::super) session_id: Option<String>,
    pub(in super::super) token: Option<String>,
    pub(in super::super) seen_seq: u64,
}

impl OpenRequest {
    pub(in super::super) fn new(
        connection_id: ConnectionId,
        principal: Option<String>,
        session: &Data,
    ) -> Self {
        let text = |key: &str| session.get(key).and_then(Data::as_str).map(str::to_owned);
        let seen_seq = session.get("seenSeq").and_then(Data::as_u64).unwrap_or(0);
        Self {
            connection_id,
            principal,
            session_id: text("sessionId"),
            token: text("sessionToken"),
            seen_seq,
        }
    }
}

impl Space {
    /// Creates a session, or resumes an existing one.
    pub(in super::super) fn open_session(
        &mut self,
        open_request: &OpenRequest,
        now: Instant,
        outgoing: &mut OutgoingMessages,
    ) -> Result<Data, WireError> {
        if !self.access.may_read(&self.owner, open_request.principal.as_deref()) {
            return Err(WireError::new("AuthorizationError", "this identity may not read the space"));
        }
        let session_id =
            open_request.session_id.clone().unwrap_or_else(|| format!("session:{}", (self.new_id)()));
        if self.sessions.get(&session_id).is_some_and(|session| session.is_expired(now)) {
            self.remove_session(&session_id);
        }
        let is_resumed = self.sessions.contains_key(&session_id);
        if is_resumed {
            self.take_over_session(&session_id, open_request, outgoing)?;
        } else {
            self.create_session(session_id.clone(), open_request)?;
        }
        let token = (self.new_id)();
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.token.clone_from(&token);
            session.seen_seq = session.seen_seq.max(open_request.seen_seq);
        }
        let sync = if is_resumed { self.resume_session(&session_id) } else { None };
        let caught_up = self.sessions.get(&session_id).map_or(0, |session| session.caught_up);
        let mut response = object([
            ("sessionId", session_id.as_str().into()),
            ("sessionToken", token.as_str().into()),
            ("serverSeq", self.store.seq().into()),
            ("caughtUpLocalSeq", caught_up.into()),
        ]);
        if let Data::Map(members) = &mut response {
            if is_resumed {
                members.insert("resumed".to_owned(), Data::Bool(true));
            }
            if let Some(sync) = sync {
                members.insert("sync".to_owned(), sync.to_data());
            }
        }
        Ok(response)
    }

    /// The changes since the session was disconnected, including those that are not flushed yet.
    fn resume_session(&mut self, session_id: &str) -> Option<Sync> {
        let session = self.sessions.get_mut(session_id)?;
        let written: Vec<Entity> =
            self.changed.keys().filter_map(|key| session.tracked_entity(key)).collect();
        session.stale.extend(written);
        self.build_sync(session_id, &|_, _| false)
    }

    fn create_session(&mut self, session_id: String, open_request: &OpenRequest) -> Result<(), WireError> {
        if session_id.is_empty() || session_id.len() > ID_BYTES_MAX {
            return Err(WireError::new(
                "ProtocolError",
                format!("sessionId: expected 1 to {ID_BYTES_MAX} bytes"),
            ));
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(WireError::new("RateLimitError", "too many sessions in the space"));
        }
        let identity =
            SessionIdentity { principal: open_request.principal.clone(), session_id: session_id.clone() };
        let session = Session {
            identity,
            token: String::new(),
            connection_id: Some(open_request.connection_id),
            expires_at: None,
            seen_seq: open_request.seen_seq,
            sent_seq: self.store.seq(),
            caught_up: 0,
            pending_caught_up: 0,
            watch_set: WatchSet::default(),
            stale: BTreeSet::new(),
        };
        self.sessions.insert(session_id, session);
        Ok(())
    }

    fn take_over_session(
        &mut self,
        session_id: &str,
        open_request: &OpenRequest,
        outgoing: &mut OutgoingMessages,
    ) -> Result<(), WireError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Ok(()) };
        if session.identity.principal != open_request.principal {
            return Err(WireError::new("AuthorizationError", "session belongs to another identity"));
        }
        if open_request.token.as_deref() != Some(session.token.as_str()) {
            return Err(WireError::new("SessionRevokedError", "session token is not the latest one"));
        }
        let previous = session.connection_id.replace(open_request.connection_id);
        session.expires_at = None;
        if let Some(previous) = previous.filter(|previous| *previous != open_request.connection_id) {
            outgoing.push((previous, wire::session_revoked(&self.name, session_id, "taken-over")));
        }
        Ok(())
    }

    /// Keeps the sessions of the connection until they expire.
    pub(in super::super) fn on_disconnect(&mut self, connection_id: ConnectionId, now: Instant) {
        for session in
            self.sessions.values_mut().filter(|session| session.connection_id == Some(connection_id))
        {
            session.connection_id = None;
            session.expires_at = Some(now + DETACHED_MAX);
        }
    }

    /// Removes the sessions whose clients did not reconnect in time.
    pub(in super::super) fn expire_sessions(&mut self, now: Instant) {
        let expired = self.sessions.iter().filter(|(_, session)| session.is_expired(now));
        let expired: Vec<String> = expired.map(|(session_id, _)| session_id.clone()).collect();
        expired.iter().for_each(|session_id| self.remove_session(session_id));
    }

    /// Revokes the sessions of identities that may not read the space.
    pub(super) fn revoke_unauthorized(&mut self, outgoing: &mut OutgoingMessages) {
        let may_read =
            |session: &Session| self.access.may_read(&self.owner, session.identity.principal.as_deref());
        let unauthorized = self.sessions.iter().filter(|(_, session)| !may_read(session));
        let unauthorized: Vec<_> =
            unauthorized.map(|(session_id, session)| (session_id.clone(), session.connection_id)).collect();
        for (session_id, connection_id) in unauthorized {
            self.remove_session(&session_id);
            if let Some(connection_id) = connection_id {
                outgoing
                    .push((connection_id, wire::session_revoked(&self.name, &session_id, "unauthorized")));
            }
        }
    }

    fn remove_session(&mut self, session_id: &str) {
        if let Some(session) = self.sessions.remove(session_id) {
            self.unindex_watches(session_id, &session.document_keys());
        }
    }
}
