//! One connection to a server: the handshake, requests, and the lists of what it offers.
//!
//! Requests and results are JSON here; the protocol library checks and routes them. A request whose caller stops
//! waiting is cancelled at the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rmcp::model::{
    ClientNotification, ClientRequest, GetExtensions as _, ProgressToken, ProtocolVersion, RequestId,
    ServerPeerInfo, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError, Subscription,
    serve_client_with_lifecycle,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::config::Address;
use super::handler::ServerRequests;
use super::http;
use super::routes::{CallTag, Routed, Routes};
use super::stdio::StdioTransport;
use crate::package::Secrets;
use crate::package::loader::process::Process;
use crate::package::loader::stderr::StderrTail;

/// How long a server may take for the handshake and for its first lists, a download by its launcher included.
/// Below the time of opening a package, so that the error says what was waited for.
pub(super) const START_TIME_MAX: Duration = Duration::from_secs(25);

/// How long the process may take to end after the end of its input.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);

/// The variables of our environment that every process gets.
const ENV_PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// How a server is reached, each time.
pub(super) struct Launch {
    pub(super) package: String,
    pub(super) address: Address,
    pub(super) folder: PathBuf,
    pub(super) secrets: Secrets,
}

/// A connection whose handshake is complete, as calls see it.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    pub(super) routes: Arc<Routes>,
    runtime: Handle,
    secrets: Secrets,
    /// Consecutive calls that ended before their answer.
    pub(super) unanswered: AtomicUsize,
    /// Cancelled when too many did.
    pub(super) hung: CancellationToken,
}

/// A connection with what keeps it up. Dropping it ends the server's process.
pub(super) struct Running {
    pub(super) connection: Arc<Connection>,
    service: RunningService<RoleClient, ServerRequests>,
    process: Option<Process>,
    _stderr: Option<AbortOnDropHandle<()>>,
    _subscription: Option<Subscription>,
}

impl Launch {
    /// Connects and shakes hands.
    pub(super) async fn connect(&self) -> Result<Running, String> {
        let routes = Arc::<Routes>::default();
        let handler = ServerRequests { routes: Arc::clone(&routes) };
        let tail = StderrTail::default();
        let (service, process, stderr) = match &self.address {
            Address::Process { program, arguments, env } => {
                let (process, (stdin, stdout, stderr)) =
                    Process::start(self.command(program, arguments, env))
                        .await
                        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
                let logging = tail.clone().read(self.package.clone(), self.secrets.clone(), stderr);
                let stderr = AbortOnDropHandle::new(tokio::spawn(logging));
                let transport = StdioTransport::new(stdout, stdin, Arc::clone(&routes));
                let serving = serve_client_with_lifecycle(
                    handler,
                    Routed::new(transport, Arc::clone(&routes)),
                    lifecycle(),
                );
                let served = timeout(START_TIME_MAX, serving).await;
                if !matches!(served, Ok(Ok(_))) {
                    // What it said last comes with its end.
                    let _ = timeout(STOP_WAIT_MAX, process.exited()).await;
                    tokio::task::yield_now().await;
                }
                (served, Some(process), Some(stderr))
            }
            Address::Http { url, headers } => {
                let transport = http::transport(url, headers, Arc::clone(&routes))?;
                let serving = serve_client_with_lifecycle(
                    handler,
                    Routed::new(transport, Arc::clone(&routes)),
                    lifecycle(),
                );
                (timeout(START_TIME_MAX, serving).await, None, None)
            }
        };
        let service = match service {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                let reason = routes.failure().unwrap_or_else(|| error.to_string());
                return Err(self.secrets.redact(&tail.append_to(&format!("the handshake failed: {reason}"))));
            }
            Err(_) => {
                let message = format!("no handshake within {} s", START_TIME_MAX.as_secs());
                return Err(self.secrets.redact(&tail.append_to(&message)));
            }
        };
        let connection = Arc::new(Connection {
            peer: service.peer().clone(),
            routes,
            runtime: Handle::current(),
            secrets: self.secrets.clone(),
            unanswered: AtomicUsize::new(0),
            hung: CancellationToken::new(),
        });
        let subscription = connection.subscribe().await;
        Ok(Running { connection, service, process, _stderr: stderr, _subscription: subscription })
    }

    fn command(&self, program: &str, arguments: &[String], env: &BTreeMap<String, String>) -> Command {
        // A path is meant from the declaration's folder; a bare name is looked for in PATH.
        let program = if program.contains('/') { self.folder.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(program);
        let passed = ENV_PASSED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(arguments).current_dir(&self.folder).env_clear().envs(passed).envs(env);
        command
    }
}

/// The newest revision where the server speaks it, otherwise the last one with a handshake.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

impl Running {
    /// Ends the connection and the process behind it: the end of its input comes first, so that it can finish.
    pub(super) async fn stop(mut self, package: &str) {
        self.connection.routes.close("the server was stopped");
        let finish = async {
            let _ = self.service.close().await;
            if let Some(process) = &self.process {
                process.exited().await;
            }
        };
        // One that has not ended by then is killed now; so is what it started, either way.
        let _ = timeout(STOP_WAIT_MAX, finish).await;
        if let Some(process) = self.process.take()
            && let Err(error) = process.end().await
        {
            tracing::warn!(package, %error, "the MCP server cannot be ended");
        }
    }
}

impl Connection {
    /// What the server said of itself.
    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Sends a request and waits for the result. Dropping the future cancels the request at the server.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        tag: Option<CallTag>,
    ) -> Result<Value, ServiceError> {
        let wire = json!({"method": method, "params": params});
        let mut request: ClientRequest =
            serde_json::from_value(wire).map_err(|_| ServiceError::UnexpectedResponse)?;
        if let Some(tag) = tag {
            request.extensions_mut().insert(tag);
        }
        let options = PeerRequestOptions::no_options();
        let handle = self.peer.send_request_with_option(request, options).await?;
        let token = handle.progress_token.clone();
        let mut pending = PendingRequest { connection: self, token, id: Some(handle.id.clone()) };
        let result = handle.await_response().await;
        pending.id = None;
        let mut result = serde_json::to_value(result?).map_err(|_| ServiceError::UnexpectedResponse)?;
        self.redact(&mut result);
        Ok(result)
    }

    /// A server may repeat what it was started with: in results, descriptions, questions. What it gets back from us
    /// stays as it is.
    fn redact(&self, result: &mut Value) {
        let state = result.as_object_mut().and_then(|fields| fields.remove("requestState"));
        self.secrets.redact_value(result);
        if let (Some(state), Some(fields)) = (state, result.as_object_mut()) {
            fields.insert("requestState".to_owned(), state);
        }
    }

    /// Since the newest revision, changes are announced only to a client that listens.
    async fn subscribe(&self) -> Option<Subscription> {
        let info = self.info()?;
        if info.protocol_version.has_initialize() {
            return None;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        timeout(START_TIME_MAX, self.peer.listen(filter)).await.ok()?.ok()
    }
}

/// Cancels a request whose caller stopped waiting, and forgets its route either way.
struct PendingRequest<'a> {
    connection: &'a Connection,
    token: ProgressToken,
    id: Option<RequestId>,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.connection.routes.remove(&self.token);
        let Some(id) = self.id.take() else { return };
        let wire = json!({
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "the caller stopped waiting"},
        });
        let Ok(cancelled) = serde_json::from_value::<ClientNotification>(wire) else { return };
        let peer = self.connection.peer.clone();
        // As many as there are calls: each ends when its line is written or the connection is over.
        self.connection.runtime.spawn(async move {
            let _ = peer.send_notification(cancelled).await;
        });
    }
}
