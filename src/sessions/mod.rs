//! The directory of live sessions: create, resume, take over, expire.
//!
//! Sessions belong to a principal and outlive their connections. Whoever resumes one proves it with a token that
//! changes at every handshake; the one before stays good until the client has shown that it got the new one, so a
//! lost answer loses nothing.

mod describe;
pub(crate) mod events;
mod handshake;
mod host;
pub(crate) mod link;
mod list;
mod listing;
mod port;
mod share;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::binding::{Handlers, Principal, SessionScope};
use crate::limits::{Limits, SettingCheck, SettingsError};
use crate::observe;
use crate::observe::audit::{Audit, Event};
use crate::protocol::boundary::Closing;
use crate::protocol::methods::{HandshakeParams, PROTOCOL, ResumeParams};
use crate::protocol::names::BINDINGS_CHANGED;
use crate::quota::SessionSlot;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::shard::Shard;
use crate::runtime::{Claim, MemoryTotal};
use crate::schema::SchemaBudget;
use crate::session::boundary::ToSession;
use events::{ConnectionEvent, EventReceiver, event_channel};
use handshake::ClientBindings;
pub(crate) use host::{LocalHost, NewSession, SessionHost};
pub(crate) use link::SessionLink;
pub(crate) use list::ListScope;
pub use list::Listed;
use listing::{Listing, Listings};
use share::oldest_detached;
use token::Tokens;

/// How long sessions live and how many there may be.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// Sessions on this server. Past it: `Busy`.
    pub sessions_max: usize,
    /// How long a session without connection is kept, in milliseconds.
    pub ttl_ms: u64,
    /// Sessions without connection that are kept, in equal parts for the principals that have tokens. Past its part a
    /// principal loses the one of its own that has been detached longest, never one of another.
    pub detached_max: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { sessions_max: 20_000, ttl_ms: 600_000, detached_max: 10_000 }
    }
}

impl SessionSettings {
    /// Whether a server with these settings can serve anything. `detached_max` may be 0: no session is then kept without
    /// a connection.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("sessions");
        check.count("sessions_max", self.sessions_max, usize::MAX);
        check.finish()
    }
}

/// All live sessions of a server.
pub struct Directory {
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    settings: SessionSettings,
    /// Detached sessions that each principal may keep.
    detached_share: usize,
    /// What handshakes list under `bindings`.
    listings: Listings,
    server: Value,
    sessions: Mutex<HashMap<String, Entry>>,
    /// Most sessions at one time since somebody asked.
    most: AtomicUsize,
    draining: AtomicBool,
    audit: Audit,
    /// The memory of all sessions.
    memory: Arc<MemoryTotal>,
    /// Where sessions run.
    host: Box<dyn SessionHost>,
}

struct Entry {
    link: Arc<SessionLink>,
    principal: Arc<Principal>,
    tokens: Tokens,
    /// The number of the connection that holds it, or held it last.
    connection: u64,
    detached_at: Option<Instant>,
    ran_eval: bool,
    /// Bindings from this number on were added after the session began; a client's own names hide those.
    first_number: u32,
    shard: usize,
    _closing: ClosingRecord,
    /// Its place in its principal's account.
    slot: SessionSlot,
}

/// Records the end of a session in the audit log; dropped with the entry, however that goes.
struct ClosingRecord {
    scope: Arc<SessionScope>,
}

impl Drop for ClosingRecord {
    fn drop(&mut self) {
        self.scope.audit.record(|| Event::SessionClosed {
            principal: self.scope.principal.name.clone(),
            session: self.scope.id.clone(),
        });
    }
}

/// A connection's hold on a session.
pub(crate) struct SessionLease {
    pub(crate) id: String,
    pub(crate) connection: u64,
    pub(crate) link: Arc<SessionLink>,
    /// What the client's declarations take of the memory of all sessions.
    _declared: Option<Claim>,
}

impl SessionLease {
    fn new(id: String, connection: u64, link: Arc<SessionLink>, declared: Option<Claim>) -> Self {
        Self { id, connection, link, _declared: declared }
    }
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

/// `result` of the handshake, as it is written.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct HandshakeResult<'a> {
    protocol: &'a str,
    session_id: &'a str,
    bindings: &'a RawValue,
    metadata: Value,
}

impl Directory {
    /// An empty directory of a server with these bindings.
    pub fn new(
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        settings: SessionSettings,
        server_name: &str,
        audit: Audit,
    ) -> Self {
        let memory = MemoryTotal::new(limits.memory_total_bytes_max);
        let host = LocalHost::new(Arc::clone(&handlers), Arc::clone(&limits), Arc::clone(&memory));
        Self {
            listings: Listings::new(&handlers),
            handlers,
            detached_share: settings.detached_max,
            memory,
            host: Box::new(host),
            limits,
            settings,
            server: json!({"name": server_name, "version": env!("CARGO_PKG_VERSION")}),
            sessions: Mutex::default(),
            most: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            audit,
        }
    }

    /// Where its sessions put down what they do.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The limits of its sessions.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The bindings that its sessions are offered.
    pub fn handlers(&self) -> &Arc<Handlers> {
        &self.handlers
    }

    /// Opens a session or resumes one. Only on a shard, where a new session is to live.
    pub(crate) async fn open(
        &self,
        principal: &Arc<Principal>,
        params: HandshakeParams,
    ) -> Result<OpenSession, ErrorObject> {
        let declared = self.claim_declarations(&params.bindings)?;
        let schema_budget = SchemaBudget::new(self.limits.schema_bytes_max);
        let listing = self.listings.latest(&self.handlers);
        let added_before = self.names_taken(principal, &params, &listing);
        let taken = added_before.as_ref().unwrap_or(&listing.names);
        let ClientBindings { catalog, warnings } =
            handshake::check_bindings(taken, principal, &params.bindings, &schema_budget).await?;
        let Opened { id, token, is_resumed, link, connection } = match &params.session {
            Some(resume) => self.resume(principal, resume)?,
            None => self.create(principal, &listing)?,
        };
        let wants_changes = catalog.contains(BINDINGS_CHANGED);
        let (events_tx, mut events) = event_channel(&self.memory);
        link.connect(connection, events_tx);
        let lease = SessionLease::new(id, connection, link, declared);
        let attach = ToSession::Attach {
            connection,
            bindings: Arc::new(catalog),
            listed: Arc::clone(&listing.catalog),
            schema_bytes: schema_budget.used(),
        };
        let sent = lease.link.send(attach).await;
        let Some(ConnectionEvent::Attached(evals_queued)) = events.recv().await.filter(|_| sent.is_ok())
        else {
            return Err(ErrorObject::new(Kind::SessionClosed, "the session is gone"));
        };
        let mut metadata = json!({
            "server": self.server,
            "runtime": {"language": "javascript", "engine": "quickjs"},
            "session": {
                "resumed": is_resumed, "token": token, "ttlMs": self.settings.ttl_ms, "evalsQueued": evals_queued,
            },
        });
        if !warnings.is_empty() {
            metadata["warnings"] = json!(warnings);
        }
        let bindings = &listing.declarations;
        let handshake_result =
            written(&HandshakeResult { protocol: PROTOCOL, session_id: &lease.id, bindings, metadata });
        let catalog_version = listing.catalog.version();
        Ok(OpenSession { lease, events, handshake_result, catalog_version, wants_changes })
    }

    fn create(&self, principal: &Arc<Principal>, listing: &Listing) -> Result<Opened, ErrorObject> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(busy("the server is stopping"));
        }
        let shard = Shard::current().ok_or_else(|| ErrorObject::new(Kind::Internal, "not on a shard"))?;
        if shard.is_retired() {
            return Err(busy("the shard was retired"));
        }
        let id = format!("sess_{}", Uuid::new_v4().simple());
        let slot = principal
            .account
            .open_session(self.limits.memory_bytes_max)
            .inspect_err(|exceeded| observe::record_refusal(exceeded.resource.name()))?;
        let scope = Arc::new(SessionScope {
            id: id.clone(),
            principal: Arc::clone(principal),
            audit: self.audit.clone(),
        });
        let full = || {
            observe::record_refusal("server-sessions");
            busy("the server has too many sessions")
        };
        if self.len() >= self.settings.sessions_max {
            return Err(full());
        }
        if !self.memory.has_room() {
            return Err(self.out_of_memory());
        }
        // Made before the lock is taken: it takes longer than everything that the lock is for.
        let catalog = Arc::clone(&listing.catalog);
        let link = self.host.start(NewSession { scope: Arc::clone(&scope), catalog })?;
        let mut sessions = self.sessions.lock();
        if sessions.len() >= self.settings.sessions_max {
            drop(sessions);
            // Without a connection it would never end.
            let _ = link.try_send(ToSession::End(Closing::GoingAway));
            return Err(full());
        }
        let (tokens, token) = Tokens::new();
        sessions.insert(
            id.clone(),
            Entry {
                link: Arc::clone(&link),
                principal: Arc::clone(principal),
                tokens,
                connection: 1,
                detached_at: None,
                ran_eval: false,
                first_number: listing.catalog.next_number(),
                shard: shard.number(),
                _closing: ClosingRecord { scope },
                slot,
            },
        );
        self.most.fetch_max(sessions.len(), Ordering::Relaxed);
        drop(sessions);
        self.audit.record(|| Event::SessionOpened { principal: principal.name.clone(), session: id.clone() });
        Ok(Opened { id, token, is_resumed: false, link, connection: 1 })
    }

    fn resume(&self, principal: &Arc<Principal>, resume: &ResumeParams) -> Result<Opened, ErrorObject> {
        let refused = || {
            observe::record_refusal("session");
            ErrorObject::new(Kind::SessionRefused, "session not found")
        };
        let mut sessions = self.sessions.lock();
        let entry = sessions.get_mut(&resume.id).ok_or_else(refused)?;
        let ttl = Duration::from_millis(self.settings.ttl_ms);
        let expired = entry.detached_at.is_some_and(|at| at.elapsed() >= ttl) || entry.link.has_ended();
        if entry.principal.name != principal.name || !entry.tokens.accepts(&resume.token) || expired {
            return Err(refused());
        }
        let token = entry.tokens.rotate(&resume.token);
        entry.connection += 1;
        entry.detached_at = None;
        self.audit.record(|| Event::SessionResumed {
            principal: principal.name.clone(),
            session: resume.id.clone(),
        });
        Ok(Opened {
            id: resume.id.clone(),
            token,
            is_resumed: true,
            link: Arc::clone(&entry.link),
            connection: entry.connection,
        })
    }

    /// The client sent something after its handshake, so it has its token: the one before is void.
    pub(crate) fn confirm(&self, lease: &SessionLease, is_eval: bool) {
        if let Some(entry) = self.sessions.lock().get_mut(&lease.id)
            && entry.connection == lease.connection
        {
            entry.tokens.confirm();
            entry.ran_eval |= is_eval;
        }
    }

    /// A connection is gone.
    pub(crate) async fn release(&self, lease: &SessionLease) {
        let ended = {
            let mut sessions = self.sessions.lock();
            let Some(entry) =
                sessions.get_mut(&lease.id).filter(|entry| entry.connection == lease.connection)
            else {
                return;
            };
            if entry.ran_eval && !entry.link.has_ended() {
                entry.detached_at = Some(Instant::now());
                let principal = Arc::clone(&entry.principal);
                oldest_detached(&mut sessions, &principal.name, self.detached_share)
            } else {
                sessions.remove(&lease.id)
            }
        };
        // A session that is gone already needs no word.
        lease.link.disconnect(lease.connection);
        let _ = lease.link.send(ToSession::Detach { connection: lease.connection }).await;
        if let Some(ended) = ended {
            let _ = ended.link.send(ToSession::End(Closing::GoingAway)).await;
        }
    }

    /// Ends the sessions that nobody came back for.
    pub async fn expire(&self) {
        let ttl = Duration::from_millis(self.settings.ttl_ms);
        let expired: Vec<Entry> = {
            let mut sessions = self.sessions.lock();
            let is_over = |entry: &Entry| {
                entry.link.has_ended() || entry.detached_at.is_some_and(|at| at.elapsed() >= ttl)
            };
            sessions.extract_if(|_, entry| is_over(entry)).map(|(_, entry)| entry).collect()
        };
        for entry in expired {
            let _ = entry.link.send(ToSession::End(Closing::GoingAway)).await;
        }
    }

    /// Forgets the sessions of a shard that was lost. Returns their places in the accounts of their principals, to be
    /// kept for as long as the shard holds their memory.
    pub(crate) fn forget_shard(&self, shard: usize) -> Vec<SessionSlot> {
        let lost: Vec<Entry> = {
            let mut sessions = self.sessions.lock();
            sessions.extract_if(|_, entry| entry.shard == shard).map(|(_, entry)| entry).collect()
        };
        lost.into_iter().map(|entry| entry.slot).collect()
    }

    /// No new sessions from here on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new sessions are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Ends all sessions.
    pub async fn end_all(&self) {
        let all: Vec<Entry> = self.sessions.lock().drain().map(|(_, entry)| entry).collect();
        // Concurrently: a session on a stuck shard may have a full inbox, and the others must not wait for it.
        join_all(all.iter().map(|entry| entry.link.send(ToSession::End(Closing::GoingAway)))).await;
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// The most there were at one time since this was last asked.
    pub(crate) fn take_most(&self) -> usize {
        self.most.swap(0, Ordering::Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A session that was made or found.
struct Opened {
    id: String,
    token: String,
    is_resumed: bool,
    link: Arc<SessionLink>,
    connection: u64,
}

/// As JSON text. What has only strings as keys can always be written.
fn written(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn busy(message: &str) -> ErrorObject {
    ErrorObject::new(Kind::Busy, message).with("retryAfterMs", 1000)
}
