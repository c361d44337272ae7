//! The server: shards, the sessions on them, and the ways in.
//!
//! [`Server::builder`] collects bindings and settings; [`Server::serve`] takes a listener, [`Server::connect`] gives an
//! in-process connection, [`Server::serve_transport`] takes anything else that carries texts.

mod capacity;
mod connection;
mod console;
mod gate;
mod http;
mod metrics;
mod mounts;
mod services;
pub mod settings;
pub(crate) mod shards;
mod sockets;
mod start;
mod stop;
mod tls;
mod upgrade;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

pub use crate::transport::Timeouts;
pub use gate::{Gate, GateError};
pub use services::{Service, ServiceState, Services};
pub use start::{StartError, check_policies};
pub use tls::{Tls, TlsError};

use crate::binding::{BindingError, Call, DeclarationProblem, Handlers, Principal};
use crate::budget::ServerBudget;
use crate::limits::Limits;
use crate::observe;
use crate::observe::audit::Audit;
use crate::package::loader::Loaded;
use crate::package::{Package, PackageError};
use crate::sessions::{Directory, SessionSettings};
use crate::transport::{self, PairEnd, Transport, pair};
use capacity::{Connections, Placed, Trimmer};
use connection::ConnectionConfig;
use mounts::Additions;
use settings::ServerSettings;
pub use shards::SHARDS_MAX;
use shards::Shards;

/// How long the head of an HTTP request may take.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);

/// Frames on an in-process connection that wait to be read.
const PAIR_FRAMES_MAX: usize = 256;

/// What a shard inside JavaScript gets beyond the CPU limit before it counts as stuck.
const STUCK_GRACE: Duration = Duration::from_secs(2);

/// How often expired sessions are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// What connections share.
pub(crate) struct ServerState {
    pub(crate) directory: Arc<Directory>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) connections: Connections,
    pub(crate) budget: Arc<ServerBudget>,
    pub(crate) bodies: Semaphore,
    pub(crate) tls: Option<Tls>,
    pub(crate) gate: Gate,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) services: Services,
    pub(crate) additions: Additions,
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    state: Arc<ServerState>,
    shards: Arc<Shards>,
}

/// Collects what a server is made of.
pub struct ServerBuilder {
    name: String,
    handlers: Arc<Handlers>,
    problems: Vec<DeclarationProblem>,
    limits: Limits,
    sessions: SessionSettings,
    shard_count: usize,
    gate: Gate,
    tls: Option<Tls>,
    audit: Audit,
    settings: ServerSettings,
    timeouts: Timeouts,
    additions: Additions,
}

impl Server {
    /// A server with the default settings and no bindings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            name: "scomp-serve".to_owned(),
            handlers: Arc::default(),
            problems: Vec::new(),
            limits: Limits::default(),
            sessions: SessionSettings::default(),
            shard_count: shards::default_count(),
            gate: Gate::open(),
            tls: None,
            audit: Audit::default(),
            settings: ServerSettings::default(),
            additions: Additions::default(),
            timeouts: Timeouts {
                handshake: Some(Duration::from_secs(30)),
                ping_after: Some(Duration::from_secs(30)),
                idle_max: Some(Duration::from_secs(75)),
            },
        }
    }

    /// Accepts connections until the server is stopped.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let router = http::router(Arc::clone(&self.state));
        tokio::select! {
            served = self.accept(listener, router) => served,
            () = self.run_maintenance() => Ok(()),
        }
    }

    async fn run_maintenance(&self) {
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        let mut trimmer = Trimmer::new(Instant::now());
        loop {
            expire.tick().await;
            self.state.directory.expire().await;
            let (most, now) = (self.state.directory.take_most(), self.state.directory.len());
            if trimmer.is_due(most, now, Instant::now()) {
                self.shards.give_memory_back();
            }
            observe::upkeep();
        }
    }

    async fn accept(&self, listener: TcpListener, router: axum::Router) -> io::Result<()> {
        loop {
            tokio::select! {
                () = self.state.stop.cancelled() => return Ok(()),
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => self.place(stream, from, router.clone()),
                    // Out of file descriptors, or a peer that is gone already: neither ends the server.
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
            }
        }
    }

    /// Hands a connection to the shard with the least on it.
    fn place(&self, stream: TcpStream, from: SocketAddr, router: axum::Router) {
        let Some(slot) = self.state.connections.admit() else {
            observe::refused("connections");
            return;
        };
        let placed = (|| -> io::Result<()> {
            stream.set_nodelay(true)?;
            let shard = self.shards.least_loaded().ok_or_else(|| io::Error::other("no shard"))?;
            let socket = self.shards.sockets().enter(shard.number(), stream.into_std()?);
            let placed = Placed(Arc::new((shard.weigh(), slot)));
            let (stop, tls) = (self.state.stop.clone(), self.state.tls.clone());
            let is_taken = shard.run(move || {
                tokio::task::spawn_local(async move {
                    match (socket.register(), tls) {
                        (Ok(socket), None) => serve_http(socket, router, placed, stop).await,
                        (Ok(socket), Some(tls)) => match tls.accept(socket).await {
                            Ok(stream) => serve_http(stream, router, placed, stop).await,
                            Err(_) => observe::refused("tls"),
                        },
                        (Err(error), _) => tracing::warn!(%error, "a connection was dropped"),
                    }
                });
            });
            if is_taken { Ok(()) } else { Err(io::Error::other("the shard is overloaded")) }
        })();
        if let Err(error) = placed {
            tracing::warn!(%error, %from, "a connection was dropped");
        }
    }

    /// Serves a connection that somebody else made, for example over stdio. Returns when it is over.
    pub async fn serve_transport<T: Transport>(&self, transport: T) -> io::Result<()> {
        self.serve_one(transport, self.state.gate.local(), false).await
    }

    /// Serves one session over stdin and stdout. After the end of input what was asked is still answered.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        let line_bytes_max = self.state.directory.limits().message_bytes_max;
        self.serve_one(transport::stdio(line_bytes_max), self.state.gate.local(), true).await
    }

    async fn serve_one<T: Transport>(
        &self,
        transport: T,
        principal: Arc<Principal>,
        finishes: bool,
    ) -> io::Result<()> {
        let shard = self.shards.least_loaded().ok_or_else(|| io::Error::other("no shard"))?;
        let timeouts = Timeouts::NONE;
        let config = ConnectionConfig {
            directory: Arc::clone(&self.state.directory),
            principal,
            timeouts,
            stop: self.state.stop.clone(),
            finishes,
            budget: self.state.connection_budget(),
        };
        let (done_tx, done_rx) = tokio::sync::oneshot::channel::<()>();
        let weight = shard.weigh();
        let tasks = self.state.tasks.clone();
        let is_taken = shard.run(move || {
            tasks.spawn_local(async move {
                connection::drive(transport, config).await;
                drop((weight, done_tx));
            });
        });
        if !is_taken {
            return Err(io::Error::other("the shard is overloaded"));
        }
        tokio::select! {
            // Ends when the sender is dropped, at the end of the connection.
            _ = done_rx => Ok(()),
            // What is stuck on a lost shard may never be dropped.
            () = shard.retired() => Err(io::Error::other("the shard was lost")),
        }
    }

    /// An in-process connection.
    pub fn connect(&self) -> PairEnd {
        self.connect_as(self.state.gate.local())
    }

    fn connect_as(&self, principal: Arc<Principal>) -> PairEnd {
        let (ours, mut theirs) = pair(PAIR_FRAMES_MAX);
        let served = CancellationToken::new();
        // Our end is not dropped on a shard that is stuck.
        theirs.break_when(&served);
        let server = self.clone();
        tokio::spawn(async move {
            let _served = served.drop_guard();
            server.serve_one(ours, principal, false).await
        });
        theirs
    }

    /// The service scripts and where they stand.
    pub fn services(&self) -> &Services {
        &self.state.services
    }

    /// The sessions of this server.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.state.directory
    }
}

async fn serve_http<S>(stream: S, router: axum::Router, placed: Placed, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(placed.clone());
        request
    });
    let service = TowerToHyperService::new(service);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::select! {
        served = connection => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        },
        () = stop.cancelled() => {}
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
        self.package(Package::new("bound in code").bind(name, description, function))
    }

    /// Adds the packages of a folder; [`Server::start`] starts what they do beside the sessions.
    #[must_use]
    pub fn loaded(mut self, loaded: Loaded) -> Self {
        self.problems.extend(self.handlers.merge(&loaded.handlers));
        self.additions.mounts.extend(loaded.mounts);
        self.additions.commands.extend(loaded.commands);
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

    /// How many threads run scripts, 1 to [`SHARDS_MAX`]; by default as many as there are cores.
    #[must_use]
    pub fn shards(mut self, count: usize) -> Self {
        self.shard_count = count;
        self
    }

    /// Who may come in.
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

    /// Where it is put down who called what.
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

    /// Starts the shards.
    pub fn build(self) -> Result<Server, StartError> {
        if !self.problems.is_empty() {
            return Err(PackageError(self.problems).into());
        }
        self.limits.check()?;
        shards::check_count(self.shard_count)?;
        self.sessions.check()?;
        self.settings.check()?;
        start::refuse_unknown_names(&self.gate, &self.additions.policies, &self.handlers.catalog())?;
        let stuck_after = self.limits.cpu_max() + STUCK_GRACE;
        let limits = Arc::new(self.limits);
        let directory = Directory::new(self.handlers, limits, self.sessions, &self.name, self.audit);
        let directory = Arc::new(directory.shared_by(self.gate.principals()));
        let shards = Shards::start(self.shard_count)?;
        let lost_from = Arc::clone(&directory);
        shards.watch(stuck_after, move |shard| {
            let lost = lost_from.forget_shard(shard);
            tracing::error!(shard, lost = lost.len(), "sessions were lost with their shard");
            lost
        })?;
        let state = Arc::new(ServerState {
            directory,
            shards: Arc::clone(&shards),
            connections: Connections::new(self.settings.connections_max),
            budget: ServerBudget::new(self.settings.bytes_in_flight_max),
            bodies: Semaphore::new(mounts::HTTP_BODIES_MAX),
            tls: self.tls,
            gate: self.gate,
            timeouts: self.timeouts,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            services: Services::default(),
            additions: self.additions,
        });
        Ok(Server { state, shards })
    }
}
