//! A load client: raw frames over a WebSocket, with as little of its own as can be.
//!
//! The project's client is not used, because its work would be measured along with the server's. Both a scomp server and
//! an echo are measured through it, so that its cost is on both sides of a ratio.

use anyhow::{Context as _, Result, bail};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

/// The smallest eval.
pub(crate) const ONE_PLUS_ONE: &str = "1+1";

/// What the answer to it contains.
pub(crate) const TWO: &str = r#""value":2"#;

/// A connection.
pub(crate) struct Client {
    socket: WebSocketStream<TcpStream>,
    last_id: u64,
}

#[derive(Deserialize)]
struct Request {
    id: u64,
}

impl Client {
    /// Connects to a server that speaks WebSocket.
    pub(crate) async fn dial(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(format!("ws://{address}/"), stream).await?;
        Ok(Self { socket, last_id: 0 })
    }

    /// Connects and shakes hands; scripts may then call `notify`.
    pub(crate) async fn open_session(address: &str) -> Result<Self> {
        let mut client = Self::dial(address).await?;
        client.request("handshake", &json!({"protocol": "0.1", "bindings": [{"name": "notify"}]})).await?;
        Ok(client)
    }

    /// The text of an eval with a fresh id.
    pub(crate) fn eval_text(&mut self, code: &str) -> Utf8Bytes {
        self.last_id += 1;
        let (id, code) = (self.last_id, json!(code));
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eval","params":{{"code":{code}}}}}"#).into()
    }

    fn request_text(&mut self, method: &str, params: &Value) -> String {
        self.last_id += 1;
        json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).to_string()
    }

    /// Sends a text and takes the next one that comes.
    pub(crate) async fn exchange(&mut self, text: Utf8Bytes) -> Result<Utf8Bytes> {
        self.send(text).await?;
        self.receive().await
    }

    pub(crate) async fn send(&mut self, text: Utf8Bytes) -> Result<()> {
        Ok(self.socket.send(Message::Text(text)).await?)
    }

    pub(crate) async fn receive(&mut self) -> Result<Utf8Bytes> {
        loop {
            match self.socket.next().await.context("the server closed the connection")?? {
                Message::Text(text) => return Ok(text),
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("unexpected: {other:?}"),
            }
        }
    }

    /// Sends an eval that calls `notify` once, and serves that call.
    pub(crate) async fn exchange_with_invoke(&mut self, text: Utf8Bytes) -> Result<Utf8Bytes> {
        let invoke = self.exchange(text).await?;
        let Request { id } = serde_json::from_str(&invoke)?;
        self.exchange(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"value":2}}}}"#).into()).await
    }

    /// Makes a request and returns its result.
    async fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        let text = self.request_text(method, params);
        let answer = self.exchange(text.into()).await?;
        let mut answer: Value = serde_json::from_str(&answer)?;
        let result = answer.get_mut("result").map(Value::take);
        result.with_context(|| format!("{method} failed: {answer}"))
    }

    /// Calls a binding of the server while nothing else is asked.
    pub(crate) async fn invoke(&mut self, binding: &str) -> Result<Value> {
        let mut result = self.request("invoke", &json!({"binding": binding, "input": {}})).await?;
        result.get_mut("value").map(Value::take).context("a result without value")
    }

    /// Ends an eval that runs without end.
    pub(crate) async fn cancel_eval(&mut self) -> Result<()> {
        let cancel = self.request_text("invoke", &json!({"binding": "session.cancel", "input": {}}));
        self.send(cancel.into()).await?;
        // Two answers, in either order: that of the eval and that of the cancellation.
        self.receive().await?;
        self.receive().await?;
        Ok(())
    }

    /// Ends the session and waits for the end of the connection.
    pub(crate) async fn close_session(mut self) -> Result<()> {
        let close = self.request_text("invoke", &json!({"binding": "session.close", "input": {}}));
        self.send(close.into()).await?;
        // What comes before the close is the answer; a reset after it is an end as well.
        while let Some(Ok(_)) = self.socket.next().await {}
        Ok(())
    }

    /// Makes `total` evals, with `in_flight` of them open at any time; answers that come together are followed by
    /// requests that go together. Every answer must contain `expected`.
    pub(crate) async fn pipeline(
        &mut self,
        code: &str,
        in_flight: usize,
        total: usize,
        expected: &str,
    ) -> Result<()> {
        let mut unsent = total;
        for _ in 0..in_flight.min(total) {
            self.feed_eval(code, &mut unsent).await?;
        }
        self.socket.flush().await?;
        let mut received = 0;
        while received < total {
            let mut next = Some(self.socket.next().await);
            while let Some(message) = next {
                let message = message.context("the server closed the connection")??;
                // A ping of a server that was idle while others were measured is not an answer.
                if let Message::Text(answer) = message {
                    check(&answer, expected)?;
                    received += 1;
                    self.feed_eval(code, &mut unsent).await?;
                }
                next = if received < total { self.socket.next().now_or_never() } else { None };
            }
            self.socket.flush().await?;
        }
        Ok(())
    }

    async fn feed_eval(&mut self, code: &str, unsent: &mut usize) -> Result<()> {
        if *unsent > 0 {
            *unsent -= 1;
            let text = self.eval_text(code);
            self.socket.feed(Message::Text(text)).await?;
        }
        Ok(())
    }
}

/// A wrong answer would be measured as a fast one.
pub(crate) fn check(answer: &str, expected: &str) -> Result<()> {
    anyhow::ensure!(answer.contains(expected), "expected {expected}: {answer}");
    Ok(())
}
