//! `/mcp` as a protected resource of OAuth: access tokens beside the server's own, and the metadata document.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::get;

use super::super::{ServerState, http};
use crate::binding::Principal;
use crate::mcp::server::{Oauth, OauthRefusal, is_jwt};
use crate::observe;

/// Where clients look for the metadata: below the host, and with the path of the resource behind it.
const METADATA: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];

/// The metadata document, if there is an authorization server.
pub(super) fn router(state: &Arc<ServerState>) -> Router {
    let Some(oauth) = &state.mcp_oauth else { return Router::new() };
    let document = oauth.metadata().to_string();
    METADATA.into_iter().fold(Router::new(), |router, path| {
        let document = document.clone();
        router.route(path, get(move || async move { ([(CONTENT_TYPE, "application/json")], document) }))
    })
}

/// The principal behind a request: of the server's own tokens, or of an access token.
pub(super) fn admit(
    state: &ServerState,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Box<Response<Body>>> {
    let Some(oauth) = &state.mcp_oauth else {
        return http::admit(state, uri, headers).map_err(|refusal| Box::new(refusal.into_response()));
    };
    let token = bearer(headers);
    if let Some(token) = token.filter(|token| is_jwt(token)) {
        // `Origin` is checked as for every other request; the token takes the place of the check of `Host`.
        let admitted = http::record_refusal(state, state.gate().admit_unauthenticated(uri, headers, false));
        admitted.map_err(|refusal| Box::new(refusal.into_response()))?;
        return oauth.admit(token).map_err(|refusal| Box::new(refuse(oauth, headers, Some(refusal))));
    }
    // Without tokens of its own the server takes every request of this machine; with an authorization server it does not.
    if state.gate().is_open() {
        return Err(Box::new(refuse(oauth, headers, token.map(|_| OauthRefusal::Invalid))));
    }
    http::admit(state, uri, headers).map_err(|refusal| {
        let mut response = refusal.into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            add_challenge(&mut response, oauth, headers, None);
        }
        Box::new(response)
    })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refuse(oauth: &Oauth, headers: &HeaderMap, refusal: Option<OauthRefusal>) -> Response<Body> {
    let (status, reason) = match refusal {
        Some(OauthRefusal::Scope) => (StatusCode::FORBIDDEN, "oauth-scope"),
        Some(OauthRefusal::Invalid) => (StatusCode::UNAUTHORIZED, "wrong-token"),
        None => (StatusCode::UNAUTHORIZED, "no-token"),
    };
    observe::record_refusal(reason);
    let mut response = (status, "A valid access token is required.\n").into_response();
    add_challenge(&mut response, oauth, headers, refusal);
    response
}

fn add_challenge(
    response: &mut Response<Body>,
    oauth: &Oauth,
    headers: &HeaderMap,
    refusal: Option<OauthRefusal>,
) {
    let [path, _] = METADATA;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let challenge = oauth.challenge(&oauth.metadata_url(host, path), refusal);
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}
