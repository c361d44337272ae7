//! Plays one vector: sends its frames in order, and checks the frames that each connection gets.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::patterns::{Saved, matches, resolve_refs};

/// Longest wait for an expected frame.
const FRAME_WAIT_MAX: Duration = Duration::from_secs(10);

/// Time without a frame after the last expected one.
const QUIET_TIME: Duration = Duration::from_millis(20);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Shared by the sending and the receiving half: the number of matched frames, and the saved
/// values.
#[derive(Default)]
struct Progress {
    matched: Cell<usize>,
    advanced: Notify,
    saved: RefCell<Saved>,
}

impl Progress {
    fn advance(&self) {
        self.matched.set(self.matched.get() + 1);
        self.advanced.notify_waiters();
    }

    async fn wait_for(&self, count: usize) {
        while self.matched.get() < count {
            self.advanced.notified().await;
        }
    }
}

/// Plays a vector against the gateway at `host`.
pub(crate) async fn play(vector: &Value, host: &str) -> Result<(), String> {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let vector: Value = serde_json::from_str(&vector.to_string().replace("${run}", &run)).unwrap();
    let progress = Progress::default();
    let mut expected: HashMap<String, Vec<Value>> = HashMap::new();
    for item in vector["expect"].as_array().unwrap() {
        let name = item["$conn"].as_str().unwrap_or("a").to_owned();
        let pattern = if item["$conn"].is_string() { &item["expect"] } else { item };
        expected.entry(name).or_default().push(pattern.clone());
    }
    let mut sinks = HashMap::new();
    let mut readers = Vec::new();
    for (name, options) in connections(&vector) {
        let (sink, stream) = open(host, &options).await.split();
        sinks.insert(name.clone(), sink);
        readers.push(expect(name.clone(), stream, expected.remove(&name).unwrap_or_default(), &progress));
    }
    let sending = async {
        for item in vector["send"].as_array().unwrap() {
            let name = item["$conn"].as_str().unwrap_or("a");
            let item = if item["$conn"].is_string() { &item["send"] } else { item };
            send(sinks.get_mut(name).unwrap(), item, &progress).await;
        }
    };
    let (results, ()) = tokio::join!(join_all(readers), sending);
    results.into_iter().collect()
}

/// Returns the connections of a vector with their options; all are opened at the start.
fn connections(vector: &Value) -> Vec<(String, Value)> {
    let mut found = vec![("a".to_owned(), vector.clone())];
    for item in vector["send"].as_array().unwrap() {
        if let Some(name) = item["$conn"].as_str()
            && !found.iter().any(|(known, _)| known == name)
        {
            found.push((name.to_owned(), item.clone()));
        }
    }
    found
}

async fn open(host: &str, options: &Value) -> Socket {
    let path = options["path"].as_str().unwrap_or("/a2a");
    let query = options["query"].as_str().map_or_else(String::new, |query| format!("?{query}"));
    let mut request = format!("ws://{host}{path}{query}").into_client_request().unwrap();
    let names: Vec<&str> =
        options["protocols"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !names.is_empty() {
        request.headers_mut().insert("Sec-WebSocket-Protocol", names.join(", ").parse().unwrap());
    }
    let (socket, response) = tokio_tungstenite::connect_async(request).await.unwrap();
    // A subprotocol is selected only if the client offered one.
    assert_eq!(response.headers().contains_key("Sec-WebSocket-Protocol"), !names.is_empty());
    socket
}

async fn send(sink: &mut SplitSink<Socket, Message>, item: &Value, progress: &Progress) {
    if let Some(ms) = item["$sleep"].as_u64() {
        // Vectors wait where the gateway sends nothing when it is done.
        tokio::time::sleep(Duration::from_millis(ms)).await;
        return;
    }
    if let Some(count) = item["$await"].as_u64() {
        let reached = progress.wait_for(usize::try_from(count).unwrap());
        // A frame that does not arrive is reported by `expect`.
        let _ = tokio::time::timeout(FRAME_WAIT_MAX, reached).await;
        return;
    }
    let message = if let Some(text) = item["$raw"].as_str() {
        Message::text(text)
    } else if let Some(length) = item["$bigtext"].as_u64() {
        let filler = "a".repeat(usize::try_from(length).unwrap());
        Message::text(json!({"id": "big", "method": "ping", "params": {"x": filler}}).to_string())
    } else if item.get("$close").is_some() || item.get("$drop").is_some() {
        Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
    } else {
        Message::text(resolve_refs(item, &progress.saved.borrow()).to_string())
    };
    // A closed connection is reported by `expect`.
    let _ = sink.send(message).await;
}

async fn expect(
    name: String,
    mut stream: SplitStream<Socket>,
    patterns: Vec<Value>,
    progress: &Progress,
) -> Result<(), String> {
    for pattern in &patterns {
        let got = tokio::time::timeout(FRAME_WAIT_MAX, next(&mut stream)).await;
        let got = got.map_err(|_| format!("[{name}] no frame, expected {pattern}"))?;
        let is_match = match pattern.get("$close") {
            Some(codes) => is_close(codes, &got),
            None => matches(pattern, Some(&got), &mut progress.saved.borrow_mut(), false),
        };
        if !is_match {
            return Err(format!("[{name}] got {got}, expected {pattern}"));
        }
        progress.advance();
    }
    let is_closed = patterns.iter().any(|pattern| pattern.get("$close").is_some());
    match tokio::time::timeout(QUIET_TIME, next(&mut stream)).await {
        Ok(got) if !patterns.is_empty() && !is_closed && got.get("$closed").is_none() => {
            Err(format!("[{name}] unexpected frame {got}"))
        }
        _ => Ok(()),
    }
}

/// Returns the next frame, or `{"$closed": code}` at the end of the connection.
async fn next(stream: &mut SplitStream<Socket>) -> Value {
    loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(text.as_str()).unwrap(),
            Some(Ok(Message::Close(frame))) => {
                return json!({"$closed": frame.map_or(1005, |frame| u16::from(frame.code))});
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return json!({"$closed": 1006}),
        }
    }
}

fn is_close(codes: &Value, got: &Value) -> bool {
    match codes {
        Value::Null => got.get("$closed").is_some(),
        Value::Array(codes) => codes.contains(&got["$closed"]),
        code => got["$closed"] == *code,
    }
}
