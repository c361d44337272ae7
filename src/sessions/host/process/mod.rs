//! Sessions in worker processes: walled off from the server, and from the sessions of other principals.
//!
//! A worker runs sessions of one principal, never of two. It is started when the first of them is, and ends with the
//! last. Connections, handlers, policies and quotas stay here: a session's messages pass between its link and its worker
//! ([`relay`]). A worker that does not answer is ended ([`watch`]), and one that ends takes its sessions with it.

mod groups;
mod program;
mod relay;
mod watch;
mod worker;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use program::{ProgramError, WorkerProgram};

use super::{HostedSession, NewSession, SessionHost};
use crate::binding::{Handlers, SessionScope};
use crate::limits::Limits;
use crate::rpc::ErrorObject;
use crate::runtime::MemoryTotal;
use crate::runtime::shard::Shard;
use crate::sandbox::Walls;
use crate::sessions::isolation::{Isolation, IsolationSettings, WorkerSettings};
use crate::sessions::link::SessionLink;
use crate::sessions::port::SessionPort;
use crate::sessions::residency::ResidencyCounts;
use crate::sessions::{SessionSettings, busy};
use crate::worker::frame::WorkerConfig;
use groups::{Groups, Placement};
use relay::Relay;
use worker::Worker;

/// The principal of a server without tokens. Its sessions are those of strangers to each other.
const ANONYMOUS: &str = "anonymous";

/// What the workers of a server have in common.
pub(crate) struct ProcessHostParts {
    pub(crate) settings: IsolationSettings,
    pub(crate) sessions: SessionSettings,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) memory: Arc<MemoryTotal>,
    pub(crate) residency: Arc<ResidencyCounts>,
}

/// See the module.
pub(crate) struct ProcessHost {
    parts: ProcessHostParts,
    config: WorkerConfig,
    program: WorkerProgram,
    groups: Mutex<Groups>,
}

impl ProcessHost {
    /// Starts one worker to see whether it can be done here, and which walls stand. That blocks for a moment.
    pub(crate) fn open(parts: ProcessHostParts) -> Result<(Self, Walls), ProgramError> {
        let config = WorkerConfig {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parent: std::process::id(),
            strictness: parts.settings.sandbox,
            limits: Limits::clone(&parts.limits),
            hibernate_after_ms: parts.sessions.hibernate_after_ms,
            hibernate_folder: parts.sessions.hibernate_folder.clone(),
            hibernated_bytes_max: parts.sessions.hibernated_bytes_max,
        };
        let program = WorkerProgram::new(parts.settings.program.as_deref());
        let walls = program.check(&config)?;
        Ok((Self { parts, config, program, groups: Mutex::default() }, walls))
    }

    async fn start_in_worker(&self, session: NewSession) -> Result<HostedSession, ErrorObject> {
        let NewSession { scope, catalog, restored: _ } = session;
        let worker = self.place(&scope).await?;
        let (id, principal) = (scope.id.clone(), scope.principal.name.clone());
        let channel = worker.start_session(id, principal, Arc::clone(&catalog)).await?;
        let (link, inbox_rx) = SessionLink::new();
        let port = SessionPort::new(
            Arc::clone(&link),
            scope,
            Arc::clone(&self.parts.handlers),
            Arc::clone(&self.parts.limits),
            &self.parts.residency,
        );
        tokio::task::spawn_local(Relay::new(port, channel, catalog).run(inbox_rx));
        Ok(HostedSession { link, shard: Shard::current().map_or(0, |shard| shard.number()) })
    }

    /// The worker for a session: a new one, or the one of its group that has least to do.
    async fn place(&self, scope: &SessionScope) -> Result<Arc<Worker>, ErrorObject> {
        let principal = scope.principal.name.as_str();
        let WorkerSettings { workers_max, per_principal_max } = self.parts.settings.workers;
        let (group, group_max) = match self.parts.settings.isolation {
            Isolation::Session => (scope.id.as_str(), 1),
            Isolation::Principal | Isolation::Thread if principal == ANONYMOUS => (principal, workers_max),
            Isolation::Principal | Isolation::Thread => (principal, per_principal_max),
        };
        let placement = self.groups.lock().place(group, group_max, workers_max);
        match placement {
            Placement::Existing(worker) => Ok(worker),
            Placement::Full => Err(busy("too many worker processes")),
            Placement::New => {
                let account = Arc::clone(&scope.principal.account);
                let started = Worker::start(&self.program, &self.parts, &self.config, account).await;
                self.groups.lock().end_start(group, started.as_ref().ok());
                started.map_err(|error| {
                    tracing::error!(%error, "cannot start a worker process");
                    busy("cannot start a worker process")
                })
            }
        }
    }
}

impl SessionHost for ProcessHost {
    /// Only in a `LocalSet`, where the messages of the session are passed on.
    fn start(&self, session: NewSession) -> BoxFuture<'_, Result<HostedSession, ErrorObject>> {
        Box::pin(self.start_in_worker(session))
    }
}
