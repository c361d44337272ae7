//! Blobs over HTTP: bytes that are named by the hash of their content and stored as documents.
//!
//! An upload needs the same permissions as `memory.transact`, a download those of `memory.read`:
//! the policy of the principal is checked first, then the access rules of the space for the
//! principal's identity. A content type that a browser could execute is replaced by
//! `application/octet-stream`.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;
use tokio::sync::oneshot;

use super::auth::encode_bytes;
use super::codec::{Data, Dialect, object};
use super::engine::Engine;
use super::hash::{compute_tagged_hash, decode_base64};
use super::names::is_space_name;
use super::peers::Peers;
use super::space_table::{Job, Task};
use super::traverse::DocumentState;
use super::wire::WireError;
use crate::peering::Requester;

/// Longest body of an upload; a longer one fails with status 413.
pub(super) const UPLOAD_BYTES_MAX: usize = 10 << 20;

/// Longest suffix of a blob's name.
const SUFFIX_BYTES_MAX: usize = 8;

/// A blob never changes, so clients may cache it forever.
const CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

/// The session name in the audit log, as HTTP requests have no session.
const AUDIT_SESSION: &str = "http";

#[derive(Clone)]
pub(super) struct Blobs {
    pub(super) engine: Engine,
    /// Identities of the principals; `None` if requests need no identity.
    pub(super) identities: Option<Arc<Peers>>,
}

impl Blobs {
    fn find_identity(&self, requester: &Requester) -> Result<Option<String>, HttpError> {
        let identity = self.identities.as_ref().map(|peers| peers.principal_did(&requester.principal.name));
        identity.transpose().map_err(|_| {
            (StatusCode::INTERNAL_SERVER_ERROR, "Identity of the principal not available".to_owned())
        })
    }
}

pub(super) fn build_router(blobs: Blobs) -> Router {
    Router::new()
        .route("/{space}/blobs", post(upload_unnamed))
        .route("/{space}/blobs/{name}", get(download).post(upload_named))
        .with_state(blobs)
}

type HttpError = (StatusCode, String);

fn http_error(status: StatusCode, text: &str) -> HttpError {
    (status, text.to_owned())
}

async fn upload_unnamed(
    State(blobs): State<Blobs>,
    Extension(requester): Extension<Requester>,
    Path(space): Path<String>,
    body: Body,
) -> Response<Body> {
    upload(&blobs, &requester, space, None, body).await.into_response()
}

async fn upload_named(
    State(blobs): State<Blobs>,
    Extension(requester): Extension<Requester>,
    Path((space, name)): Path<(String, String)>,
    body: Body,
) -> Response<Body> {
    upload(&blobs, &requester, space, Some(&name), body).await.into_response()
}

async fn upload(
    blobs: &Blobs,
    requester: &Requester,
    space: String,
    name: Option<&str>,
    body: Body,
) -> Result<Response<Body>, HttpError> {
    check_space(&space)?;
    let record = requester.permit("memory.transact", &["write"], AUDIT_SESSION);
    let record = record.map_err(|reason| (StatusCode::FORBIDDEN, reason))?;
    let stored = store(blobs, requester, space, name, body).await;
    record.finish(match &stored {
        Ok(_) => "ok",
        Err((StatusCode::FORBIDDEN, _)) => "AuthorizationError",
        Err(_) => "BlobError",
    });
    stored
}

async fn store(
    blobs: &Blobs,
    requester: &Requester,
    space: String,
    name: Option<&str>,
    body: Body,
) -> Result<Response<Body>, HttpError> {
    let bytes = to_bytes(body, UPLOAD_BYTES_MAX).await;
    let bytes = bytes.map_err(|_| http_error(StatusCode::PAYLOAD_TOO_LARGE, "Blob payload too large"))?;
    let length = bytes.len();
    let invalid = || http_error(StatusCode::BAD_REQUEST, "Invalid blob payload");
    let text = std::str::from_utf8(&bytes).map_err(|_| invalid())?;
    let decoded = Dialect::detect(text).decode(text).ok();
    let (kind, content) = decoded.and_then(|data| parse_blob(&data)).ok_or_else(invalid)?;
    let value = object([("type", kind.as_str().into()), ("body", encode_bytes(&content))]);
    let id = compute_tagged_hash(&value);
    let (reply_tx, reply_rx) = oneshot::channel();
    let document = object([("value", value)]);
    let principal = blobs.find_identity(requester)?;
    let task = Task::PutBlob { id: format!("cid:{id}"), document, principal, reply_tx };
    let busy = || http_error(StatusCode::SERVICE_UNAVAILABLE, "Try again later");
    blobs.engine.submit(Job { space, task }, length).map_err(|_| busy())?;
    let stored = reply_rx.await.map_err(|_| busy())?;
    stored.map_err(|error| to_http_error(&error, "Blob not stored"))?;
    let hash = id.trim_start_matches("fid1:");
    let body = json!({"id": id, "url": format!("blobs/{hash}.{}", choose_suffix(name, &kind))});
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, json, body.to_string()).into_response())
}

async fn download(
    State(blobs): State<Blobs>,
    Extension(requester): Extension<Requester>,
    Path((space, name)): Path<(String, String)>,
) -> Result<Response<Body>, HttpError> {
    check_space(&space)?;
    requester
        .permit("memory.read", &["read"], AUDIT_SESSION)
        .map_err(|reason| (StatusCode::FORBIDDEN, reason))?;
    let hash = name.split('.').next().unwrap_or_default().trim_start_matches("fid1:");
    if hash.is_empty() {
        return Err(http_error(StatusCode::BAD_REQUEST, "Invalid blob name"));
    }
    let (reply_tx, reply_rx) = oneshot::channel();
    let principal = blobs.find_identity(&requester)?;
    let task = Task::GetBlob { id: format!("cid:fid1:{hash}"), principal, reply_tx };
    let busy = || http_error(StatusCode::SERVICE_UNAVAILABLE, "Try again later");
    blobs.engine.submit(Job { space, task }, name.len()).map_err(|_| busy())?;
    let missing = || http_error(StatusCode::NOT_FOUND, "Blob not found");
    let state = reply_rx.await.map_err(|_| busy())?;
    let state: DocumentState = state.map_err(|error| to_http_error(&error, "Blob not read"))?;
    let document = state.document.ok_or_else(missing)?;
    let (kind, content) = document.get("value").and_then(parse_blob).ok_or_else(missing)?;
    let headers = [
        (header::CONTENT_TYPE, safe_content_type(&kind)),
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, content).into_response())
}

fn check_space(space: &str) -> Result<(), HttpError> {
    if space.starts_with("did:") && is_space_name(space) {
        return Ok(());
    }
    Err(http_error(StatusCode::BAD_REQUEST, "Invalid space DID"))
}

fn to_http_error(error: &WireError, text: &str) -> HttpError {
    match error.name {
        "AuthorizationError" => http_error(StatusCode::FORBIDDEN, &error.message),
        "RateLimitError" => http_error(StatusCode::SERVICE_UNAVAILABLE, "Try again later"),
        _ => http_error(StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The type and the bytes, which may be tagged bytes, a list of numbers or an object with indexes
/// as keys.
fn parse_blob(data: &Data) -> Option<(String, Vec<u8>)> {
    let kind = data.get("type")?.as_str()?.to_owned();
    let byte = |data: &Data| data.as_u64().and_then(|number| u8::try_from(number).ok());
    let bytes = match data.get("body")? {
        Data::Tag(tag, state) if tag == "/Bytes@1" => decode_base64(state.as_str()?),
        Data::List(items) => items.iter().map(byte).collect::<Option<_>>()?,
        Data::Map(members) if !members.is_empty() => {
            let numbered = (0..members.len()).map(|index| members.get(&index.to_string()).and_then(byte));
            numbered.collect::<Option<_>>()?
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Map(_) | Data::Tag(..) => {
            return None;
        }
    };
    Some((kind, bytes))
}

fn choose_suffix<'a>(name: Option<&'a str>, kind: &str) -> &'a str {
    let given = name.and_then(|name| name.rsplit_once('.')).map(|(_, suffix)| suffix);
    let is_valid = |suffix: &&str| {
        (1..=SUFFIX_BYTES_MAX).contains(&suffix.len())
            && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    given.filter(is_valid).unwrap_or(match kind {
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        _ => "bin",
    })
}

fn safe_content_type(kind: &str) -> &'static str {
    match kind {
        "image/gif" => "image/gif",
        "image/jpeg" => "image/jpeg",
        "image/png" => "image/png",
        "image/webp" => "image/webp",
        _ => "application/octet-stream",
    }
}
