//! Blobs over HTTP: bytes that are named by the hash of their content, kept as documents like any other.
//!
//! An upload is a write and a download a read like those of the bindings: the policy of the principal decides first,
//! then the space, which knows the principal by its identity. Only types that a browser cannot run are told as what
//! they are.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;
use tokio::sync::oneshot;

use super::auth::bytes_data;
use super::codec::{Data, Dialect, object};
use super::engine::Engine;
use super::hash::{bytes_of, tagged_hash_of};
use super::hub::{Job, Task};
use super::names::is_space_name;
use super::peers::Peers;
use super::traverse::State as DocumentState;
use super::wire::WireError;
use crate::peering::Requester;

/// Longest body of an upload; a longer one is answered with 413.
pub(super) const UPLOAD_BYTES_MAX: usize = 10 << 20;

/// Longest suffix of a blob's name.
const SUFFIX_BYTES_MAX: usize = 8;

/// How long a blob may be kept by whoever fetched it: for good, as it cannot change.
const KEEP: &str = "public, max-age=31536000, immutable";

/// What the audit log calls the session of a request without one.
const SESSION: &str = "http";

/// What the routes of blobs need.
#[derive(Clone)]
pub(super) struct Blobs {
    pub(super) engine: Engine,
    /// Who the principals are; `None` where requests need no identity.
    pub(super) identities: Option<Arc<Peers>>,
}

impl Blobs {
    fn identity_of(&self, requester: &Requester) -> Result<Option<String>, Refusal> {
        let identity = self.identities.as_ref().map(|peers| peers.identity_of(&requester.principal.name));
        identity.transpose().map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "No identity".to_owned()))
    }
}

/// The routes of blobs.
pub(super) fn router(blobs: Blobs) -> Router {
    Router::new()
        .route("/{space}/blobs", post(upload_unnamed))
        .route("/{space}/blobs/{name}", get(download).post(upload_named))
        .with_state(blobs)
}

type Refusal = (StatusCode, String);

fn refusal(status: StatusCode, text: &str) -> Refusal {
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
) -> Result<Response<Body>, Refusal> {
    check_space(&space)?;
    let record = requester.permit("memory.transact", &["write"], SESSION);
    let record = record.map_err(|why| (StatusCode::FORBIDDEN, why))?;
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
) -> Result<Response<Body>, Refusal> {
    let bytes = to_bytes(body, UPLOAD_BYTES_MAX).await;
    let bytes = bytes.map_err(|_| refusal(StatusCode::PAYLOAD_TOO_LARGE, "Blob payload too large"))?;
    let length = bytes.len();
    let invalid = || refusal(StatusCode::BAD_REQUEST, "Invalid blob payload");
    let text = std::str::from_utf8(&bytes).map_err(|_| invalid())?;
    let decoded = Dialect::of(text).decode(text).ok();
    let (kind, content) = decoded.and_then(|data| contents(&data)).ok_or_else(invalid)?;
    let value = object([("type", kind.as_str().into()), ("body", bytes_data(&content))]);
    let id = tagged_hash_of(&value);
    let (reply_tx, reply_rx) = oneshot::channel();
    let document = object([("value", value)]);
    let principal = blobs.identity_of(requester)?;
    let task = Task::PutBlob { id: format!("cid:{id}"), document, principal, reply_tx };
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "Try again later");
    blobs.engine.submit(Job { space, task }, length).map_err(|_| busy())?;
    let stored = reply_rx.await.map_err(|_| busy())?;
    stored.map_err(|error| failed(&error, "Blob not stored"))?;
    let hash = id.trim_start_matches("fid1:");
    let told = json!({"id": id, "url": format!("blobs/{hash}.{}", suffix(name, &kind))});
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, json, told.to_string()).into_response())
}

async fn download(
    State(blobs): State<Blobs>,
    Extension(requester): Extension<Requester>,
    Path((space, name)): Path<(String, String)>,
) -> Result<Response<Body>, Refusal> {
    check_space(&space)?;
    requester.permit("memory.read", &["read"], SESSION).map_err(|why| (StatusCode::FORBIDDEN, why))?;
    let hash = name.split('.').next().unwrap_or_default().trim_start_matches("fid1:");
    if hash.is_empty() {
        return Err(refusal(StatusCode::BAD_REQUEST, "Invalid blob name"));
    }
    let (reply_tx, reply_rx) = oneshot::channel();
    let principal = blobs.identity_of(&requester)?;
    let task = Task::GetBlob { id: format!("cid:fid1:{hash}"), principal, reply_tx };
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "Try again later");
    blobs.engine.submit(Job { space, task }, name.len()).map_err(|_| busy())?;
    let missing = || refusal(StatusCode::NOT_FOUND, "Blob not found");
    let state = reply_rx.await.map_err(|_| busy())?;
    let state: DocumentState = state.map_err(|error| failed(&error, "Blob not read"))?;
    let document = state.document.ok_or_else(missing)?;
    let (kind, content) = document.get("value").and_then(contents).ok_or_else(missing)?;
    let headers = [
        (header::CONTENT_TYPE, safe_type(&kind)),
        (header::CACHE_CONTROL, KEEP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, content).into_response())
}

fn check_space(space: &str) -> Result<(), Refusal> {
    if space.starts_with("did:") && is_space_name(space) {
        return Ok(());
    }
    Err(refusal(StatusCode::BAD_REQUEST, "Invalid space DID"))
}

fn failed(error: &WireError, text: &str) -> Refusal {
    match error.name {
        "AuthorizationError" => refusal(StatusCode::FORBIDDEN, &error.message),
        "RateLimitError" => refusal(StatusCode::SERVICE_UNAVAILABLE, "Try again later"),
        _ => refusal(StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The type and the bytes, however those are written.
fn contents(data: &Data) -> Option<(String, Vec<u8>)> {
    let kind = data.get("type")?.as_str()?.to_owned();
    let byte = |data: &Data| data.as_u64().and_then(|number| u8::try_from(number).ok());
    let bytes = match data.get("body")? {
        Data::Tag(tag, state) if tag == "/Bytes@1" => bytes_of(state.as_str()?),
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

fn suffix<'a>(name: Option<&'a str>, kind: &str) -> &'a str {
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

fn safe_type(kind: &str) -> &'static str {
    match kind {
        "image/gif" => "image/gif",
        "image/jpeg" => "image/jpeg",
        "image/png" => "image/png",
        "image/webp" => "image/webp",
        _ => "application/octet-stream",
    }
}
