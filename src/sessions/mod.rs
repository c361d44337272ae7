//! The sessions of a server: create, resume, take over, release, expire.
//!
//! Sessions belong to a principal and outlive their connections. What is known of them is kept in two places: a record in
//! the session table (`table.rs`), which is data, and an entry among the live sessions (`live.rs`), which holds what runs.
//! A host (`host.rs`) runs them. The [`Directory`] keeps the three together, and this order keeps them so without a common lock:
//!
//! - a session is live before it has a record, so a record found without a live session is of one that is gone;
//! - the table decides who holds a session, and whether it is kept: an operation there is atomic. What it removes is
//!   removed from the live sessions next.

mod describe;
mod end;
pub(crate) mod events;
mod fork;
mod handshake;
mod handshake_result;
mod host;
mod isolation;
pub(crate) mod link;
mod list;
mod listing;
mod live;
mod open;
mod port;
mod residency;
mod settings;
mod share;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::binding::Handlers;
use crate::limits::Limits;
use crate::observe::audit::Audit;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::{Hibernation, MemoryTotal};
use crate::store::FileStore;
use host::{LocalHost, SessionHost};
pub use isolation::{Isolation, IsolationError, IsolationSettings, Strictness, WorkerSettings};
pub(crate) use link::SessionLink;
pub(crate) use list::ListScope;
pub use list::Listed;
use listing::Listings;
use live::LiveSessions;
pub(crate) use open::{OpenSession, SessionLease};
pub(crate) use port::out_of_budget;
use residency::ResidencyCounts;
pub use settings::SessionSettings;
use stored::StoredSessions;
use table::{MemoryTable, SessionTable, SqliteTable};

/// The owner of sessions in the table of a server that has a table of its own.
const THIS_NODE: &str = "local";

/// All sessions of a server. See the module.
pub(crate) struct Directory {
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    settings: SessionSettings,
    /// Detached sessions that each principal may keep.
    detached_share: usize,
    /// What handshakes list under `bindings`.
    listings: Listings,
    /// What handshakes say of the server.
    server: Box<RawValue>,
    table: Arc<dyn SessionTable>,
    live: LiveSessions,
    /// Where sessions run.
    host: Box<dyn SessionHost>,
    /// Names this server in the table.
    owner: Arc<str>,
    /// Sessions that are gone and may still have a record. Each had its place among the live ones, so there are not many.
    stale_records: Mutex<Vec<Arc<str>>>,
    draining: AtomicBool,
    audit: Audit,
    /// The memory of all sessions.
    memory: Arc<MemoryTotal>,
    residency: Arc<ResidencyCounts>,
    /// Where sessions are kept beyond the life of the server.
    store: Option<StoredSessions>,
}

impl Directory {
    /// An empty directory of a server with these bindings.
    pub(crate) fn new(
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        settings: SessionSettings,
        server_name: &str,
        audit: Audit,
        store: Option<Arc<FileStore>>,
    ) -> Self {
        let memory = MemoryTotal::new(limits.memory_total_bytes_max);
        let hibernation = Hibernation::open(&settings.hibernation());
        let residency = Arc::<ResidencyCounts>::default();
        let host = LocalHost::new(
            Arc::clone(&handlers),
            Arc::clone(&limits),
            Arc::clone(&memory),
            hibernation,
            Arc::clone(&residency),
        );
        let (host, table): (LocalHost, Arc<dyn SessionTable>) = match &store {
            Some(store) => {
                let table = SqliteTable::new(store.database().clone());
                (host.with_store(Arc::<FileStore>::clone(store)), Arc::new(table))
            }
            None => (host, Arc::new(MemoryTable::default())),
        };
        Self {
            listings: Listings::new(&handlers),
            handlers,
            limits,
            detached_share: settings.detached_max,
            settings,
            server: to_json(&json!({"name": server_name, "version": env!("CARGO_PKG_VERSION")})),
            table,
            live: LiveSessions::default(),
            host: Box::new(host),
            owner: THIS_NODE.into(),
            stale_records: Mutex::default(),
            draining: AtomicBool::new(false),
            audit,
            memory,
            residency,
            store: store.map(StoredSessions::new),
        }
    }

    /// Shares it with what serves connections. Its sessions can be forked from here on.
    pub(crate) fn into_shared(self) -> Arc<Self> {
        let directory = Arc::new(self);
        directory.host.set_directory(Arc::downgrade(&directory));
        directory
    }

    /// Records what its sessions do.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Where the heaps of its sessions are.
    pub(crate) fn residency(&self) -> &ResidencyCounts {
        &self.residency
    }

    /// The limits of its sessions.
    pub(crate) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The bindings that its sessions are offered.
    pub(crate) fn handlers(&self) -> &Arc<Handlers> {
        &self.handlers
    }

    /// No new sessions from here on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new sessions are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// How many sessions run here.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The most there were at one time since this was last asked.
    pub(crate) fn take_most(&self) -> usize {
        self.live.take_most()
    }
}

/// As JSON text. What has only strings as keys can always be written.
fn to_json(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn busy(message: &str) -> ErrorObject {
    ErrorObject::new(Kind::Busy, message).with("retryAfterMs", 1000)
}
