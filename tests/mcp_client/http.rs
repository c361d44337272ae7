//! Servers over Streamable HTTP: published ones, and one that answers in its own ways.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use parking_lot::Mutex;
use scomp::package::loader;
use serde_json::{Value, json};

use crate::servers::{Listening, SECRET, Session, free_port};
use crate::support::Folder;

/// A server in this process; notes the path and the token of each request.
struct Stub {
    url: String,
    seen: Seen,
}

type Seen = Arc<Mutex<Vec<(String, String)>>>;

impl Stub {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, seen }
    }

    fn config(&self, path: &str) -> Value {
        json!({
            "url": format!("{}{path}", self.url),
            "headers": {"Authorization": format!("Bearer {SECRET}")},
            "timeoutMs": 5_000,
        })
    }
}

fn respond(status: StatusCode, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(status).header("content-type", content_type).body(body.into()).unwrap()
}

async fn answer(State(seen): State<Seen>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let token = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    seen.lock().push((uri.path().to_owned(), token.to_owned()));
    match uri.path() {
        "/moved" => {
            return Response::builder().status(302).header("location", "/mcp").body(Body::empty()).unwrap();
        }
        "/closed" => return respond(StatusCode::UNAUTHORIZED, "text/plain", format!("bad token {token}")),
        "/page" => return respond(StatusCode::OK, "text/html", "<html>"),
        _ => {}
    }
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
    };
    let Some(id) = message.get("id").cloned() else {
        return respond(StatusCode::ACCEPTED, "text/plain", "");
    };
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let result = match (message["method"].as_str().unwrap(), message["params"]["name"].as_str()) {
        ("initialize", _) => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "stub", "version": "1"},
        }),
        ("tools/list", _) => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            let tools = ["echo", "long", "events", "garbage", "broken"].map(tool);
            json!({"tools": tools})
        }
        (_, Some("echo")) => text(token),
        (_, Some("long")) => text(&"x".repeat(17 << 20)),
        (_, Some("events")) => {
            let event = format!("data: {}\n\n", "x".repeat(17 << 20));
            return respond(StatusCode::OK, "text/event-stream", event);
        }
        (_, Some("garbage")) => return respond(StatusCode::OK, "application/json", "{\"jsonrpc\": "),
        (_, Some("broken")) => {
            return respond(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("at {token}"));
        }
        _ => {
            let error = json!({"code": -32601, "message": "method not found"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            return respond(StatusCode::OK, "application/json", body);
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    respond(StatusCode::OK, "application/json", body)
}

/// Why a package cannot be opened.
async fn problem(config: Value) -> String {
    let declaration = json!({"package": "far", "mcp": config}).to_string();
    let folder = Folder::with(&[("far.json", &declaration)]);
    let loaded = loader::load(folder.path(), &loader::environment(), scomp::bindings::BUILT_IN).await;
    let problems = loaded.unwrap_err();
    assert_eq!(problems[0].path, "/mcp");
    problems[0].message.clone()
}

#[tokio::test]
async fn headers_are_sent_and_results_hide_them() {
    let stub = Stub::start().await;
    let mut session = Session::start("far", stub.config("/mcp"), &[]).await;
    assert_eq!(session.value("await far.echo({})").await, json!("${Authorization}"));
    let expected = format!("Bearer {SECRET}");
    assert!(stub.seen.lock().iter().all(|(path, token)| path == "/mcp" && *token == expected));
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let stub = Stub::start().await;
    let message = problem(stub.config("/moved")).await;
    assert!(message.contains("redirect (302 Found), which is not followed"), "{message}");
    assert!(stub.seen.lock().iter().all(|(path, _)| path == "/moved"));
}

#[tokio::test]
async fn refusal_at_start_is_reported_without_the_secret() {
    let stub = Stub::start().await;
    for (path, expected) in [("/closed", "401 Unauthorized"), ("/page", "the answer is not a message")] {
        let message = problem(stub.config(path)).await;
        assert!(message.contains(expected) && !message.contains(SECRET), "{message}");
    }
    let message = problem(json!({"url": format!("http://127.0.0.1:{}/mcp?key={SECRET}", free_port())})).await;
    assert!(message.contains("the server cannot be reached") && !message.contains(SECRET), "{message}");
}

#[tokio::test]
async fn bad_answers_fail_their_calls_without_the_secret() {
    let stub = Stub::start().await;
    let mut session = Session::start("far", stub.config("/mcp"), &[]).await;
    for (tool, expected) in [
        ("long", "the answer is longer than 16777216 bytes"),
        ("garbage", "the answer is not a message"),
        ("broken", "the server answered with 500 Internal Server Error"),
    ] {
        let (kind, message) = session.thrown(&format!("far.{tool}({{}})")).await;
        assert_eq!(kind, "PeerGone", "{tool}: {message}");
        assert!(message.contains(expected) && !message.contains(SECRET), "{tool}: {message}");
    }
    assert_eq!(session.value("await far.echo({})").await, json!("${Authorization}"));
}

#[tokio::test]
async fn event_past_the_limit_fails_its_call() {
    let stub = Stub::start().await;
    let mut config = stub.config("/mcp");
    config["timeoutMs"] = json!(3_000);
    let mut session = Session::start("far", config, &[]).await;
    let (kind, message) = session.thrown("far.events({})").await;
    assert!(["PeerGone", "Timeout"].contains(&kind.as_str()), "{kind}: {message}");
    assert_eq!(session.value("await far.echo({})").await, json!("${Authorization}"));
}

#[tokio::test]
async fn everything_works_over_http() {
    let server = Listening::everything(free_port());
    let mut session = Session::start("everything", json!({"url": server.url}), &[]).await;
    assert_eq!(session.value("await everything.echo({message: 'hi'})").await, json!("Echo: hi"));
    let code = "const seen = [];
        await everything.trigger_long_running_operation({duration: 0.2, steps: 4, onProgress: (at) => { seen.push(at.progress) }});
        seen";
    assert_eq!(session.value(code).await, json!([1, 2, 3, 4]));
    let (kind, message) =
        session.thrown("everything.get_resource_reference({resourceType: 'Text', resourceId: -1})").await;
    assert_eq!(kind, "BindingError");
    assert!(message.contains("resourceId"), "{message}");
}

#[tokio::test]
async fn newest_revision_is_spoken_over_http() {
    let server = Listening::sdk(free_port());
    let mut session = Session::start("sdk", json!({"url": server.url}), &[]).await;
    assert_eq!(session.value("(await sdk.revision({})).result").await, json!("2026-07-28"));
    assert_eq!(session.value("await sdk.add({a: 1, b: 2})").await, json!({"sum": 3}));
    let code =
        "const seen = []; await sdk.count({to: 3, onProgress: (at) => { seen.push(at.progress) }}); seen";
    assert_eq!(session.value(code).await, json!([1, 2, 3]));
}

#[tokio::test]
async fn server_that_went_away_is_reached_again() {
    let port = free_port();
    let server = Listening::everything(port);
    let mut session = Session::start("everything", json!({"url": server.url}), &[]).await;
    assert_eq!(session.value("await everything.echo({message: 'one'})").await, json!("Echo: one"));
    drop(server);
    let (kind, message) = session.thrown("everything.echo({message: 'two'})").await;
    assert_eq!(kind, "PeerGone", "{message}");
    let _server = Listening::everything(port);
    let code = "for (;;) {
        const answer = await everything.echo({message: 'back'}).catch((error) => error.name);
        if (answer === 'Echo: back') break;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    'reached'";
    assert_eq!(session.value(code).await, json!("reached"));
}
