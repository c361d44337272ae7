//! Opens and resumes sessions: from a handshake to a connection that holds a session.
//!
//! A client that resumes a session proves that it may with a token that changes at every handshake. The one before stays
//! good until the client has shown that it got the new one, so that a lost answer loses nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::events::{ConnectionEvent, EventReceiver, event_channel};
use super::handshake::{self, ClientBindings};
use super::handshake_result::{HandshakeResult, SessionMetadata};
use super::host::{HostedSession, NewSession};
use super::link::SessionLink;
use super::listing::Listing;
use super::live::{LifeRecord, LiveSession};
use super::table::{FIRST_CONNECTION, SessionClaim, SessionRecord, TableError};
use super::token::{TokenHash, TokenHashes, random_token};
use super::{Directory, busy, to_json};
use crate::binding::{Principal, SessionScope};
use crate::observe;
use crate::observe::audit::Event;
use crate::protocol::client_messages::Closing;
use crate::protocol::methods::{HandshakeParams, ResumeParams};
use crate::protocol::names::BINDINGS_CHANGED;
use crate::quota::{QuotaExceeded, SessionSlot};
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::Claim;
use crate::schema::SchemaBudget;
use crate::session::boundary::ToSession;

/// A connection's hold on a session.
pub(crate) struct SessionLease {
    pub(super) id: Arc<str>,
    pub(super) principal: Arc<Principal>,
    pub(crate) connection: u64,
    pub(crate) link: Arc<SessionLink>,
    /// Whether the connection's client has sent code.
    pub(super) ran_eval: AtomicBool,
    /// What the client's declarations take of the memory of all sessions.
    declared: Option<Claim>,
}

/// A session that a connection holds, when its handshake can be answered.
pub(crate) struct OpenSession {
    pub(crate) lease: SessionLease,
    pub(crate) events: EventReceiver,
    /// `result` of the handshake.
    pub(crate) handshake_result: Box<RawValue>,
    /// The version of the server's bindings that the session knows.
    pub(crate) catalog_version: u64,
    /// Whether the client is to be called when they change.
    pub(crate) wants_changes: bool,
}

/// A session that was created or claimed for a connection.
struct HeldSession {
    lease: SessionLease,
    /// What the client needs to resume it next time.
    token: String,
}

impl HeldSession {
    fn new(
        id: Arc<str>,
        principal: &Arc<Principal>,
        connection: u64,
        link: Arc<SessionLink>,
        token: String,
    ) -> Self {
        let (principal, ran_eval) = (Arc::clone(principal), AtomicBool::new(false));
        Self { lease: SessionLease { id, principal, connection, link, ran_eval, declared: None }, token }
    }
}

impl Directory {
    /// Opens a session or resumes one. Only where the host can start one: on a shard.
    pub(crate) async fn open(
        &self,
        principal: &Arc<Principal>,
        params: HandshakeParams,
    ) -> Result<OpenSession, ErrorObject> {
        let declared = self.claim_declarations(&params.bindings)?;
        let schema_budget = SchemaBudget::new(self.limits.schema_bytes_max);
        let listing = self.listings.latest(&self.handlers);
        let added_before = self.names_taken(principal, &params, &listing).await?;
        let taken = added_before.as_ref().unwrap_or(&listing.names);
        let ClientBindings { catalog, warnings } =
            handshake::check_bindings(taken, principal, &params.bindings, &schema_budget).await?;
        let HeldSession { mut lease, token } = match &params.session {
            Some(resume) => self.resume(principal, resume).await?,
            None => self.create(principal, &listing).await?,
        };
        lease.declared = declared;
        let wants_changes = catalog.contains(BINDINGS_CHANGED);
        let connection = lease.connection;
        let attach = ToSession::Attach {
            connection,
            bindings: Arc::new(catalog),
            listed: Arc::clone(&listing.catalog),
            schema_bytes: schema_budget.used(),
        };
        let (events_tx, mut events) = event_channel(&self.memory);
        lease.link.connect(connection, events_tx);
        let sent = lease.link.send(attach).await;
        let Some(ConnectionEvent::Attached(evals_queued)) = events.recv().await.filter(|_| sent.is_ok())
        else {
            return Err(ErrorObject::new(Kind::SessionClosed, "the session is gone"));
        };
        let (is_resumed, ttl_ms) = (params.session.is_some(), self.settings.ttl_ms);
        let session = SessionMetadata { is_resumed, token: &token, ttl_ms, evals_queued };
        let bindings = &listing.declarations;
        let result = HandshakeResult::new(&lease.id, bindings, &self.server, session, &warnings);
        let (handshake_result, catalog_version) = (to_json(&result), listing.catalog.version());
        Ok(OpenSession { lease, events, handshake_result, catalog_version, wants_changes })
    }

    async fn create(
        &self,
        principal: &Arc<Principal>,
        listing: &Listing,
    ) -> Result<HeldSession, ErrorObject> {
        self.check_room()?;
        let slot = self.take_slot(principal).await?;
        let id = format!("sess_{}", Uuid::new_v4().simple());
        let token = random_token();
        let record = SessionRecord {
            id: Arc::from(&*id),
            principal: Arc::from(&*principal.name),
            tokens: TokenHashes::new(TokenHash::new(&token)),
            owner: Arc::clone(&self.owner),
            connection: FIRST_CONNECTION,
            expires_at: None,
            first_number: listing.catalog.next_number(),
            ran_eval: false,
        };
        let scope = SessionScope { id, principal: Arc::clone(principal), audit: self.audit.clone() };
        let scope = Arc::new(scope);
        let catalog = Arc::clone(&listing.catalog);
        let session = NewSession { scope: Arc::clone(&scope), catalog, restored: None };
        let HostedSession { link, shard } = self.host.start(session).await?;
        let live = LiveSession { link: Arc::clone(&link), shard, slot, _life: LifeRecord::new(scope) };
        let id = Arc::clone(&record.id);
        if let Err(error) = self.add(record, live).await {
            // Without a connection it would never end.
            let _ = link.try_send(ToSession::End(Closing::GoingAway));
            return Err(error);
        }
        Ok(HeldSession::new(id, principal, FIRST_CONNECTION, link, token))
    }

    /// Takes a place for a session of a principal, if there is one now.
    pub(super) fn admit(&self, principal: &Principal) -> Result<SessionSlot, ErrorObject> {
        self.check_room()?;
        let slot = principal.account.open_session(self.limits.memory_bytes_max);
        Ok(slot.inspect_err(|exceeded| observe::record_refusal(exceeded.resource.name()))?)
    }

    /// Whether the server takes a further session.
    fn check_room(&self) -> Result<(), ErrorObject> {
        if self.is_draining() {
            return Err(busy("the server is stopping"));
        }
        if self.len() >= self.settings.sessions_max {
            return Err(full());
        }
        if !self.memory.has_room() {
            return Err(self.out_of_memory());
        }
        Ok(())
    }

    /// A place in the account of the principal. Where it is full, its sessions without a connection give way, the
    /// longest detached first.
    async fn take_slot(&self, principal: &Principal) -> Result<SessionSlot, QuotaExceeded> {
        loop {
            let exceeded = match principal.account.open_session(self.limits.memory_bytes_max) {
                Ok(slot) => return Ok(slot),
                Err(exceeded) => exceeded,
            };
            let Some(evicted) = self.evict(&principal.name, 0).await else {
                observe::record_refusal(exceeded.resource.name());
                return Err(exceeded);
            };
            let _ = evicted.link.send(ToSession::End(Closing::GoingAway)).await;
        }
    }

    /// Adds a session that was started: first where it runs, then to the table.
    pub(super) async fn add(&self, record: SessionRecord, live: LiveSession) -> Result<(), ErrorObject> {
        let id = Arc::clone(&record.id);
        self.live.insert(Arc::clone(&id), live, self.settings.sessions_max).map_err(|_live| full())?;
        self.table.create(record).await.map_err(|error| {
            self.live.remove(&id);
            // It may have been written all the same.
            self.stale_records.lock().push(id);
            unavailable(&error)
        })
    }

    async fn resume(
        &self,
        principal: &Arc<Principal>,
        resume: &ResumeParams,
    ) -> Result<HeldSession, ErrorObject> {
        let refused = || {
            observe::record_refusal("session");
            ErrorObject::new(Kind::SessionRefused, "session not found")
        };
        let link = match self.live_link(&resume.id) {
            Some(link) => link,
            None => self.revive_for(principal, resume).await?.ok_or_else(refused)?,
        };
        let token = random_token();
        let claim = SessionClaim {
            id: &resume.id,
            principal: &principal.name,
            owner: &self.owner,
            shown: TokenHash::new(&resume.token),
            next: TokenHash::new(&token),
            now: SystemTime::now(),
        };
        let claimed = self.table.claim(claim).await.map_err(|error| unavailable(&error))?;
        let connection = claimed.ok_or_else(refused)?;
        self.audit.record(|| Event::SessionResumed {
            principal: principal.name.clone(),
            session: resume.id.clone(),
        });
        Ok(HeldSession::new(Arc::from(&*resume.id), principal, connection, link, token))
    }
}

pub(super) fn full() -> ErrorObject {
    observe::record_refusal("server-sessions");
    busy("the server has too many sessions")
}

/// The answer to a handshake that needs the table.
pub(super) fn unavailable(error: &TableError) -> ErrorObject {
    tracing::error!(%error, "a handshake failed");
    busy("the session table is unavailable")
}
