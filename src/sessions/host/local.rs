//! Sessions on the shards of this process.

use std::future::ready;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tracing::Instrument as _;

use super::{HostedSession, NewSession, SessionHost};
use crate::binding::{Handlers, SessionScope};
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::shard::Shard;
use crate::runtime::{
    Driver, DriverParts, Fork, ForkAdmission, Hibernation, MemoryTotal, Port, SessionStart,
};
use crate::session::boundary::{FromSession, HandlerCall, ToSession};
use crate::session::{SessionState, Time};
use crate::sessions::fork::ForkPlace;
use crate::sessions::link::SessionLink;
use crate::sessions::port::SessionPort;
use crate::sessions::residency::ResidencyCounts;
use crate::sessions::{Directory, busy};
use crate::store::Store;

/// Runs each session on the shard of the connection that opened it, and a fork on that of its origin.
#[derive(Clone)]
pub(crate) struct LocalHost(Arc<Shared>);

/// What all sessions of a server share.
struct Shared {
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    memory: Arc<MemoryTotal>,
    hibernation: Hibernation,
    residency: Arc<ResidencyCounts>,
    directory: OnceLock<Weak<Directory>>,
    store: Option<Arc<dyn Store>>,
}

/// Numbers of the host for each process that a session lives in: a session that makes a million calls a second for an
/// hour does not use them up.
const NUMBERS_PER_EPOCH: u64 = 1 << 32;

impl LocalHost {
    /// A host of sessions that share these.
    pub(crate) fn new(
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        memory: Arc<MemoryTotal>,
        hibernation: Hibernation,
        residency: Arc<ResidencyCounts>,
    ) -> Self {
        let (directory, store) = (OnceLock::new(), None);
        Self(Arc::new(Shared { handlers, limits, memory, hibernation, residency, directory, store }))
    }

    /// Keeps its sessions in a store. Before any session is started.
    pub(crate) fn with_store(self, store: Arc<dyn Store>) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(shared) => Self(Arc::new(Shared { store: Some(store), ..shared })),
            Err(shared) => Self(shared),
        }
    }

    /// Starts a session on the shard of this thread.
    fn start_on(&self, shard: Shard, session: NewSession) -> Result<HostedSession, ErrorObject> {
        let NewSession { scope, catalog, restored } = session;
        let (link, inbox_rx) = SessionLink::new();
        let port = self.new_port(&link, &scope);
        let start = match restored {
            Some(restored) => {
                port.number_from(restored.claim.epoch.saturating_mul(NUMBERS_PER_EPOCH));
                SessionStart::Restored(restored, catalog)
            }
            None => {
                let (id, principal) = (scope.id.clone(), scope.principal.name.clone());
                let limits = &self.0.limits;
                SessionStart::Fresh(Box::new(SessionState::new(
                    id,
                    principal,
                    catalog,
                    limits,
                    Time::default(),
                )))
            }
        };
        self.run(shard, scope, start, port, (link, inbox_rx))
    }

    /// Starts a fork on the shard of this thread, which is that of its origin.
    fn start_fork(
        &self,
        shard: Shard,
        scope: Arc<SessionScope>,
        fork: Box<Fork>,
        origin: &SessionPort,
    ) -> Result<HostedSession, ErrorObject> {
        let (link, inbox_rx) = SessionLink::new();
        let port = self.new_port(&link, &scope);
        let port = port.with_functions_of(origin.host_functions(), |n| fork.holds_handler_function(n));
        self.run(shard, scope, SessionStart::Fork(fork), port, (link, inbox_rx))
    }

    fn new_port(&self, link: &Arc<SessionLink>, scope: &Arc<SessionScope>) -> SessionPort {
        let Shared { handlers, limits, residency, .. } = &*self.0;
        SessionPort::new(
            Arc::clone(link),
            Arc::clone(scope),
            Arc::clone(handlers),
            Arc::clone(limits),
            residency,
        )
    }

    fn run(
        &self,
        shard: Shard,
        scope: Arc<SessionScope>,
        start: SessionStart,
        port: SessionPort,
        (link, inbox_rx): (Arc<SessionLink>, tokio::sync::mpsc::Receiver<ToSession>),
    ) -> Result<HostedSession, ErrorObject> {
        let principal = &scope.principal;
        let keeps_sessions = principal.keeps_sessions;
        let (account, weight) = (Arc::clone(&principal.account), shard.weigh());
        let span = tracing::info_span!("session", id = scope.id, principal = principal.name);
        let number = shard.number();
        let port = LocalPort {
            port: Rc::new(port),
            shard: shard.clone(),
            host: self.clone(),
            scope,
            link: Arc::downgrade(&link),
        };
        let driver = Driver::new(DriverParts {
            start,
            limits: Arc::clone(&self.0.limits),
            memory: Arc::clone(&self.0.memory),
            hibernation: self.0.hibernation.clone(),
            store: self.0.store.clone().filter(|_| keeps_sessions),
            account,
            port: Rc::new(port),
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

    fn set_directory(&self, directory: Weak<Directory>) {
        // Set once, when the directory is shared.
        let _ = self.0.directory.set(directory);
    }
}

/// A session's way to the server, on the same thread.
struct LocalPort {
    port: Rc<SessionPort>,
    shard: Shard,
    host: LocalHost,
    scope: Arc<SessionScope>,
    /// For the answer about a fork.
    link: Weak<SessionLink>,
}

impl Port for LocalPort {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        self.port.receive(message)
    }

    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        self.port.call(call)
    }

    fn admit_fork(&self) -> Result<Box<dyn ForkAdmission>, ErrorObject> {
        let directory = self.host.0.directory.get().and_then(Weak::upgrade);
        let directory = directory.ok_or_else(|| busy("the server is stopping"))?;
        if self.shard.is_retired() {
            return Err(busy("the shard was retired"));
        }
        let place = directory.admit_fork(&self.scope)?;
        Ok(Box::new(LocalFork {
            place,
            directory,
            host: self.host.clone(),
            shard: self.shard.clone(),
            origin: Rc::clone(&self.port),
            link: Weak::clone(&self.link),
        }))
    }

    fn is_closed(&self) -> bool {
        self.shard.is_retired()
    }
}

/// A fork that was admitted.
struct LocalFork {
    place: ForkPlace,
    directory: Arc<Directory>,
    host: LocalHost,
    shard: Shard,
    origin: Rc<SessionPort>,
    link: Weak<SessionLink>,
}

impl ForkAdmission for LocalFork {
    fn session_id(&self) -> &str {
        &self.place.scope.id
    }

    fn start(self: Box<Self>, request: u64, fork: Box<Fork>) {
        let Self { place, directory, host, shard, origin, link } = *self;
        let last_connection = fork.last_connection();
        let started = host.start_fork(shard, Arc::clone(&place.scope), fork, &origin);
        let register = async move {
            let outcome = match started {
                Ok(hosted) => directory.register_fork(place, hosted, last_connection).await,
                Err(error) => Err(error),
            };
            if let Some(link) = link.upgrade() {
                // An origin that has ended needs no answer; the fork expires unless it is resumed.
                let _ = link.send(ToSession::Forked { request, outcome }).await;
            }
        };
        tokio::task::spawn_local(register);
    }
}
