//! Each quota at its limit and one past it.

use std::net::SocketAddr;

use scomp::client::{Client, ClientError};
use scomp::limits::Limits;
use scomp::quota::Quotas;
use scomp::scomp::methods::EvalParams;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{WAIT_MAX, builder, connect, gate, start};

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
async fn messages_past_the_burst_are_busy_and_the_connection_lives_on() {
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
    let burn = "const until = Date.now() + 100; while (Date.now() < until); 'done'";
    assert_eq!(ann.eval(burn).await.unwrap().value, "done");
    assert_eq!(exceeded(&ann.eval("1").await.unwrap_err()), "cpu");
    assert_eq!(exceeded(&other.eval("1").await.unwrap_err()), "cpu");
    assert_eq!(connect(address, "token-b").await.unwrap().eval("1").await.unwrap().value, 1);
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
    // Two at once: the first does not wait, so the second may.
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
