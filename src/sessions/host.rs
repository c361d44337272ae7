//! Where sessions run.
//!
//! A [`SessionHost`] starts a session and returns the [link](SessionLink) by which messages are exchanged with it.
//! [`LocalHost`] runs sessions on the shards of this process.

use std::rc::Rc;
use std::sync::Arc;

use tracing::Instrument as _;

use super::busy;
use super::link::SessionLink;
use super::port::LocalPort;
use crate::binding::{Handlers, SessionScope};
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::shard::Shard;
use crate::runtime::{Driver, DriverParts, MemoryTotal};
use crate::session::{SessionState, Time};

/// A session to be started.
pub(crate) struct NewSession {
    /// Its id, its principal and where its calls are recorded.
    pub(crate) scope: Arc<SessionScope>,
    /// The server's bindings.
    pub(crate) catalog: Arc<Catalog>,
}

/// Starts sessions, and exchanges messages with them through their links.
pub(crate) trait SessionHost: Send + Sync {
    /// Starts a session.
    fn start(&self, session: NewSession) -> Result<Arc<SessionLink>, ErrorObject>;
}

/// Runs sessions on the shards of this process: each on the shard of the connection that opened it.
pub(crate) struct LocalHost {
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    memory: Arc<MemoryTotal>,
}

impl LocalHost {
    /// A host of sessions that share these.
    pub(crate) fn new(handlers: Arc<Handlers>, limits: Arc<Limits>, memory: Arc<MemoryTotal>) -> Self {
        Self { handlers, limits, memory }
    }
}

impl SessionHost for LocalHost {
    /// Only on a shard, where the session is to live.
    fn start(&self, NewSession { scope, catalog }: NewSession) -> Result<Arc<SessionLink>, ErrorObject> {
        let shard = Shard::current().ok_or_else(|| ErrorObject::new(Kind::Internal, "not on a shard"))?;
        if shard.is_retired() {
            return Err(busy("the shard was retired"));
        }
        let (link, inbox_rx) = SessionLink::new();
        let principal = &scope.principal;
        let state = SessionState::new(
            scope.id.clone(),
            principal.name.clone(),
            catalog,
            &self.limits,
            Time::default(),
        );
        let (account, weight) = (Arc::clone(&principal.account), shard.weigh());
        let span = tracing::info_span!("session", id = scope.id, principal = principal.name);
        let port = LocalPort::new(
            Arc::clone(&link),
            scope,
            Arc::clone(&self.handlers),
            Arc::clone(&self.limits),
            shard,
        );
        let driver = Driver::new(DriverParts {
            state,
            limits: Arc::clone(&self.limits),
            memory: Arc::clone(&self.memory),
            account,
            port: Rc::new(port),
            inbox: (link.downgrade_inbox(), inbox_rx),
        });
        let driver = driver.map_err(|error| busy(&error.to_string()))?;
        let run = async move {
            driver.run().await;
            drop(weight);
        };
        tokio::task::spawn_local(run.instrument(span));
        Ok(link)
    }
}
