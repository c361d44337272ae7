//! The upgrade of an HTTP request to a WebSocket.
//!
//! Done here rather than by the web framework, because only the bare socket can be drained after a message that was
//! too long: without that the peer would see a reset instead of close code 1009.

use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use axum::http::header::{SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use std::sync::Arc;

use super::ServerState;
use super::capacity::ShardSlot;
use crate::budget::ConnectionBudget;
use crate::observe;
use crate::runtime::shard::Shard;
use crate::transport::{MessageSizes, Metered, WebSocket, config};

/// An upgraded connection.
pub(crate) type Upgrade = WebSocket<Metered<TokioIo<Upgraded>>>;

/// Accepts a WebSocket and passes it to `serve`, with its slot on its shard: the current one, or, for a connection
/// that another web server accepted, the one with the least load. Only `subprotocol` is echoed, if the client offers it.
pub(crate) fn accept<F>(
    state: &ServerState,
    mut request: Request<Body>,
    subprotocol: Option<&str>,
    sizes: MessageSizes,
    budget: Arc<ConnectionBudget>,
    serve: F,
) -> Response<Body>
where
    F: FnOnce(Upgrade, ShardSlot) + Send + 'static,
{
    let headers = request.headers();
    let key = match check(request.method(), headers) {
        Ok(key) => derive_accept_key(key.as_bytes()),
        Err(refusal) => return refusal.into_response(),
    };
    let offered = subprotocol.and_then(|subprotocol| offered(headers, subprotocol));
    let placed = match (Shard::current(), request.extensions_mut().remove::<ShardSlot>()) {
        (Some(shard), Some(slot)) => Some((shard, slot)),
        _ => place(state),
    };
    let Some((shard, slot)) = placed else {
        observe::record_refusal("connections");
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many connections.\n").into_response();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let io = Metered::new(TokioIo::new(upgraded), Arc::clone(&budget));
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config(sizes))).await;
        // A shard with no room for one more drops the socket.
        let _ = shard.run(move || serve(WebSocket::new(socket).with_budget(budget), slot));
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    }
    if let Some(offered) = offered {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, offered);
    }
    response
}

/// A slot on the shard with the least load, if there may be one more connection.
fn place(state: &ServerState) -> Option<(Shard, ShardSlot)> {
    let slot = state.connections.admit()?;
    let shard = state.shards.least_loaded()?;
    let weight = shard.weigh();
    Some((shard, ShardSlot(Arc::new((weight, slot)))))
}

/// The key of a valid upgrade request.
fn check(method: &Method, headers: &HeaderMap) -> Result<String, Response<Body>> {
    let wants =
        |name: &HeaderName, word: &str| tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word));
    if method != Method::GET || !wants(&CONNECTION, "upgrade") || !wants(&UPGRADE, "websocket") {
        let text = "Expected a WebSocket upgrade.\n";
        return Err((StatusCode::UPGRADE_REQUIRED, [(UPGRADE, "websocket")], text).into_response());
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let text = "Expected WebSocket version 13.\n";
        return Err((StatusCode::UPGRADE_REQUIRED, [(SEC_WEBSOCKET_VERSION, "13")], text).into_response());
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    key.map(str::to_owned)
        .ok_or_else(|| (StatusCode::BAD_REQUEST, "Missing Sec-WebSocket-Key header.\n").into_response())
}

/// The subprotocol as the client spells it: a client accepts no other spelling.
pub(crate) fn offered(headers: &HeaderMap, subprotocol: &str) -> Option<HeaderValue> {
    let mut offers = tokens(headers, &SEC_WEBSOCKET_PROTOCOL);
    let offer = offers.find(|token| token.eq_ignore_ascii_case(subprotocol))?;
    HeaderValue::from_str(offer).ok()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}
