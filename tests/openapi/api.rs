//! A server on loopback that answers what its requests were, and misbehaves where it is asked to.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures_util::stream;
use serde_json::{Value, json};

use crate::support::{Folder, Running, Wire};

/// What requests authenticate with.
pub(crate) const SECRET: &str = "s3cret-t0ken";

/// Headers that a test has nothing to say about.
const USUAL_HEADERS: [&str; 4] = ["host", "user-agent", "content-length", "accept"];

async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let shown = |value: &axum::http::HeaderValue| {
        String::from_utf8_lossy(value.as_bytes()).replace(SECRET, "<secret>")
    };
    let headers: serde_json::Map<String, Value> = headers
        .iter()
        .filter(|(name, _)| !USUAL_HEADERS.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), shown(value).into()))
        .collect();
    let uri = uri.to_string().replace(SECRET, "<secret>");
    let seen = json!({"method": method.as_str(), "uri": uri, "headers": headers, "body": String::from_utf8_lossy(&body)});
    json_text(200, seen.to_string())
}

/// A body that never ends.
fn endless() -> Response {
    let chunks = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 64 << 10])));
    Body::from_stream(chunks).into_response()
}

/// A body that begins and then does not go on.
fn slow() -> Response {
    let chunks = stream::once(async { Ok::<_, std::io::Error>(Bytes::from("[1,")) });
    let chunks = futures_util::StreamExt::chain(chunks, stream::pending());
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(chunks)).into_response()
}

fn json_text(status: u16, text: impl Into<Body>) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

fn redirect(status: u16, to: String) -> Response {
    (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, to)]).into_response()
}

/// Answers by the path; `other` is another server.
async fn answer(
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    other: Option<SocketAddr>,
) -> Response {
    match (uri.path(), other) {
        ("/status/500", _) => json_text(500, r#"{"reason": "broken"}"#),
        ("/status/204", _) => StatusCode::NO_CONTENT.into_response(),
        ("/repeat", _) => {
            let token = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            json_text(403, json!({"message": "no access", "token": token}).to_string())
        }
        ("/reveal", _) => json_text(200, json!({"token": SECRET}).to_string()),
        ("/wrong", _) => json_text(200, r#"{"id": "not a number"}"#),
        ("/garbage", _) => json_text(200, "<html>"),
        ("/deep", _) => json_text(200, "[".repeat(100_000)),
        ("/endless", _) => endless(),
        ("/slow", _) => slow(),
        ("/never", _) => std::future::pending().await,
        ("/loop", _) => redirect(302, "/loop".to_owned()),
        ("/moved", _) => redirect(307, "/echo".to_owned()),
        ("/away", Some(other)) => redirect(307, format!("http://{other}/echo?at=other")),
        ("/local", Some(other)) => redirect(302, format!("http://localhost:{}/echo", other.port())),
        ("/text", _) => "plain text".into_response(),
        ("/bytes", _) => ([(header::CONTENT_TYPE, "image/png")], vec![1_u8, 2, 255]).into_response(),
        ("/links", _) => ([("link", "</next>; rel=next")], json_text(200, "[1]")).into_response(),
        _ => echo(method, uri, headers, body).await,
    }
}

/// Starts a server; `other` is where it redirects to.
pub(crate) async fn start(other: Option<SocketAddr>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let respond = move |method, uri, headers, body| answer(method, uri, headers, body, other);
    let router = Router::new().fallback(any(respond));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A session on a server with one package `api`.
pub(crate) struct Session {
    pub(crate) wire: Wire,
    _running: Running,
    _folder: Folder,
}

impl Session {
    /// The document is JSON, or the text of a file.
    pub(crate) async fn start(document: &str, mut config: Value) -> Self {
        config["document"] = json!("openapi.yaml");
        let declaration = json!({"package": "api", "openapi": config}).to_string();
        let folder = Folder::with(&[("api/declaration.json", &declaration), ("api/openapi.yaml", document)]);
        let running = Running::folder(folder.path()).await;
        let wire = Wire::live(&running.url).await;
        Self { wire, _running: running, _folder: folder }
    }

    /// Operations without schemas: `get_echo` is `GET /echo`.
    pub(crate) async fn of_paths(paths: &[&str], config: Value) -> Self {
        let item = |path: &&str| {
            (
                (*path).to_owned(),
                json!({"get": {}, "post": {"requestBody": {"content": {"application/json": {}}}}}),
            )
        };
        let paths: serde_json::Map<String, Value> = paths.iter().map(item).collect();
        Self::start(&json!({"openapi": "3.1.0", "paths": paths}).to_string(), config).await
    }

    pub(crate) async fn value(&mut self, code: &str) -> Value {
        self.wire.value(code).await
    }

    /// What a call throws: its name, code, message and data.
    pub(crate) async fn thrown(&mut self, call: &str) -> Value {
        let code = format!(
            "await {call}.then(() => 'nothing', (e) => ({{name: e.name, code: e.code, message: e.message, data: e.data}}))"
        );
        self.value(&code).await
    }
}

/// A short while, for what must not wait longer.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
