//! The MCP server over Streamable HTTP.
//!
//! Clients of revision 2026-07-28 have no connection: each request stands for itself. Older ones have a session of the
//! protocol, which belongs to the principal that opened it: with its id alone another principal could read its answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::gateway::Gateway;
use super::handler::Handler;
use crate::peering::Requester;

/// The header with the id of a connection of an older client.
const SESSION_HEADER: &str = "mcp-session-id";

/// How soon a client that found no room is to try again, in seconds.
const RETRY_SECONDS: &str = "5";

/// Serves HTTP requests of MCP clients that the server has let in.
pub(crate) struct McpService {
    inner: StreamableHttpService<Handler, LocalSessionManager>,
    manager: Arc<LocalSessionManager>,
    /// Which principal each connection of an older client belongs to.
    owners: Mutex<HashMap<String, String>>,
    connections_max: usize,
    /// Where requests are served, whichever shard their connection is on.
    runtime: Handle,
}

/// All that is read of a message before it is served.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(default, borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
}

impl McpService {
    /// A service on the current runtime.
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        let settings = &gateway.config.settings;
        let mut sessions = SessionConfig::default();
        sessions.keep_alive = Some(Duration::from_millis(settings.session_idle_ms));
        let mut manager = LocalSessionManager::default();
        manager.session_config = sessions;
        let manager = Arc::new(manager);
        // `Host` and `Origin` were checked by the server's gate, which knows more names than this.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(gateway.config.message_bytes_max)
            .with_cancellation_token(gateway.config.host.stop.child_token());
        let connections_max = settings.connections_max;
        let make = move || Ok(Handler::over_http(Arc::clone(&gateway)));
        let inner = StreamableHttpService::new(make, Arc::clone(&manager), config);
        Self { inner, manager, owners: Mutex::default(), connections_max, runtime: Handle::current() }
    }

    /// Serves a request whose body was read.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        mut request: Request<Bytes>,
        requester: Requester,
    ) -> Response<Body> {
        let principal = requester.principal.name.clone();
        if !self.owns(&principal, request.headers()) {
            // The same answer as for a connection that does not exist.
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        if is_initialize(&request) && !self.has_room(&principal).await {
            let text = "Too many MCP connections.\n";
            return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, RETRY_SECONDS)], text).into_response();
        }
        request.extensions_mut().insert(requester);
        let ends_connection = request.method() == Method::DELETE;
        let service = Arc::clone(self);
        let serving = async move { service.inner.handle(request.map(Body::from)).await };
        // Dropped with this future when the client goes away, which cancels its request.
        let served = AbortOnDropHandle::new(self.runtime.spawn(serving)).await;
        match served {
            Ok(mut response) => {
                self.remember(principal, response.headers());
                if ends_connection && response.status() == StatusCode::ACCEPTED {
                    // It is done by now, and the Python client takes only this for a success.
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                response.map(Body::new)
            }
            Err(_stopped) => (StatusCode::SERVICE_UNAVAILABLE, "The server is stopping.\n").into_response(),
        }
    }

    fn owns(&self, principal: &str, headers: &HeaderMap) -> bool {
        let Some(id) = headers.get(SESSION_HEADER) else { return true };
        let owners = self.owners.lock();
        id.to_str().ok().and_then(|id| owners.get(id)).is_some_and(|owner| owner == principal)
    }

    fn remember(&self, principal: String, headers: &HeaderMap) {
        if let Some(id) = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()) {
            self.owners.lock().insert(id.to_owned(), principal);
        }
    }

    /// Whether a principal may open one more connection. Those that ended are forgotten here.
    async fn has_room(&self, principal: &str) -> bool {
        let live = self.manager.sessions.read().await;
        let mut owners = self.owners.lock();
        owners.retain(|id, _| live.contains_key(id.as_str()));
        owners.values().filter(|owner| *owner == principal).count() < self.connections_max
    }
}

fn is_initialize(request: &Request<Bytes>) -> bool {
    let peeked = || serde_json::from_slice::<Peek<'_>>(request.body()).ok()?.method;
    request.method() == Method::POST && peeked().is_some_and(|method| method == "initialize")
}
