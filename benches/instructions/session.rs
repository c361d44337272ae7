//! One session over an in-process connection: everything that an eval passes through except the socket.

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use scomp::server::Server;
use scomp::transport::{Frame, Outgoing, PairEnd};
use serde::Deserialize;
use serde_json::{Value, json};

/// A client of a server, which serves `notify` and `orders`.
pub(crate) struct Session {
    server: Server,
    end: PairEnd,
    /// What the client answers to a call of `orders`; to any other it answers a number.
    orders: String,
    last_id: u64,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    id: u64,
    #[serde(borrow)]
    params: Option<Invoke<'a>>,
}

#[derive(Deserialize)]
struct Invoke<'a> {
    binding: &'a str,
}

impl Session {
    /// Opens a session; `orders` returns this value.
    pub(crate) async fn open(server: Server, orders: &Value) -> Result<Self> {
        let end = server.connect();
        let mut session = Self { server, end, orders: orders.to_string(), last_id: 0 };
        session.shake_hands().await?;
        Ok(session)
    }

    /// Leaves the session for a new one, and ends the old.
    pub(crate) async fn reopen(&mut self) -> Result<()> {
        self.request("invoke", &json!({"binding": "session.close", "input": {}})).await?;
        self.end = self.server.connect();
        self.shake_hands().await
    }

    async fn shake_hands(&mut self) -> Result<()> {
        let bindings = json!([{"name": "notify"}, {"name": "orders"}]);
        self.request("handshake", &json!({"protocol": "0.1", "bindings": bindings})).await.map(drop)
    }

    /// Evaluates; the answer must contain `expected`.
    pub(crate) async fn eval(&mut self, code: &str, expected: &str) -> Result<()> {
        let answer = self.request("eval", &json!({"code": code})).await?;
        ensure!(answer.contains(expected), "expected {expected}: {answer}");
        Ok(())
    }

    async fn request(&mut self, method: &str, params: &Value) -> Result<String> {
        self.last_id += 1;
        let text =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).to_string();
        exchange(&mut self.end, text, &self.orders).await
    }
}

/// Sends a request, serves the calls that come before its answer, and returns the answer.
async fn exchange(end: &mut PairEnd, text: String, orders: &str) -> Result<String> {
    end.send(Outgoing::Text(text)).await?;
    loop {
        let text = match end.next().await.context("the server is gone")?? {
            Frame::Text(text) => text,
            other => bail!("unexpected: {other:?}"),
        };
        let Incoming { id, params } = serde_json::from_str(text.as_str())?;
        let Some(Invoke { binding }) = params else { return Ok(text.as_str().to_owned()) };
        let answer = if binding == "orders" { orders } else { "2" };
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"value":{answer}}}}}"#);
        end.send(Outgoing::Text(reply)).await?;
    }
}
