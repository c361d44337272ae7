//! A WebSocket client that knows texts and close codes, and nothing of the protocol but the shape of its messages.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// How long an expected message may take. Far beyond what any takes, and short enough to name the line that hangs.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// What comes from the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    Text(String),
    Closed(u16),
    /// The connection ended without a close frame.
    Gone,
    /// Nothing came in time.
    Silence,
}

/// One connection.
pub struct Wire {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The subprotocol that the server agreed to.
    pub subprotocol: Option<String>,
    next_id: u64,
}

impl Wire {
    pub async fn open(url: &str) -> Self {
        Self::offering(url, None).await
    }

    /// Connects and offers subprotocols.
    pub async fn offering(url: &str, subprotocols: Option<&str>) -> Self {
        let offer = subprotocols.map(|names| ("Sec-WebSocket-Protocol", names));
        Self::sending(url, offer.as_slice()).await
    }

    /// Connects with a token of the server.
    pub async fn with_token(url: &str, token: &str) -> Self {
        Self::sending(url, &[("Authorization", &format!("Bearer {token}"))]).await
    }

    /// Connects with these headers.
    pub async fn sending(url: &str, headers: &[(&'static str, &str)]) -> Self {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, response) = tokio_tungstenite::connect_async(request).await.unwrap();
        let agreed = response.headers().get("Sec-WebSocket-Protocol");
        let subprotocol = agreed.map(|name| name.to_str().unwrap().to_owned());
        Self { socket, subprotocol, next_id: 1 }
    }

    /// Connects and shakes hands.
    pub async fn live(url: &str) -> Self {
        Self::live_with(url, json!({})).await.0
    }

    /// Connects and sends a handshake with further params; returns its result too.
    pub async fn live_with(url: &str, extra: Value) -> (Self, Value) {
        let mut wire = Self::open(url).await;
        let mut params = extra;
        params["protocol"] = json!("0.1");
        let answer = wire.request("handshake", params).await;
        let result = answer.get("result").unwrap_or_else(|| panic!("refused: {answer}")).clone();
        (wire, result)
    }

    /// Sends a text; a server that is gone shows when something is expected of it.
    pub async fn text(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    pub async fn binary(&mut self, bytes: Vec<u8>) {
        let _ = self.socket.send(Message::binary(bytes)).await;
    }

    /// Says goodbye properly.
    pub async fn close(mut self) {
        let _ = self.socket.close(None).await;
        while self.socket.next().await.is_some_and(|frame| frame.is_ok()) {}
    }

    /// The next thing that comes.
    pub async fn next(&mut self) -> Arrival {
        self.next_within(ANSWER_WAIT_MAX).await
    }

    pub async fn next_within(&mut self, wait: Duration) -> Arrival {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return Arrival::Text(text.as_str().to_owned()),
                    Some(Ok(Message::Close(frame))) => {
                        return Arrival::Closed(frame.map_or(1005, |frame| frame.code.into()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Arrival::Gone,
                }
            }
        };
        tokio::time::timeout(wait, next).await.unwrap_or(Arrival::Silence)
    }

    /// The next message, as JSON.
    pub async fn json(&mut self) -> Value {
        match self.next().await {
            Arrival::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("expected a message, got {other:?}"),
        }
    }

    /// Sends a request and returns its id.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.text(&request.to_string()).await;
        id
    }

    /// Waits for the answer to a request of ours; other messages are skipped.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.json().await;
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub async fn eval(&mut self, code: &str) -> Value {
        self.request("eval", json!({"code": code})).await
    }

    /// The value of an eval that is expected to succeed.
    pub async fn value(&mut self, code: &str) -> Value {
        let answer = self.eval(code).await;
        let value = answer.pointer("/result/value");
        value.unwrap_or_else(|| panic!("{code}\n=> {answer}")).clone()
    }

    /// `data.kind` and message of an eval that is expected to fail.
    pub async fn failure(&mut self, code: &str) -> (String, String) {
        let answer = self.eval(code).await;
        let kind = answer.pointer("/error/data/kind").and_then(Value::as_str);
        let kind = kind.unwrap_or_else(|| panic!("{code}\n=> {answer}")).to_owned();
        (kind, answer["error"]["message"].as_str().unwrap().to_owned())
    }

    pub async fn invoke(&mut self, binding: &str, input: Value) -> Value {
        self.request("invoke", json!({"binding": binding, "input": input})).await
    }

    /// `session.info`.
    pub async fn info(&mut self) -> Value {
        self.invoke("session.info", json!({})).await["result"]["value"].clone()
    }
}
