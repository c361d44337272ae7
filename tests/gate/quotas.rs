//! Each quota at its limit and one past it.

use std::net::SocketAddr;

use scomp::client::{Client, ClientError};
use scomp::limits::Limits;
use scomp::protocol::methods::EvalParams;
use scomp::quota::Quotas;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{WAIT_MAX, builder, connect, gate, start};

/// Uses up the quota of a principal that has one of 20 ms a minute.
const BURN: &str = "const until = Date.now() + 100; while (Date.now() < until); 'done'";

async fn start_with(quotas: Quotas) -> SocketAddr {
    let tokens = [("ann", "token-a"), ("bob", "token-b")];
    start(builder().gate(gate(&tokens, quotas, &[]))).await.1
}

/// The quota that is used up, after a look at the time to come back.
fn exceeded(error: &ClientError) -> String {
    assert_eq!(error.kind(), "Busy", "{error}");
    let data = error.rpc().and_then(|error| error.data.clone()).unwrap();
    assert!(data["retryAfterMs"].as_u64().unwrap() >= 1, "{data}");
    data["quota"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn sessions_are_counted_per_principal_and_given_back() {
    let address = start_with(Quotas { sessions_max: Some(1), ..Quotas::default() }).await;
    let first = connect(address, "token-a").await.unwrap();
    let refused = connect(address, "token-a").await.unwrap_err();
    assert_eq!(exceeded(&refused), "sessions");
    connect(address, "token-b").await.unwrap();
    first.close().await;
    let again = async {
        loop {
            match connect(address, "token-a").await {
                Ok(client) => return client,
                // The server has yet to see that the first one is gone.
                Err(error) => assert_eq!(exceeded(&error), "sessions"),
            }
        }
    };
    let again = tokio::time::timeout(WAIT_MAX, again).await.unwrap();
    assert_eq!(again.eval("1").await.unwrap().value, 1);
}

#[tokio::test]
async fn memory_is_reserved_by_each_session() {
    let memory_bytes_max = Some(2 * Limits::default().memory_bytes_max);
    let address = start_with(Quotas { memory_bytes_max, ..Quotas::default() }).await;
    let _first = connect(address, "token-a").await.unwrap();
    let _second = connect(address, "token-a").await.unwrap();
    assert_eq!(exceeded(&connect(address, "token-a").await.unwrap_err()), "memory");
}

#[tokio::test]
async fn messages_past_the_burst_are_busy_and_do_not_disconnect() {
    let quotas = Quotas { messages_per_second: Some(0.001), messages_burst: Some(3.0), ..Quotas::default() };
    let address = start_with(quotas).await;
    let ann = connect(address, "token-a").await.unwrap();
    // The handshake was the first.
    assert_eq!(ann.eval("1").await.unwrap().value, 1);
    assert_eq!(ann.eval("2").await.unwrap().value, 2);
    assert_eq!(exceeded(&ann.eval("3").await.unwrap_err()), "messages");
    assert_eq!(exceeded(&ann.eval("4").await.unwrap_err()), "messages");
    let bob = connect(address, "token-b").await.unwrap();
    assert_eq!(bob.eval("5").await.unwrap().value, 5);
}

#[tokio::test]
async fn cpu_time_that_is_used_up_stops_new_evals_only() {
    let address = start_with(Quotas { cpu_seconds_per_minute: Some(0.02), ..Quotas::default() }).await;
    let ann = connect(address, "token-a").await.unwrap();
    let other = connect(address, "token-a").await.unwrap();
    assert_eq!(ann.eval(BURN).await.unwrap().value, "done");
    assert_eq!(exceeded(&ann.eval("1").await.unwrap_err()), "cpu");
    assert_eq!(exceeded(&other.eval("1").await.unwrap_err()), "cpu");
    assert_eq!(connect(address, "token-b").await.unwrap().eval("1").await.unwrap().value, 1);
}

#[tokio::test]
async fn handshakes_with_schemas_are_busy_past_the_cpu_quota() {
    let address = start_with(Quotas { cpu_seconds_per_minute: Some(0.02), ..Quotas::default() }).await;
    let connect_with = async |token: &str, bindings: usize| {
        let mut builder = Client::builder().token(token);
        for number in 0..bindings {
            let input = json!({"patternProperties": {format!("^[a-z]{{1,30}}{number}$"): {}}});
            let handle = |value: Value, _| async move { Ok(value) };
            builder = builder.binding(&format!("tool{number}"), "A tool.", Some(input), None, handle);
        }
        builder.connect(format!("ws://{address}/")).await
    };
    let ann = connect(address, "token-a").await.unwrap();
    assert_eq!(ann.eval(BURN).await.unwrap().value, "done");
    assert_eq!(exceeded(&connect_with("token-a", 1).await.unwrap_err()), "cpu");
    // Nothing to compile.
    connect(address, "token-a").await.unwrap();
    connect_with("token-b", 3).await.unwrap();
}

/// Each schema is within the limits of one schema, and small; together they would take seconds.
#[tokio::test]
async fn intricate_schemas_are_bounded_for_a_handshake() {
    let mut defs = serde_json::Map::from_iter([("d0".to_owned(), json!({}))]);
    for level in 1..=11 {
        let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        defs.insert(format!("d{level}"), json!({"allOf": [below, below]}));
    }
    let properties: serde_json::Map<_, _> =
        (0..100).map(|name| (format!("p{name}"), json!({"$ref": "#/$defs/d11"}))).collect();
    let schema = json!({"$defs": defs, "properties": properties});
    let address = start_with(Quotas::default()).await;
    let connect_with = async |count: usize| {
        let mut builder = Client::builder().token("token-a");
        for number in 0..count {
            let handle = |value: Value, _| async move { Ok(value) };
            let name = format!("tool{number}");
            builder = builder.binding(&name, "A tool.", Some(schema.clone()), None, handle);
        }
        builder.connect(format!("ws://{address}/")).await
    };
    connect_with(1).await.unwrap();
    let refused = connect_with(8).await.unwrap_err();
    assert_eq!(refused.kind(), "InvalidParams", "{refused}");
}

#[tokio::test]
async fn evals_that_wait_are_counted_over_all_sessions() {
    let address = start_with(Quotas { queued_evals_max: Some(1), ..Quotas::default() }).await;
    let (running_tx, mut running_rx) = mpsc::channel::<()>(1);
    let hold = move |_: Value| {
        let running_tx = running_tx.clone();
        async move {
            running_tx.send(()).await.ok();
            std::future::pending::<Result<Value, _>>().await
        }
    };
    let client = Client::builder()
        .token("token-a")
        .bind("hold", "Holds the script up.", hold)
        .connect(format!("ws://{address}/"))
        .await
        .unwrap();
    let params = |code: &str| EvalParams { code: code.to_owned(), ..EvalParams::default() };
    // Two concurrently: the first does not wait, so the second may.
    let (one, two) = tokio::join!(client.eval("1"), client.eval("2"));
    assert_eq!((one.unwrap().value, two.unwrap().value), (json!(1), json!(2)));
    let running = client.start_eval(params("await hold(null)")).await.unwrap();
    running_rx.recv().await.unwrap();
    let waiting = client.start_eval(params("'waited'")).await.unwrap();
    assert_eq!(exceeded(&client.eval("1").await.unwrap_err()), "queuedEvals");
    running.cancel().await.unwrap();
    assert_eq!(waiting.await.unwrap().value, "waited");
    assert_eq!(client.eval("2").await.unwrap().value, 2);
}

#[tokio::test]
async fn functions_of_the_script_are_busy_past_the_cpu_quota() {
    let address = start_with(Quotas { cpu_seconds_per_minute: Some(0.02), ..Quotas::default() }).await;
    let ann = connect(address, "token-a").await.unwrap();
    let function = ann.eval("(x) => x + 1").await.unwrap().value;
    let function = ann.function(&function).unwrap();
    assert_eq!(function.call(vec![json!(1)]).await.unwrap(), json!(2));
    assert_eq!(ann.eval(BURN).await.unwrap().value, "done");
    assert_eq!(exceeded(&function.call(vec![json!(1)]).await.unwrap_err()), "cpu");
}

#[tokio::test]
async fn timers_and_floating_calls_wait_for_the_cpu_quota() {
    let address = start_with(Quotas { cpu_seconds_per_minute: Some(0.02), ..Quotas::default() }).await;
    let (called_tx, mut called_rx) = mpsc::channel::<String>(8);
    let note = move |name: Value| {
        let called_tx = called_tx.clone();
        async move {
            called_tx.send(name.as_str().unwrap_or_default().to_owned()).await.ok();
            Ok(name)
        }
    };
    let client = Client::builder()
        .token("token-a")
        .bind("note", "Notes a name.", note)
        .connect(format!("ws://{address}/"))
        .await
        .unwrap();
    let code =
        format!("setTimeout(() => note('timer'), 150); note('first').then(() => note('second')); {BURN}");
    assert_eq!(client.eval(&code).await.unwrap().value, "done");
    assert_eq!(called_rx.recv().await.unwrap(), "first");
    // The account fills at 20 ms a minute, so whatever waits for it waits for minutes.
    let more = tokio::time::timeout(std::time::Duration::from_millis(600), called_rx.recv()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn scripts_at_work_are_stopped_when_the_account_is_overdrawn() {
    let address = start_with(Quotas { cpu_seconds_per_minute: Some(0.1), ..Quotas::default() }).await;
    let ann = connect(address, "token-a").await.unwrap();
    let other = connect(address, "token-a").await.unwrap();
    // One in a single turn, one in many.
    let many = "for (;;) { const until = Date.now() + 5; while (Date.now() < until); await new Promise(setTimeout); }";
    let (one, many) = tokio::join!(ann.eval("for (;;);"), other.eval(many));
    for stopped in [one.unwrap_err(), many.unwrap_err()] {
        assert_eq!(stopped.kind(), "Timeout", "{stopped}");
        let data = stopped.rpc().and_then(|error| error.data.clone()).unwrap();
        assert_eq!(data["quota"], "cpu", "{data}");
        assert!(data["retryAfterMs"].as_u64().unwrap() >= 1, "{data}");
    }
}
