//! The server: shards, the sessions on them, and the ways to connect.
//!
//! [`Server::builder`] collects bindings and settings; [`Server::serve`] takes a listener, [`Server::into_router`] makes
//! it a part of another web server, [`Server::connect`] opens an in-process connection, [`Server::serve_transport`] takes
//! anything else that carries texts.

mod accept;
mod builder;
mod capacity;
mod connection;
mod console;
mod gate;
mod http;
#[cfg(feature = "mcp")]
mod mcp;
mod metrics;
mod mounts;
mod nested;
mod reload;
mod services;
pub mod settings;
pub(crate) mod shards;
mod sockets;
mod start;
mod stop;
mod tls;
mod upgrade;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "mcp")]
pub use crate::mcp::server::{ExtensionFuture, McpExtension};
pub use crate::session::boundary::SessionInfo;
pub use crate::sessions::IsolationError;
pub use crate::sessions::Listed;
pub use crate::transport::Timeouts;
pub use builder::ServerBuilder;
pub use gate::{Gate, GateError};
pub use reload::ReloadError;
pub use services::{Service, ServiceState, Services};
pub use shards::SHARDS_MAX;
pub use start::{StartError, check_policies};
pub use tls::{Tls, TlsError};

use crate::binding::Principal;
use crate::budget::ServerBudget;
use crate::catalog::Catalog;
use crate::observe;
use crate::sessions::Directory;
use crate::transport::{self, PairEnd, Transport, pair};
use capacity::{Connections, Trimmer};
use connection::ConnectionConfig;
use mounts::Additions;
use shards::Shards;

/// Frames on an in-process connection that wait to be read.
const PAIR_FRAMES_MAX: usize = 256;

/// How often expired sessions are ended.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// State that all connections share.
pub(crate) struct ServerState {
    pub(crate) directory: Arc<Directory>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) connections: Connections,
    pub(crate) budget: Arc<ServerBudget>,
    pub(crate) bodies: Semaphore,
    pub(crate) tls: RwLock<Option<Tls>>,
    pub(crate) gate: RwLock<Arc<Gate>>,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) services: Services,
    pub(crate) additions: Additions,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: settings::McpSettings,
    #[cfg(feature = "mcp")]
    pub(crate) mcp_extension: Option<Arc<dyn McpExtension>>,
    #[cfg(feature = "mcp")]
    pub(crate) mcp_oauth: Option<crate::mcp::server::Oauth>,
}

impl ServerState {
    /// Who may connect, as of now.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate.read())
    }
}

/// A server. Cheap to clone.
///
/// ```
/// use scomp::binding::{BindingError, Call};
/// use scomp::client::Client;
/// use scomp::server::Server;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, schemars::JsonSchema)]
/// struct Names { first: String, last: String }
///
/// async fn initials(names: Names, _: Call) -> Result<String, BindingError> {
///     Ok([names.first, names.last].iter().filter_map(|name| name.chars().next()).collect())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().bind("initials", "First letters of a name.", initials).build()?;
/// // In the same process; `server.serve(listener)` takes connections from outside.
/// let client = Client::builder().connect_transport(server.connect()).await?;
/// let output = client.eval("await initials({ first: 'Ada', last: 'Lovelace' })").await?;
/// assert_eq!(output.value, "AL");
/// assert_eq!(server.session_count(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Server {
    state: Arc<ServerState>,
    shards: Arc<Shards>,
}

impl Server {
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
            self.maintain(&mut trimmer).await;
        }
    }

    async fn maintain(&self, trimmer: &mut Trimmer) {
        self.state.directory.expire().await;
        self.wake_due_sessions().await;
        let (most, now) = (self.state.directory.take_most(), self.state.directory.len());
        if trimmer.is_due(most, now, Instant::now()) {
            self.shards.release_memory();
        }
        observe::run_upkeep();
    }

    /// Starts stored sessions that have something to do by themselves, such as a timer.
    async fn wake_due_sessions(&self) {
        for (id, principal) in self.state.directory.due_sessions().await {
            let principal = self.state.gate().principal(&principal);
            let shard = self.shards.least_loaded();
            let (Some(principal), Some(shard)) = (principal, shard) else {
                self.state.directory.give_up_due(&id);
                continue;
            };
            let directory = Arc::clone(&self.state.directory);
            let revive = move || {
                tokio::task::spawn_local(async move {
                    if directory.revive(&principal, &id).await.is_err() {
                        directory.give_up_due(&id);
                    }
                });
            };
            shard.run(revive);
        }
    }

    /// Serves a connection over any transport. Returns when it is over.
    pub async fn serve_transport<T: Transport>(&self, transport: T) -> io::Result<()> {
        self.serve_one(transport, self.state.gate().local(), false).await
    }

    /// Serves one session over stdin and stdout. After the end of input the requests so far are still answered.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        let line_bytes_max = self.state.directory.limits().message_bytes_max;
        self.serve_one(transport::stdio(line_bytes_max), self.state.gate().local(), true).await
    }

    async fn serve_one<T: Transport>(
        &self,
        transport: T,
        principal: Arc<Principal>,
        finishes: bool,
    ) -> io::Result<()> {
        let shard = self.shards.least_loaded().ok_or_else(|| io::Error::other("no shard"))?;
        let timeouts = Timeouts::NONE;
        let principal = Arc::new(Principal::clone(&principal).in_process());
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
            // On a stuck shard the sender may never be dropped.
            () = shard.retired() => Err(io::Error::other("the shard was lost")),
        }
    }

    /// Opens an in-process connection.
    pub fn connect(&self) -> PairEnd {
        self.connect_as(self.state.gate().local())
    }

    fn connect_as(&self, principal: Arc<Principal>) -> PairEnd {
        let (ours, mut theirs) = pair(PAIR_FRAMES_MAX);
        let served = CancellationToken::new();
        // On a stuck shard the server's end is not dropped, so the client's end is broken from here.
        theirs.break_when(&served);
        let server = self.clone();
        tokio::spawn(async move {
            let _served = served.drop_guard();
            server.serve_one(ours, principal, false).await
        });
        theirs
    }

    /// The service scripts and their states.
    pub fn services(&self) -> &Services {
        &self.state.services
    }

    /// The bindings that new evals see.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.state.directory.handlers().catalog()
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.state.directory.len()
    }

    /// Up to `most` sessions with their state.
    pub async fn sessions(&self, most: usize) -> Vec<Listed> {
        self.state.directory.list(most).await
    }

    /// Takes no new sessions from now on; those that exist go on until [`stop`](Self::stop).
    pub fn drain(&self) {
        self.state.directory.drain();
    }
}
