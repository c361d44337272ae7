//! The ten operations that everything a client waits for is made of.
//!
//! Each runs once before it is counted, so that what is made at the first use does not count; then the server's thread
//! gets time to come to rest.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use scomp::protocol::client_messages::{FromClient, ToClient};
use scomp::protocol::peer::{Effect, Peer};
use scomp::protocol::plain::{from_plain, to_plain};
use scomp::rpc::{self, Message};
use scomp::schema::{Schema, SchemaSource};
use scomp::server::Server;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::callgrind::mark_part;
use crate::session::Session;

/// The operations in order, and how often each is done: often enough that what happens once does not show.
pub(crate) static NAMES: [(&str, u64); 10] = [
    ("decode an eval request", 200),
    ("take an eval in and send its answer", 100),
    ("check an order against its schema", 200),
    ("100 orders to tagged JSON and back", 5),
    ("open a session and close it", 10),
    ("eval 1+1", 50),
    ("eval TypeScript with declarations", 20),
    ("eval with ten calls of a ready binding", 20),
    ("eval with one reverse-invoke", 30),
    ("100 orders from the client and back", 5),
];

/// How long the server gets for what it does after an operation, such as the making of worlds ahead.
const REST: Duration = Duration::from_millis(500);

const EVAL_REQUEST: &str =
    r#"{"jsonrpc":"2.0","id":17,"method":"eval","params":{"code":"await notify({message: 'hi'}); 142.5"}}"#;

const TYPESCRIPT: &str = "interface Order { id: string; total: number }
const order: Order = { id: 'A-1', total: 3 };
let doubled: number = order.total * 2;
doubled";

const TEN_CALLS: &str =
    "(async () => { let sum = 0; for (let i = 0; i < 10; i++) sum += await ready(i); return sum; })()";

/// Does them all, with a mark before and after each. On the server's shard, whose thread alone is counted.
pub(crate) async fn run_all(server: Server) -> Result<()> {
    let order_schema =
        Schema::compile(&schema(), SchemaSource::Operator).ok().context("the schema does not compile")?;
    let order = order(7);
    let mut peer = live_peer()?;
    let mut list = List { left: NAMES.iter() };
    list.measure(async || decode_request()).await?;
    list.measure(async || take_eval(&mut peer)).await?;
    list.measure(async || check_order(&order_schema, &order)).await?;
    list.measure(async || convert_orders()).await?;
    let mut session = Session::open(server, &orders()).await?;
    list.measure(async || session.reopen().await).await?;
    list.measure(async || session.eval("1+1", r#""value":2"#).await).await?;
    list.measure(async || session.eval(TYPESCRIPT, r#""value":6"#).await).await?;
    list.measure(async || session.eval(TEN_CALLS, r#""value":45"#).await).await?;
    list.measure(async || session.eval("await notify({})", r#""value":2"#).await).await?;
    list.measure(async || session.eval("await orders({})", r#""id":"A-99""#).await).await?;
    ensure!(list.left.next().is_none(), "a name without operation");
    Ok(())
}

/// The operations that are still to be measured.
struct List {
    left: std::slice::Iter<'static, (&'static str, u64)>,
}

impl List {
    /// Measures the next one.
    async fn measure(&mut self, mut operation: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let (name, times) = self.left.next().context("an operation without name")?;
        operation().await.with_context(|| (*name).to_owned())?;
        sleep(REST).await;
        mark_part();
        for _ in 0..*times {
            operation().await.with_context(|| (*name).to_owned())?;
        }
        // What an operation leaves to be done belongs to it.
        sleep(REST).await;
        mark_part();
        Ok(())
    }
}

fn decode_request() -> Result<()> {
    match rpc::decode(black_box(EVAL_REQUEST)) {
        Ok(Message::Request { .. }) => Ok(()),
        other => bail!("not a request: {other:?}"),
    }
}

fn live_peer() -> Result<Peer> {
    let mut peer = Peer::new(16);
    let handshake = r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"0.1"}}"#;
    match peer.on_text(handshake) {
        Some(Effect::Handshake { request, .. }) => {
            peer.on_handshake(&request, Ok(&json!({})));
            Ok(peer)
        }
        other => bail!("no handshake: {other:?}"),
    }
}

fn take_eval(peer: &mut Peer) -> Result<()> {
    let Some(Effect::Command(FromClient::Eval { request, .. })) = peer.on_text(black_box(EVAL_REQUEST))
    else {
        bail!("no eval");
    };
    let outcome = Ok(to_raw_value(&json!({"value": 142.5}))?);
    match peer.on_event(ToClient::Answered { request, outcome }) {
        Some(Effect::Send(_)) => Ok(()),
        other => bail!("no answer: {other:?}"),
    }
}

fn check_order(schema: &Schema, order: &Value) -> Result<()> {
    ensure!(black_box(schema).check(order).is_ok(), "the order does not fit its schema");
    Ok(())
}

fn convert_orders() -> Result<()> {
    let orders = orders();
    ensure!(
        to_plain(from_plain(orders.clone())).is_ok_and(|back| back == orders),
        "the orders came back changed"
    );
    Ok(())
}

fn order(number: usize) -> Value {
    json!({
        "id": format!("A-{number}"),
        "customer": {"name": "Ada", "address": ["1 Main St", "London"]},
        "lines": [{"sku": "X1", "count": 2, "price": 9.5}, {"sku": "Y2", "count": 1, "price": 20}],
        "paid": true,
    })
}

fn orders() -> Value {
    (0..100).map(order).collect()
}

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["id", "customer", "lines"],
        "properties": {
            "id": {"type": "string", "pattern": "^A-[0-9]+$"},
            "customer": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "address": {"type": "array", "items": {"type": "string"}},
                },
            },
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["sku", "count"],
                    "properties": {
                        "sku": {"type": "string"},
                        "count": {"type": "integer", "minimum": 1},
                        "price": {"type": "number"},
                    },
                },
            },
            "paid": {"type": "boolean"},
        },
    })
}
