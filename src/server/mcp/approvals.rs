//! `/mcp/approvals`: a page on which a person decides over calls of scripts, for MCP clients that cannot ask.
//!
//! The page holds no secret and is served without authentication; the list and the decisions need a token. A principal
//! decides over calls in its own sessions, and with the role `approver` over all.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use super::super::{ServerState, http};
use crate::mcp::server::Gateway;

/// Longest decision: a flag and a sentence.
const DECISION_BYTES_MAX: usize = 4 << 10;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("approvals.html");
const SCRIPT: &str = include_str!("approvals.js");
const STYLE: &str = include_str!("approvals.css");

type Shared = State<(Arc<ServerState>, Arc<Gateway>)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    allow: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// The routes of the page.
pub(super) fn router(state: &Arc<ServerState>, gateway: &Arc<Gateway>) -> Router {
    Router::new()
        .route("/mcp/approvals", get(|| async { file("text/html; charset=utf-8", PAGE) }))
        .route("/mcp/approvals/script.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/mcp/approvals/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/mcp/approvals/list", get(list))
        .route("/mcp/approvals/{id}", post(decide))
        .layer(DefaultBodyLimit::max(DECISION_BYTES_MAX))
        .with_state((Arc::clone(state), Arc::clone(gateway)))
}

fn file(content_type: &'static str, text: &'static str) -> Response<Body> {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

async fn list(State((state, gateway)): Shared, uri: Uri, headers: HeaderMap) -> Response<Body> {
    match http::admit(&state, &uri, &headers) {
        Ok(principal) => {
            let answer = json!({"approvals": gateway.approvals(&principal)});
            ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], answer.to_string())
                .into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn decide(
    State((state, gateway)): Shared,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let principal = match http::admit(&state, &uri, &headers) {
        Ok(principal) => principal,
        Err(refusal) => return refusal.into_response(),
    };
    // A form of another page cannot send this type, also where there is no token to ask for.
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|found| found == "application/json");
    let decision = serde_json::from_slice::<DecisionBody>(&body).ok().filter(|_| is_json);
    let Some(DecisionBody { allow, reason }) = decision else {
        let text = "expected {\"allow\": true or false, \"reason\": \"…\"} as application/json\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    if gateway.decide(&principal, &id, allow, reason) {
        StatusCode::NO_CONTENT.into_response()
    } else {
        (StatusCode::NOT_FOUND, "No such call waits for approval.\n").into_response()
    }
}
