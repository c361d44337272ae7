//! Sessions on the shards of this process.

use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tracing::Instrument as _;

use super::{HostedSession, NewSession, SessionHost};
use crate::binding::Handlers;
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::shard::Shard;
use crate::runtime::{Driver, DriverParts, Hibernation, MemoryTotal, Port};
use crate::session::boundary::{FromSession, HandlerCall, ToSession};
use crate::session::{SessionState, Time};
use crate::sessions::busy;
use crate::sessions::link::SessionLink;
use crate::sessions::port::SessionPort;
use crate::sessions::residency::ResidencyCounts;

/// Runs each session on the shard of the connection that opened it.
pub(crate) struct LocalHost {
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    memory: Arc<MemoryTotal>,
    hibernation: Hibernation,
    residency: Arc<ResidencyCounts>,
}

impl LocalHost {
    /// A host of sessions that share these.
    pub(crate) fn new(
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        memory: Arc<MemoryTotal>,
        hibernation: Hibernation,
        residency: Arc<ResidencyCounts>,
    ) -> Self {
        Self { handlers, limits, memory, hibernation, residency }
    }

    /// Starts a session on the shard of this thread.
    fn start_on(&self, shard: Shard, session: NewSession) -> Result<HostedSession, ErrorObject> {
        let NewSession { scope, catalog } = session;
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
        let (handlers, limits) = (Arc::clone(&self.handlers), Arc::clone(&self.limits));
        let port = SessionPort::new(Arc::clone(&link), scope, handlers, Arc::clone(&limits), &self.residency);
        let number = shard.number();
        let driver = Driver::new(DriverParts {
            state,
            limits,
            memory: Arc::clone(&self.memory),
            hibernation: self.hibernation.clone(),
            account,
            port: Rc::new(LocalPort { port, shard: shard.clone() }),
            shard: Some(shard),
            inbox: (link.downgrade_inbox(), inbox_rx),
        });
        let driver = driver.map_err(|error| busy(&error.to_string()))?;
        let run = async move {
            driver.run().await;
            drop(weight);
        };
        tokio::task::spawn_local(run.instrument(span));
        Ok(HostedSession { link, shard: number })
    }
}

impl SessionHost for LocalHost {
    /// Only on a shard, where the session is to live.
    fn start(&self, session: NewSession) -> BoxFuture<'_, Result<HostedSession, ErrorObject>> {
        let started = match Shard::current() {
            None => Err(ErrorObject::new(Kind::Internal, "not on a shard")),
            Some(shard) if shard.is_retired() => Err(busy("the shard was retired")),
            Some(shard) => self.start_on(shard, session),
        };
        Box::pin(ready(started))
    }
}

/// A session's way to the server, on the same thread.
struct LocalPort {
    port: SessionPort,
    shard: Shard,
}

impl Port for LocalPort {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        self.port.receive(message)
    }

    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        self.port.call(call)
    }

    fn is_closed(&self) -> bool {
        self.shard.is_retired()
    }
}
