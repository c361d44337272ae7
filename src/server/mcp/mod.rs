//! `/mcp` on the server's port, and the MCP server over stdin and stdout.
//!
//! A request passes the same gate as a WebSocket. Its body is read here, within the limits that hold for the bodies of
//! packages; waiting for an execution holds no place among them.

mod approvals;
mod protected;

use std::io;
use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use hyper::body::Body as _;

use super::mounts::BODY_TIME_MAX;
use super::{Server, ServerState};
use crate::mcp::server::{ApprovalsPage, Gateway, GatewayConfig, McpService, serve_stdio};
use crate::observe;
use crate::peering::Requester;

/// The route of the MCP endpoint, unless it is switched off. Must be called within a Tokio runtime.
pub(super) fn router(state: &Arc<ServerState>) -> Router {
    if !state.mcp.enabled {
        return Router::new();
    }
    let server = Server { state: Arc::clone(state), shards: Arc::clone(&state.shards) };
    let gateway = match server.mcp_gateway() {
        Ok(gateway) => gateway,
        Err(error) => {
            tracing::error!(%error, "/mcp is not served");
            return Router::new();
        }
    };
    let pages = approvals::router(state, &gateway).merge(protected::router(state));
    let service = Arc::new(McpService::new(gateway));
    let state = Arc::clone(state);
    let serve = move |request: Request| serve(Arc::clone(&state), Arc::clone(&service), request);
    Router::new().route("/mcp", any(serve)).merge(pages)
}

async fn serve(state: Arc<ServerState>, service: Arc<McpService>, request: Request) -> Response<Body> {
    let principal = match protected::admit(&state, request.uri(), request.headers()) {
        Ok(principal) => principal,
        Err(refusal) => return *refusal,
    };
    let requester = Requester { principal, audit: state.directory.audit().clone() };
    let (mut parts, body) = request.into_parts();
    let scheme = if state.tls.read().is_some() { "https" } else { "http" };
    parts.extensions.insert(ApprovalsPage { scheme, path: "/mcp/approvals" });
    let body = {
        let Ok(_permit) = state.bodies.try_acquire() else {
            observe::record_refusal("http-bodies");
            let text = "Too many uploads.\n";
            return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response();
        };
        let bytes_max = state.directory.limits().message_bytes_max;
        let too_large = || {
            let text = format!("A message may have {bytes_max} bytes.\n");
            (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        };
        // What is announced is not read first.
        if body.size_hint().lower() > bytes_max as u64 {
            return too_large();
        }
        match tokio::time::timeout(BODY_TIME_MAX, axum::body::to_bytes(body, bytes_max)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return too_large(),
            Err(_) => return (StatusCode::REQUEST_TIMEOUT, "The request took too long.\n").into_response(),
        }
    };
    service.serve(axum::http::Request::from_parts(parts, body), requester).await
}

impl Server {
    /// Serves one MCP client over stdin and stdout, with the rights of this machine. Returns when the input ends.
    pub async fn serve_mcp_stdio(&self) -> io::Result<()> {
        let bytes_max = self.state.directory.limits().message_bytes_max;
        serve_stdio(self.mcp_gateway()?, self.state.gate().local(), bytes_max, self.state.stop.clone()).await
    }

    fn mcp_gateway(&self) -> io::Result<Arc<Gateway>> {
        let state = Arc::downgrade(&self.state);
        let catalog = move || Some(Weak::upgrade(&state)?.directory.handlers().catalog());
        Gateway::start(GatewayConfig {
            host: self.host(),
            catalog: Box::new(catalog),
            settings: self.state.mcp.clone(),
            message_bytes_max: self.state.directory.limits().message_bytes_max,
            extension: self.state.mcp_extension.clone(),
        })
    }
}
