//! The web console: a page built from `js/console`, and the list of sessions that it shows.
//!
//! The page is part of the binary and is served without authentication, for it holds no secret; it asks for a token
//! when the server requires one. It uses the same endpoints as any other client, so it can do nothing that its
//! principal cannot.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use serde_json::json;

use super::{ServerState, http};
use crate::sessions::ListScope;

/// Sessions in one answer. More than a person reads, few enough that inspecting each of them stays cheap.
const SESSIONS_LISTED_MAX: usize = 200;

/// How long sessions have to report their state. One on a stuck shard never does.
const LIST_WAIT_MAX: Duration = Duration::from_secs(2);

/// Only scripts from this server run, and the page connects to this server alone. Styles that scripts set do not count
/// as inline styles, so the editor needs no exception.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const PAGE: &str = include_str!("../../js/console/dist/index.html");
const SCRIPT: &str = include_str!("../../js/console/dist/console.js");
const STYLE: &str = include_str!("../../js/console/dist/console.css");
const LICENSES: &str = include_str!("../../js/console/dist/licenses.txt");

/// The routes of the console.
pub(super) fn router() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/console", get(|| async { file("text/html; charset=utf-8", PAGE) }))
        // The page names its files relative to where it is, so it is at one place only.
        .route("/console/", get(|| async { Redirect::permanent("../console") }))
        .route("/console/console.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/console/console.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/console/licenses.txt", get(|| async { file("text/plain; charset=utf-8", LICENSES) }))
        .route("/console/sessions", get(sessions))
}

fn file(content_type: &'static str, text: &'static str) -> Response<Body> {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // A new server may bring a new page under the same names.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// The scope that the query of a request names; `None` if it is unknown.
fn scope_of(uri: &Uri) -> Option<ListScope> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let named = url::form_urlencoded::parse(query).find(|(name, _)| name == "scope");
    match named.as_ref().map(|(_, scope)| scope.as_ref()) {
        None | Some("own") => Some(ListScope::Own),
        Some("all") => Some(ListScope::All),
        Some(_) => None,
    }
}

/// The sessions of the principal that asks; with `?scope=all`, and the role `operator`, those of everyone.
async fn sessions(State(state): State<Arc<ServerState>>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let principal = match http::admit(&state, &uri, &headers) {
        Ok(principal) => principal,
        Err(refusal) => return refusal.into_response(),
    };
    let Some(scope) = scope_of(&uri) else {
        return (StatusCode::BAD_REQUEST, "scope: expected `own` or `all`\n").into_response();
    };
    let list = state.directory.list_for(&principal, scope, SESSIONS_LISTED_MAX);
    match tokio::time::timeout(LIST_WAIT_MAX, list).await {
        Ok(Err(missing)) => http::refuse_role(&state, &principal, missing).into_response(),
        Ok(Ok(listed)) => {
            let roles = principal.roles;
            let answer = json!({"principal": principal.name, "roles": roles, "sessions": listed});
            let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
            (headers, answer.to_string()).into_response()
        }
        Err(_elapsed) => {
            (StatusCode::SERVICE_UNAVAILABLE, "The sessions did not answer in time.\n").into_response()
        }
    }
}
