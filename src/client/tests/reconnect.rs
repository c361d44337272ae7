//! Connections that break and come back. Time is paused: waits take none.

use std::time::Duration;

use serde_json::json;
use tokio::sync::{Mutex, mpsc};

use super::*;
use crate::client::{Reconnect, Resumed};
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Kind};
use crate::transport::{BoxTransport, TransportError};

/// A client that comes back, the connections it dials one by one, and what its hook heard.
struct World {
    client: Client,
    scripts_rx: mpsc::Receiver<Script>,
    resumed_rx: mpsc::Receiver<Resumed>,
}

/// Connects, with `refused` dials that fail between the first connection and the second.
async fn world(refused: usize) -> (World, Script) {
    let (scripts_tx, mut scripts_rx) = mpsc::channel(4);
    let (resumed_tx, resumed_rx) = mpsc::channel(4);
    let dials = std::sync::Arc::new(Mutex::new(0));
    let policy = Reconnect { initial: Duration::from_secs(1), max: Duration::from_secs(9), attempts: 3 };
    let builder = Client::builder().reconnect(policy).on_reconnect(move |resumed| {
        resumed_tx.try_send(resumed).unwrap();
    });
    let connecting = builder.connect_with(move || {
        let (scripts_tx, dials) = (scripts_tx.clone(), std::sync::Arc::clone(&dials));
        async move {
            let mut dials = dials.lock().await;
            *dials += 1;
            if (2..2 + refused).contains(&*dials) {
                return Err(TransportError::Closed);
            }
            let (near, far) = pair(FRAMES_MAX);
            scripts_tx.try_send(Script(far)).ok();
            Ok(Box::new(near) as BoxTransport)
        }
    });
    let serving = async {
        let mut script = scripts_rx.recv().await.unwrap();
        script.welcome(json!({"resumed": false, "token": "t1"})).await;
        script
    };
    let (client, script) = tokio::join!(connecting, serving);
    (World { client: client.unwrap(), scripts_rx, resumed_rx }, script)
}

fn keyed(code: &str) -> EvalParams {
    EvalParams { code: code.into(), key: Some(format!("key {code}")), ..EvalParams::default() }
}

#[tokio::test(start_paused = true)]
async fn a_keyed_eval_is_sent_again_to_the_resumed_session_and_others_fail() {
    let (mut world, mut script) = world(1).await;
    let plain =
        world.client.start_eval(EvalParams { code: "p".into(), ..EvalParams::default() }).await.unwrap();
    let first = world.client.start_eval(keyed("a")).await.unwrap();
    let second = world.client.start_eval(keyed("b")).await.unwrap();
    for _ in 0..3 {
        script.next().await;
    }
    drop(script);
    assert_eq!(closed_code(&plain.await.unwrap_err()), Some(1006));

    let mut script = world.scripts_rx.recv().await.unwrap();
    let params = script.welcome(json!({"resumed": true, "token": "t2"})).await;
    assert_eq!(params["session"], json!({"id": "s1", "token": "t1"}));
    script.expect(json!({"id": 2, "method": "eval", "params": {"code": "a", "key": "key a"}})).await;
    script.expect(json!({"id": 3, "method": "eval", "params": {"code": "b", "key": "key b"}})).await;
    assert_eq!(world.resumed_rx.recv().await, Some(Resumed { resumed: true }));
    assert_eq!((first.id(), second.id()), (2, 3));
    script.send(json!({"id": 3, "result": {"value": "b"}})).await;
    script.send(json!({"id": 2, "result": {"value": "a"}})).await;
    assert_eq!((first.await.unwrap().value, second.await.unwrap().value), (json!("a"), json!("b")));
    assert_eq!(world.client.session().token.as_deref(), Some("t2"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_gone_is_begun_anew_and_keyed_evals_are_lost() {
    let (mut world, mut script) = world(0).await;
    let pending = world.client.start_eval(keyed("a")).await.unwrap();
    script.close(1001, "going away").await;

    let mut script = world.scripts_rx.recv().await.unwrap();
    let refused = script.next().await;
    let error = ErrorObject::new(Kind::SessionRefused, "no such session");
    script.send(json!({"id": refused["id"], "error": error})).await;
    let params = script.welcome(json!({"resumed": false, "token": "t2"})).await;
    assert_eq!(params.get("session"), None);
    assert_eq!(world.resumed_rx.recv().await, Some(Resumed { resumed: false }));
    assert_eq!(pending.await.unwrap_err().kind(), "SessionLost");
}

#[tokio::test(start_paused = true)]
async fn references_end_with_their_connection() {
    let (mut world, mut script) = world(0).await;
    let serving = async {
        script.next().await;
        script.send(json!({"id": 2, "result": {"value": {"$fn": "f1"}}})).await;
        script
    };
    let (output, script) = tokio::join!(world.client.eval("f"), serving);
    let function = world.client.function(&output.unwrap().value).unwrap();
    drop(script);
    let mut script = world.scripts_rx.recv().await.unwrap();
    script.welcome(json!({"resumed": true, "token": "t2"})).await;
    assert!(closed_code(&function.call(vec![]).await.unwrap_err()).is_some());
    drop(function);
    // Neither the call nor a release went out: the next message is the next request.
    let asking = async { script.next().await["params"]["binding"].clone() };
    let asked = tokio::select! { binding = asking => binding, _ = world.client.invoke("a", json!({})) => json!(null) };
    assert_eq!(asked, "a");
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_after_its_attempts() {
    let (world, script) = world(3).await;
    let pending = world.client.start_eval(keyed("a")).await.unwrap();
    drop(script);
    assert_eq!(closed_code(&pending.await.unwrap_err()), Some(1006));
    assert_eq!(world.client.closed().await.0, 1006);
}

#[tokio::test(start_paused = true)]
async fn a_close_on_purpose_is_not_answered_with_a_new_connection() {
    let (mut world, mut script) = world(0).await;
    script.close(4001, "taken over").await;
    assert_eq!(world.client.closed().await, (4001, "taken over".to_owned()));
    assert!(world.scripts_rx.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_attempts() {
    let (world, script) = world(3).await;
    let pending = world.client.start_eval(EvalParams::default()).await.unwrap();
    drop(script);
    // Its end shows that the break was noticed, so the client is dialling by now.
    assert!(pending.await.is_err());
    world.client.close().await;
    assert_eq!(closed_code(&world.client.eval("1").await.unwrap_err()), Some(1006));
}
