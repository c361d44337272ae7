//! The web face of a server: the upgrade to WebSocket, and a few plain pages.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use super::ServerState;
use super::connection::{self, Terms};
use super::upgrade;
use crate::transport::SUBPROTOCOL;

/// The routes of a server.
pub(crate) fn router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/", get(scomp))
        .route("/scomp", get(scomp))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(state)
}

async fn ready(State(state): State<Arc<ServerState>>) -> (StatusCode, &'static str) {
    if state.directory.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

async fn scomp(State(state): State<Arc<ServerState>>, request: Request<Body>) -> Response<Body> {
    let principal = match state.gate.admit(request.headers()) {
        Ok(principal) => principal,
        Err(refusal) => return refusal.into_response(),
    };
    let message_bytes_max = state.directory.limits().message_bytes_max;
    upgrade::accept(request, SUBPROTOCOL, message_bytes_max, move |socket, placed| {
        let terms = Terms {
            directory: Arc::clone(&state.directory),
            principal,
            patience: state.patience,
            stop: state.stop.clone(),
            finishes: false,
        };
        state.tasks.spawn_local(async move {
            connection::drive(socket, terms).await;
            drop(placed);
        });
    })
}
