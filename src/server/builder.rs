//! Builds a server from bindings and settings, and refuses those with which it could not run.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::capacity::Connections;
use super::mounts::{self, Additions};
use super::settings::ServerSettings;
use super::shards::{self, Shards};
use super::{Gate, Server, ServerState, Services, StartError, Timeouts, Tls, start};
use crate::binding::{BindingError, BindingFn, Call, DeclarationProblem, Handlers};
use crate::budget::ServerBudget;
use crate::limits::Limits;
use crate::observe::audit::Audit;
use crate::package::loader::Loaded;
use crate::package::{Package, PackageError};
use crate::sessions::{Directory, IsolationSettings, SessionSettings};
use crate::store::StateSettings;

/// CPU time past the limit after which a shard inside JavaScript counts as stuck.
const STUCK_GRACE: Duration = Duration::from_secs(2);

/// The name of packages that the builder makes.
const BOUND_IN_CODE: &str = "bound in code";

/// Collects the bindings and settings of a server.
pub struct ServerBuilder {
    name: String,
    handlers: Arc<Handlers>,
    /// What is added without a package of its own.
    functions: Package,
    problems: Vec<DeclarationProblem>,
    limits: Limits,
    sessions: SessionSettings,
    isolation: IsolationSettings,
    shard_count: usize,
    gate: Gate,
    tls: Option<Tls>,
    audit: Audit,
    settings: ServerSettings,
    state: StateSettings,
    timeouts: Timeouts,
    additions: Additions,
    #[cfg(feature = "mcp")]
    mcp: super::settings::McpSettings,
    #[cfg(feature = "mcp")]
    mcp_extension: Option<Arc<dyn super::McpExtension>>,
}

impl Server {
    /// A server with the default settings and no bindings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            name: "scomp-serve".to_owned(),
            handlers: Arc::default(),
            functions: Package::new(BOUND_IN_CODE),
            problems: Vec::new(),
            limits: Limits::default(),
            sessions: SessionSettings::default(),
            isolation: IsolationSettings::default(),
            shard_count: shards::default_count(),
            gate: Gate::open(),
            tls: None,
            audit: Audit::default(),
            settings: ServerSettings::default(),
            state: StateSettings::default(),
            additions: Additions::default(),
            #[cfg(feature = "mcp")]
            mcp: super::settings::McpSettings::default(),
            #[cfg(feature = "mcp")]
            mcp_extension: None,
            timeouts: Timeouts {
                handshake: Some(Duration::from_secs(30)),
                ping_after: Some(Duration::from_secs(30)),
                idle_max: Some(Duration::from_secs(75)),
            },
        }
    }
}

impl ServerBuilder {
    /// The name in the handshake.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a package of bindings; its problems are reported by [`Self::build`].
    #[must_use]
    pub fn package(mut self, package: Package) -> Self {
        if let Err(PackageError(problems)) = package.register(&self.handlers) {
            self.problems.extend(problems);
        }
        self
    }

    /// Adds a function as a binding; its schemas are those of its types. For effects and limits make a [`Package`].
    #[must_use]
    pub fn bind<I, O, F, Fut>(self, name: &str, description: &str, function: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema,
        F: Fn(I, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
    {
        self.package(Package::new(BOUND_IN_CODE).bind(name, description, function))
    }

    /// Adds a function with [`#[scomp::binding]`](macro@crate::binding).
    #[must_use]
    pub fn add<F: BindingFn>(mut self) -> Self {
        self.functions = self.functions.add::<F>();
        self
    }

    /// Adds the [`State`](crate::binding::State) of that type for the functions that are [added](Self::add) here, before
    /// or after them. A [`Package`] has its own.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.functions = self.functions.state(state);
        self
    }

    /// Adds the packages of a folder; [`Server::start`] starts what they do beside the sessions.
    #[must_use]
    pub fn loaded(mut self, loaded: Loaded) -> Self {
        self.problems.extend(self.handlers.merge(&loaded.handlers));
        self.additions.mounts.extend(loaded.mounts);
        self.additions.live.get_mut().extend(loaded.live);
        self.additions.policies.extend(loaded.policies);
        self.additions.background.get_mut().extend(loaded.background);
        self
    }

    /// The limits of sessions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long sessions live and how many there may be.
    #[must_use]
    pub fn sessions(mut self, sessions: SessionSettings) -> Self {
        self.sessions = sessions;
        self
    }

    /// Which sessions share a process; by default all of them, with the server.
    #[must_use]
    pub fn isolation(mut self, isolation: IsolationSettings) -> Self {
        self.isolation = isolation;
        self
    }

    /// How many threads run scripts, 1 to [`SHARDS_MAX`](super::SHARDS_MAX); by default as many as there are cores.
    #[must_use]
    pub fn shards(mut self, count: usize) -> Self {
        self.shard_count = count;
        self
    }

    /// Who may connect.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Serves `wss` instead of `ws`.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The audit log.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// The settings of the server as a whole.
    #[must_use]
    pub fn settings(mut self, settings: ServerSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Code mode for MCP clients.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp(mut self, mcp: super::settings::McpSettings) -> Self {
        self.mcp = mcp;
        self
    }

    /// Where sessions are kept beyond the life of the server. Only a program that is linked at fixed addresses can do
    /// that, as `scomp-serve` is; [`Self::build`] fails in others.
    #[must_use]
    pub fn state_folder(mut self, settings: StateSettings) -> Self {
        self.state = settings;
        self
    }

    /// Tools, resources and prompts beside those of code mode.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp_extension(mut self, extension: impl super::McpExtension) -> Self {
        self.mcp_extension = Some(Arc::new(extension));
        self
    }

    /// Starts the shards.
    pub fn build(mut self) -> Result<Server, StartError> {
        let functions = std::mem::take(&mut self.functions);
        self = self.package(functions);
        if !self.problems.is_empty() {
            return Err(PackageError(self.problems).into());
        }
        self.limits.check()?;
        shards::check_count(self.shard_count)?;
        self.sessions.check()?;
        self.settings.check()?;
        #[cfg(feature = "mcp")]
        self.mcp.check()?;
        self.state.check()?;
        self.isolation.workers.check()?;
        start::refuse_unknown_names(&self.gate, &self.additions.policies, &self.handlers.catalog())?;
        #[cfg(feature = "mcp")]
        let mcp_oauth = start::load_oauth(&self.mcp, &self.handlers.catalog())?;
        let stuck_after = self.limits.cpu_max() + STUCK_GRACE;
        let limits = Arc::new(self.limits);
        let store = start::open_store(&self.state, self.sessions.ttl_ms)?;
        let directory = Directory::new(self.handlers, limits, self.sessions, &self.name, self.audit, store);
        let directory = directory.isolated(self.isolation)?;
        let directory = directory.shared_by(self.gate.principals()).into_shared();
        let shards = Shards::start(self.shard_count)?;
        let lost_from = Arc::clone(&directory);
        shards.watch(stuck_after, move |shard| {
            let lost = lost_from.forget_shard(shard);
            tracing::error!(shard, lost = lost.len(), "sessions lost with their shard");
            lost
        })?;
        let state = Arc::new(ServerState {
            directory,
            shards: Arc::clone(&shards),
            connections: Connections::new(self.settings.connections_max),
            budget: ServerBudget::new(self.settings.bytes_in_flight_max),
            bodies: Semaphore::new(mounts::HTTP_BODIES_MAX),
            tls: RwLock::new(self.tls),
            gate: RwLock::new(Arc::new(self.gate)),
            timeouts: self.timeouts,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            services: Services::default(),
            additions: self.additions,
            #[cfg(feature = "mcp")]
            mcp: self.mcp,
            #[cfg(feature = "mcp")]
            mcp_extension: self.mcp_extension,
            #[cfg(feature = "mcp")]
            mcp_oauth,
        });
        Ok(Server { state, shards })
    }
}
