//! One session over an in-process connection: everything that an eval passes through except the socket.

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use scomp::binding::{BindingLimits, Call, Package, typed};
use scomp::scomp::declaration::Declaration;
use scomp::server::Server;
use scomp::transport::{Frame, Outgoing, PairEnd};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A server with one shard, and a client of it that serves `notify` and `orders`.
pub(crate) struct Session {
    runtime: Runtime,
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
    /// Opens one; `orders` gives this value.
    pub(crate) fn open(orders: &Value) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = Server::builder().shards(1).package(package()).build()?;
        let end = runtime.block_on(async { server.connect() });
        let mut session = Self { runtime, server, end, orders: orders.to_string(), last_id: 0 };
        session.shake_hands()?;
        Ok(session)
    }

    /// Leaves the session for a new one, and ends the old.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.request("invoke", &json!({"binding": "session.close", "input": {}}))?;
        self.end = self.runtime.block_on(async { self.server.connect() });
        self.shake_hands()
    }

    fn shake_hands(&mut self) -> Result<()> {
        let bindings = json!([{"name": "notify"}, {"name": "orders"}]);
        self.request("handshake", &json!({"protocol": "0.1", "bindings": bindings})).map(drop)
    }

    /// Evaluates; the answer must contain `expected`.
    pub(crate) fn eval(&mut self, code: &str, expected: &str) -> Result<()> {
        let answer = self.request("eval", &json!({"code": code}))?;
        ensure!(answer.contains(expected), "expected {expected}: {answer}");
        Ok(())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<String> {
        self.last_id += 1;
        let text =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).to_string();
        let Self { runtime, end, orders, .. } = self;
        runtime.block_on(exchange(end, text, orders))
    }
}

/// Sends a request, serves the calls that come before its answer, and gives the answer.
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

/// `ready(n)`: a handler that has its answer at once.
fn package() -> Package {
    let integer = json!({"type": "integer"});
    let declaration = Declaration {
        name: "ready".to_owned(),
        description: Some("Gives back what it gets.".to_owned()),
        input: Some(integer.clone()),
        output: Some(integer),
        effects: Vec::new(),
        hints: None,
    };
    let handler = typed(|n: i64, _call: Call| async move { Ok(n) });
    Package::new("bench").with(declaration, BindingLimits::default(), handler)
}
