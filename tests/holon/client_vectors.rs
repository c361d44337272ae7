//! Plays the vectors of the client role: the peer is a plain WebSocket, the client is our link to
//! it, and a script makes the calls.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use crate::load_vectors;
use crate::matching::{fill_in, has_keys, matches};
use crate::support::wire::{ANSWER_WAIT_MAX, Wire};
use crate::support::{Folder, Running};

/// Serves the methods that the vectors call on the client.
const SERVICE: &str = r#"
    const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const fail = (error) => { throw error; };
    const methods = {
      "ui.v1.UI/Get": ({ payload }) => ({ echoed: payload }),
      "ui.v1.UI/Fail": () => fail(Object.assign(new Error("bad request from handler"), { code: 3 })),
      "ui.v1.UI/Throw": () => fail(new Error("boom")),
      "ui.v1.UI/Void": () => undefined,
      "ui.v1.UI/Sleep": async ({ payload }) => (await sleep(payload.ms), payload.ms),
    };
    for (const [method, handler] of Object.entries(methods)) await holon.serve({ method, handler });
"#;

/// Makes a call of a vector and reports its outcome.
const CALL: &str = r#"
    holon.call(ARGUMENTS).then((resolve) => ({ resolve }), ({ code, message }) => ({ reject: { code, message } }))
"#;

#[allow(clippy::result_large_err)] // the type is that of the library
fn accept_subprotocol(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    assert_eq!(request.headers()["sec-websocket-protocol"], "holon-web");
    response.headers_mut().insert("sec-websocket-protocol", "holon-web".parse().unwrap());
    Ok(response)
}

/// The peer, and the frames that it received.
struct Peer {
    socket: WebSocketStream<TcpStream>,
    requests: Vec<Value>,
    responses: Vec<Value>,
    closed: Option<u16>,
}

impl Peer {
    async fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        let socket = tokio_tungstenite::accept_hdr_async(stream, accept_subprotocol).await.unwrap();
        Self { socket, requests: Vec::new(), responses: Vec::new(), closed: None }
    }

    async fn send(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    async fn read_until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        while !holds(self) {
            match tokio::time::timeout(ANSWER_WAIT_MAX, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    let frames =
                        if frame.get("method").is_some() { &mut self.requests } else { &mut self.responses };
                    frames.push(frame);
                }
                Ok(Some(Ok(Message::Close(frame)))) => {
                    self.closed = Some(frame.map_or(1005, |frame| frame.code.into()));
                }
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(_)) | None) | Err(_) => return holds(self),
            }
        }
        true
    }
}

/// The state of playing one vector.
struct Player {
    server: Running,
    wire: Wire,
    peer: Option<Peer>,
    is_calling: bool,
    /// The request that the last `awaitRequest` waited for.
    request: Value,
}

impl Player {
    async fn start(vector: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws", listener.local_addr().unwrap());
        let mut config = json!({"url": url});
        for step in vector["send"].as_array().unwrap() {
            if let Some(heartbeat) = step.pointer("/options/heartbeat") {
                config["heartbeatMs"] = heartbeat["interval"].clone();
                config["heartbeatTimeoutMs"] = heartbeat["timeout"].clone();
            }
            if let Some(max) = step.pointer("/options/maxPendingRequests") {
                config["pendingMax"] = max.clone();
            }
        }
        let declaration = json!({"package": "holon", "rust": "holon", "config": {"peers": {"peer": config}}});
        let folder = Folder::with(&[("holon.json", &declaration.to_string()), ("services/ui.js", SERVICE)]);
        let (server, peer) = tokio::join!(Running::folder(folder.path()), Peer::accept(&listener));
        server.services_run().await;
        let wire = Wire::live(&server.url).await;
        Self { server, wire, peer: Some(peer), is_calling: false, request: Value::Null }
    }

    fn peer(&mut self) -> &mut Peer {
        self.peer.as_mut().unwrap()
    }

    async fn run_step(&mut self, step: &Value) -> Result<(), String> {
        let (verb, value) = step.as_object().unwrap().iter().next().unwrap();
        let id = self.request["id"].as_str().unwrap_or("$ID").to_owned();
        match verb.as_str() {
            "options" => {}
            "invoke" | "invoke2" => {
                let arguments = json!({
                    "peer": "peer",
                    "method": value["method"],
                    "payload": value.get("payload").unwrap_or(&json!({})),
                    "timeoutMs": value.get("timeout").unwrap_or(&json!(300)),
                });
                let code = CALL.replace("ARGUMENTS", &arguments.to_string());
                // The call is not awaited: the next steps of the vector happen while it is pending.
                self.wire.value(&format!("globalThis.calls ??= []; calls.push({code})")).await;
                self.is_calling = true;
            }
            "json" => self.peer().send(fill_in(value, "$ID", &id).to_string()).await,
            "text" => self.peer().send(value.as_str().unwrap().to_owned()).await,
            "awaitRequest" => {
                let is_it = |request: &Value| request["method"] == *value;
                if !self.peer().read_until(|seen| seen.requests.iter().any(is_it)).await {
                    return Err(format!("expected a request {value}"));
                }
                self.request = self.peer().requests.iter().find(|request| is_it(request)).unwrap().clone();
            }
            // Instead of a time, wait for what the vector sleeps for: the outcome of the call.
            "sleep" if !self.is_calling => {}
            "sleep" => {
                self.outcome(0).await;
            }
            "terminate" => self.peer = None,
            other => return Err(format!("unknown step {other:?}")),
        }
        Ok(())
    }

    async fn outcome(&mut self, call: usize) -> Value {
        self.wire.value(&format!("await calls[{call}]")).await
    }

    async fn check(&mut self, expect: &Value) -> Result<(), String> {
        let received = self.request.clone();
        if let Some(wanted) = expect.get("request") {
            let keys = &expect["requestKeys"];
            if !matches(wanted, &received) || !keys.is_null() && !has_keys(&received, keys) {
                return Err(format!("expected the request {wanted}, got {received}"));
            }
        }
        for (word, call) in [("resolve", 0), ("reject", 0), ("reject2", 1)] {
            let Some(wanted) = expect.get(word) else { continue };
            let outcome = self.outcome(call).await;
            let found = outcome.get(word.trim_end_matches('2'));
            if !found.is_some_and(|found| matches(wanted, found)) {
                return Err(format!("expected {word} {wanted}, got {outcome}"));
            }
        }
        if let Some(wanted) = expect.get("clientSends")
            && !self.peer().read_until(|seen| seen.responses.iter().any(|one| matches(wanted, one))).await
        {
            return Err(format!("expected the client to send {wanted}, got {:?}", self.peer().responses));
        }
        if let Some(order) = expect.get("clientOrder").and_then(Value::as_array) {
            self.peer().read_until(|seen| seen.responses.len() >= order.len()).await;
            let received: Vec<Value> = self.peer().responses.iter().map(|one| one["id"].clone()).collect();
            if received != *order {
                return Err(format!("expected responses in the order {order:?}, got {received:?}"));
            }
        }
        self.check_end(expect).await
    }

    async fn check_end(&mut self, expect: &Value) -> Result<(), String> {
        if let Some(codes) = expect.get("close").and_then(Value::as_array) {
            let is_closed = |seen: &Peer| seen.closed.is_some_and(|code| codes.contains(&json!(code)));
            if !self.peer().read_until(is_closed).await {
                return Err(format!("expected a close with one of {codes:?}, got {:?}", self.peer().closed));
            }
        }
        if expect.get("open").is_some() {
            self.peer().send(json!({"id": "still", "method": "ui.v1.UI/Get"}).to_string()).await;
            if !self.peer().read_until(|seen| seen.responses.iter().any(|one| one["id"] == "still")).await {
                return Err("expected the connection to stay open".to_owned());
            }
        }
        if let Some(warning) = expect.get("warning").and_then(Value::as_str) {
            return self.check_warning(warning).await;
        }
        Ok(())
    }

    /// Looks for the warning in the metrics.
    async fn check_warning(&mut self, warning: &str) -> Result<(), String> {
        let metrics = self.server.metrics().await;
        let counter = format!("scomp_peer_warnings_total{{kind=\"holon.{warning}\"}}");
        if metrics.contains(&counter) { Ok(()) } else { Err(format!("expected the counter {counter}")) }
    }
}

async fn play(vector: &Value) -> Result<(), String> {
    let mut player = Player::start(vector).await;
    for step in vector["send"].as_array().unwrap() {
        player.run_step(step).await?;
    }
    player.check(&vector["expect"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_passes_the_client_vectors() {
    let mut failures = Vec::new();
    for vector in load_vectors("client") {
        let result = tokio::time::timeout(Duration::from_secs(60), play(&vector)).await;
        if let Err(failure) = result.unwrap_or_else(|_| Err("timed out".to_owned())) {
            failures.push(format!("{}: {failure}", vector["name"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
