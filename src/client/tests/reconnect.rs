//! Connections that break and are restored. Time is paused: waits take none.

use std::time::Duration;

use serde_json::json;
use tokio::sync::{Mutex, mpsc};

use super::*;
use crate::client::{Reconnect, Resumed};
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Kind};
use crate::transport::{BoxTransport, TransportError};

/// A client that reconnects, the connections that it dials, and what its hook received.
struct Reconnecting {
    client: Client,
    scripts_rx: mpsc::Receiver<Script>,
    resumed_rx: mpsc::Receiver<Resumed>,
}

/// Connects, with `refused` dials that fail between the first connection and the second.
async fn connect(refused: usize) -> (Reconnecting, Script) {
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
        script.accept_handshake(json!({"resumed": false, "token": "t1"})).await;
        script
    };
    let (client, script) = tokio::join!(connecting, serving);
    (Reconnecting { client: client.unwrap(), scripts_rx, resumed_rx }, script)
}

fn keyed(code: &str) -> EvalParams {
    EvalParams { code: code.into(), key: Some(format!("key {code}")), ..EvalParams::default() }
}

#[tokio::test(start_paused = true)]
async fn reconnect_resends_keyed_evals_to_the_resumed_session() {
    let (mut scene, mut script) = connect(1).await;
    let plain =
        scene.client.start_eval(EvalParams { code: "p".into(), ..EvalParams::default() }).await.unwrap();
    let first = scene.client.start_eval(keyed("a")).await.unwrap();
    let second = scene.client.start_eval(keyed("b")).await.unwrap();
    for _ in 0..3 {
        script.next().await;
    }
    drop(script);
    assert_eq!(closed_code(&plain.await.unwrap_err()), Some(1006));

    let mut script = scene.scripts_rx.recv().await.unwrap();
    let params = script.accept_handshake(json!({"resumed": true, "token": "t2"})).await;
    assert_eq!(params["session"], json!({"id": "s1", "token": "t1"}));
    script.expect(json!({"id": 2, "method": "eval", "params": {"code": "a", "key": "key a"}})).await;
    script.expect(json!({"id": 3, "method": "eval", "params": {"code": "b", "key": "key b"}})).await;
    assert_eq!(scene.resumed_rx.recv().await, Some(Resumed { resumed: true }));
    assert_eq!((first.id(), second.id()), (2, 3));
    script.send(json!({"id": 3, "result": {"value": "b"}})).await;
    script.send(json!({"id": 2, "result": {"value": "a"}})).await;
    assert_eq!((first.await.unwrap().value, second.await.unwrap().value), (json!("a"), json!("b")));
    assert_eq!(scene.client.session().token.as_deref(), Some("t2"));
}

#[tokio::test(start_paused = true)]
async fn reconnect_without_the_session_fails_keyed_evals() {
    let (mut scene, mut script) = connect(0).await;
    let pending = scene.client.start_eval(keyed("a")).await.unwrap();
    script.close(1001, "going away").await;

    let mut script = scene.scripts_rx.recv().await.unwrap();
    let refused = script.next().await;
    let error = ErrorObject::new(Kind::SessionRefused, "no such session");
    script.send(json!({"id": refused["id"], "error": error})).await;
    let params = script.accept_handshake(json!({"resumed": false, "token": "t2"})).await;
    assert_eq!(params.get("session"), None);
    assert_eq!(scene.resumed_rx.recv().await, Some(Resumed { resumed: false }));
    assert_eq!(pending.await.unwrap_err().kind(), "SessionLost");
}

#[tokio::test(start_paused = true)]
async fn reference_of_an_ended_connection_is_closed() {
    let (mut scene, mut script) = connect(0).await;
    let serving = async {
        script.next().await;
        script.send(json!({"id": 2, "result": {"value": {"$fn": "f1"}}})).await;
        script
    };
    let (output, script) = tokio::join!(scene.client.eval("f"), serving);
    let function = scene.client.function(&output.unwrap().value).unwrap();
    drop(script);
    let mut script = scene.scripts_rx.recv().await.unwrap();
    script.accept_handshake(json!({"resumed": true, "token": "t2"})).await;
    assert!(closed_code(&function.call(vec![]).await.unwrap_err()).is_some());
    drop(function);
    // Neither the call nor a release went out: the next message is the next request.
    let asking = async { script.next().await["params"]["binding"].clone() };
    let binding = tokio::select! { binding = asking => binding, _ = scene.client.invoke("a", json!({})) => json!(null) };
    assert_eq!(binding, "a");
}

#[tokio::test(start_paused = true)]
async fn reconnect_gives_up_after_its_attempts() {
    let (scene, script) = connect(3).await;
    let pending = scene.client.start_eval(keyed("a")).await.unwrap();
    drop(script);
    assert_eq!(closed_code(&pending.await.unwrap_err()), Some(1006));
    assert_eq!(scene.client.closed().await.0, 1006);
}

#[tokio::test(start_paused = true)]
async fn deliberate_close_is_not_reconnected() {
    let (mut scene, mut script) = connect(0).await;
    script.close(4001, "taken over").await;
    assert_eq!(scene.client.closed().await, (4001, "taken over".to_owned()));
    assert!(scene.scripts_rx.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn close_ends_the_attempts() {
    let (scene, script) = connect(3).await;
    let pending = scene.client.start_eval(EvalParams::default()).await.unwrap();
    drop(script);
    // Its end shows that the break was noticed, so the client is dialling by now.
    assert!(pending.await.is_err());
    scene.client.close().await;
    assert_eq!(closed_code(&scene.client.eval("1").await.unwrap_err()), Some(1006));
}
