//! The HTTP routes of a server: the upgrade to WebSocket, and a few plain pages.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::get;
use tracing::Instrument as _;

use super::ServerState;
use super::connection::{self, ConnectionConfig};
use super::gate::Refusal;
use super::{console, metrics, mounts, upgrade};
use crate::binding::{MissingRole, Principal, Role};
use crate::observe;
use crate::observe::audit::Event;
use crate::transport::{MessageSizes, SUBPROTOCOL};

/// The text form of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes of a server, those of its packages among them.
pub(crate) fn router(state: Arc<ServerState>) -> Router {
    let router = mounts::router(&state, None);
    #[cfg(feature = "mcp")]
    let router = router.merge(super::mcp::router(&state));
    router.merge(
        console::router()
            .route("/", get(root))
            .route("/scomp", get(scomp))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(serve_metrics))
            .with_state(state),
    )
}

async fn ready(State(state): State<Arc<ServerState>>) -> (StatusCode, &'static str) {
    if state.directory.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

/// Serves the metrics. They cover every principal's sessions, so they need the role `operator`.
async fn serve_metrics(
    State(state): State<Arc<ServerState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    match admit_as(&state, Role::Operator, &uri, &headers) {
        Ok(_) => ([(CONTENT_TYPE, METRICS_TYPE)], metrics::page(&state)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(super) fn admit(state: &ServerState, uri: &Uri, headers: &HeaderMap) -> Result<Arc<Principal>, Refusal> {
    record_refusal(state, state.gate().admit(uri, headers))
}

/// Admits a request whose principal has the role.
fn admit_as(
    state: &ServerState,
    role: Role,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Refusal> {
    let principal = admit(state, uri, headers)?;
    match principal.roles.require(role) {
        Ok(()) => Ok(principal),
        Err(missing) => Err(refuse_role(state, &principal, missing)),
    }
}

/// Counts and records a request that needs a role which the principal does not have.
pub(super) fn refuse_role(state: &ServerState, principal: &Principal, missing: MissingRole) -> Refusal {
    let refusal = Refusal::MissingRole(missing);
    observe::record_refusal(refusal.reason());
    tracing::info!(
        reason = refusal.reason(),
        principal = principal.name,
        role = missing.0.name(),
        "a request was refused"
    );
    let event = || Event::RoleRefused { principal: principal.name.clone(), role: missing.0.name(), count: 1 };
    state.directory.audit().record(event);
    refusal
}

/// Counts and audits a refusal.
pub(super) fn record_refusal<T>(state: &ServerState, admitted: Result<T, Refusal>) -> Result<T, Refusal> {
    admitted.inspect_err(|refusal| {
        let reason = refusal.reason();
        observe::record_refusal(reason);
        tracing::info!(reason, "a request was refused");
        state.directory.audit().record_unauthenticated(|| Event::Refused { reason, count: 1 });
    })
}

/// The root is scomp's, unless the client offers the subprotocol of a package that is mounted there.
async fn root(state: State<Arc<ServerState>>, request: Request<Body>) -> Response<Body> {
    match mounts::at_root(&state, request.headers()) {
        Some(mount) => mount(request),
        None => scomp(state, request).await,
    }
}

async fn scomp(State(state): State<Arc<ServerState>>, request: Request<Body>) -> Response<Body> {
    let principal = match admit(&state, request.uri(), request.headers()) {
        Ok(principal) => principal,
        Err(refusal) => return refusal.into_response(),
    };
    let sizes = MessageSizes::both(state.directory.limits().message_bytes_max);
    let budget = state.connection_budget();
    let at = Arc::clone(&state);
    upgrade::accept(&at, request, Some(SUBPROTOCOL), sizes, Arc::clone(&budget), move |socket, placed| {
        let config = ConnectionConfig {
            directory: Arc::clone(&state.directory),
            principal,
            timeouts: state.timeouts,
            stop: state.stop.clone(),
            finishes: false,
            budget,
        };
        let span = tracing::info_span!("connection", number = state.connections.next_number());
        let name = config.principal.name.clone();
        let drive = async move {
            tracing::info!(principal = name, "connected");
            connection::drive(socket, config).await;
            tracing::info!(principal = name, "disconnected");
            drop(placed);
        };
        state.tasks.spawn_local(drive.instrument(span));
    })
}
