//! Handshakes, ends, and invalid messages.

use std::time::Duration;

use serde_json::json;

use super::super::command::{CALLS_OPEN_MAX, EVALS_OPEN_MAX};
use super::*;
use crate::protocol::methods::{EvalParams, ResumeParams};
use crate::transport::close_code;

#[tokio::test]
async fn handshake_declares_bindings_and_returns_the_session() {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let builder = Client::builder()
        .metadata(json!({"client": {"name": "t"}}))
        .session(ResumeParams { id: "s1".into(), token: "t0".into() })
        .binding("notify", "Notifies.", Some(json!({"type": "object"})), None, |_, _| async {
            Ok(json!(null))
        })
        .call_timeout("notify", Duration::from_secs(90));
    let session = json!({"resumed": true, "token": "t1", "ttlMs": 5, "evalsQueued": 0});
    let (client, params) = tokio::join!(builder.connect_transport(near), script.accept_handshake(session));
    assert_eq!(
        params,
        json!({
            "protocol": "0.1",
            "bindings": [{
                "name": "notify", "description": "Notifies.", "input": {"type": "object"},
                "limits": {"timeoutMs": 90_000},
            }],
            "metadata": {"client": {"name": "t"}},
            "notifications": ["cancel_invoke"],
            "session": {"id": "s1", "token": "t0"},
        })
    );
    let client = client.unwrap();
    let session = client.session();
    assert_eq!((session.id.as_str(), session.token.as_deref()), ("s1", Some("t1")));
    assert_eq!((session.resumed, session.ttl_ms), (true, Some(5)));
    assert_eq!(client.bindings()[..], [json!({"name": "getOrder"})]);
}

#[tokio::test]
async fn refused_handshake_returns_the_server_error() {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let refusing = async {
        let id = script.next().await["id"].clone();
        let data = json!({"kind": "SessionRefused"});
        script.send(json!({"id": id, "error": {"code": -32003, "message": "no", "data": data}})).await;
    };
    let (client, ()) = tokio::join!(Client::builder().connect_transport(near), refusing);
    assert_eq!(client.unwrap_err().kind(), "SessionRefused");
}

#[tokio::test]
async fn handshake_with_another_protocol_version_fails() {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let answering = async {
        let id = script.next().await["id"].clone();
        script.send(json!({"id": id, "result": {"protocol": "0.9", "sessionId": "s1"}})).await;
    };
    let (client, ()) = tokio::join!(Client::builder().connect_transport(near), answering);
    assert_eq!(client.unwrap_err().kind(), "Handshake");
}

#[tokio::test]
async fn call_before_the_handshake_is_not_ready() {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let builder = Client::builder().bind("now", "", |_: Value| async { Ok(1) });
    let early = async {
        let id = script.next().await["id"].clone();
        script.send(json!({"id": 1, "method": "invoke", "params": {"binding": "now", "input": {}}})).await;
        assert_eq!(script.next().await["error"]["code"], -32002);
        script.send(json!({"id": id, "result": {"protocol": "0.1", "sessionId": "s1"}})).await;
    };
    let (client, ()) = tokio::join!(builder.connect_transport(near), early);
    assert!(client.is_ok());
}

#[tokio::test]
async fn close_fails_waiting_and_later_requests() {
    let (client, mut script) = connected(Client::builder()).await;
    let closing = async {
        script.next().await;
        script.close(4001, "taken over").await;
    };
    let (outcome, ()) = tokio::join!(client.eval("1"), closing);
    assert_eq!(closed_code(&outcome.unwrap_err()), Some(4001));
    assert_eq!(client.closed().await, (4001, "taken over".to_owned()));
    assert_eq!(closed_code(&client.eval("2").await.unwrap_err()), Some(4001));
    assert_eq!(closed_code(&client.invoke("a", json!({})).await.unwrap_err()), Some(4001));
}

#[tokio::test]
async fn broken_connection_has_code_1006() {
    let (client, script) = connected(Client::builder()).await;
    drop(script);
    assert_eq!(client.closed().await.0, close_code::ABNORMAL);
}

#[tokio::test]
async fn close_and_drop_of_the_last_handle_send_a_close_frame() {
    for close in [true, false] {
        let (client, mut script) = connected(Client::builder()).await;
        let closed_by_client = async {
            assert!(matches!(script.0.next().await, Some(Ok(Frame::Closed { code: 1000, .. }))));
            drop(script);
        };
        if close {
            tokio::join!(client.close(), closed_by_client);
        } else {
            drop(client);
            closed_by_client.await;
        }
    }
}

#[tokio::test]
async fn stray_answers_and_invalid_messages_are_ignored() {
    let (client, mut script) = connected(Client::builder()).await;
    let answering = async {
        script.next().await;
        script.send_text("no json".into()).await;
        script
            .send_text(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#.into())
            .await;
        script.send(json!({"id": 99, "result": {"value": "unknown"}})).await;
        script.send(json!({"id": 1, "result": {"value": "duplicate"}})).await;
        script.send(json!({"id": "2", "result": {"value": "not the same id"}})).await;
        script.send(json!({"id": 2, "result": {"value": "right"}})).await;
    };
    let (outcome, ()) = tokio::join!(client.eval("1"), answering);
    assert_eq!(outcome.unwrap().value, "right");
    // Nothing of it was answered: the next message is the next eval.
    let (outcome, ()) = tokio::join!(client.eval("2"), async {
        script.expect(json!({"id": 3, "method": "eval", "params": {"code": "2"}})).await;
        script.send(json!({"id": 3, "result": {"value": 2}})).await;
    });
    assert_eq!(outcome.unwrap().value, 2);
}

#[tokio::test]
async fn unknown_requests_are_answered_with_their_id() {
    let (_client, mut script) = connected(Client::builder()).await;
    script.send(json!({"id": 7, "method": "eval", "params": {"code": "1"}})).await;
    let answer = script.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32601)));
    script.send(json!({"id": "x", "method": "invoke", "params": {"binding": "gone", "input": 1}})).await;
    let answer = script.next().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["kind"]), (&json!("x"), &json!("UnknownBinding")));
}

#[tokio::test]
async fn message_past_the_limit_is_not_sent() {
    let envelope = r#"{"jsonrpc":"2.0","id":2,"method":"eval","params":{"code":""}}"#.len();
    let (client, mut script) = connected(Client::builder().message_bytes_max(512)).await;
    let code = "x".repeat(512 - envelope);
    let refused = client.eval(format!("{code}x")).await.unwrap_err();
    assert!(matches!(refused, ClientError::TooLong { bytes: 513, max: 512 }));
    let pending = client.start_eval(EvalParams { code, ..EvalParams::default() }).await.unwrap();
    assert_eq!(script.next().await["id"], pending.id());
}

#[tokio::test]
async fn requests_past_the_limit_wait_but_a_cancel_does_not() {
    let (client, mut script) = connected(Client::builder()).await;
    for n in 0..CALLS_OPEN_MAX + 3 {
        let client = client.clone();
        tokio::spawn(async move { client.invoke("echo", json!(n)).await });
    }
    let mut open = Vec::new();
    for _ in 0..CALLS_OPEN_MAX {
        open.push(script.next().await["id"].clone());
    }
    let cancelling = tokio::spawn({
        let client = client.clone();
        async move { client.cancel(None).await }
    });
    let cancel = script.next().await;
    assert_eq!(cancel["params"]["binding"], "session.cancel");
    script.send(json!({"id": cancel["id"], "result": {"value": []}})).await;
    assert_eq!(cancelling.await.unwrap().unwrap(), json!([]));
    for id in &open[..3] {
        script.send(json!({"id": id, "result": {"value": null}})).await;
        assert_eq!(script.next().await["params"]["binding"], "echo");
    }
}

#[tokio::test]
async fn close_fails_requests_that_wait_for_a_place() {
    let (client, mut script) = connected(Client::builder()).await;
    let mut pending = Vec::new();
    for _ in 0..EVALS_OPEN_MAX {
        pending.push(client.start_eval(EvalParams::default()).await.unwrap());
        script.next().await;
    }
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.eval("one more").await }
    });
    let closing = async {
        assert!(matches!(script.0.next().await, Some(Ok(Frame::Closed { code: 1000, .. }))));
        drop(script);
    };
    tokio::join!(client.close(), closing);
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), "Closed");
}

/// A client of a server that has `session.close`.
async fn connected_to_sessions() -> (Client, Script) {
    let (near, far) = pair(FRAMES_MAX);
    let mut script = Script(far);
    let accepting = async {
        let id = script.next().await["id"].clone();
        let result = json!({"protocol": "0.1", "sessionId": "s1", "bindings": [{"name": "session.close"}]});
        script.send(json!({"id": id, "result": result})).await;
    };
    let (client, ()) = tokio::join!(Client::builder().connect_transport(near), accepting);
    (client.unwrap(), script)
}

#[tokio::test]
async fn close_ends_the_session_and_leave_does_not() {
    for ends in [true, false] {
        let (client, mut script) = connected_to_sessions().await;
        let serving = async {
            if ends {
                let params = json!({"binding": "session.close", "input": {}});
                script.expect(json!({"id": 2, "method": "invoke", "params": params})).await;
                script.send(json!({"id": 2, "result": {"value": null}})).await;
                script.close(1000, "session closed").await;
            } else {
                assert!(matches!(script.0.next().await, Some(Ok(Frame::Closed { code: 1000, .. }))));
                drop(script);
            }
        };
        if ends {
            tokio::join!(client.close(), serving);
        } else {
            tokio::join!(client.leave(), serving);
        }
        assert_eq!(client.closed().await.0, 1000);
    }
}

#[tokio::test]
async fn drop_of_the_last_handle_ends_the_session() {
    let (client, mut script) = connected_to_sessions().await;
    drop(client);
    assert_eq!(script.next().await["params"]["binding"], "session.close");
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_silent_server() {
    let (client, mut script) = connected_to_sessions().await;
    let serving = async {
        assert_eq!(script.next().await["params"]["binding"], "session.close");
        assert!(matches!(script.0.next().await, Some(Ok(Frame::Closed { code: 1000, .. }))));
        drop(script);
    };
    tokio::join!(client.close(), serving);
}

#[tokio::test]
async fn child_of_another_protocol_ends_the_handshake() {
    let mut command = tokio::process::Command::new("head");
    command.args(["-c", "64", "/dev/zero"]);
    let error = Client::builder().message_bytes_max(512).connect_command(command).await.unwrap_err();
    assert_eq!(closed_code(&error), Some(close_code::ABNORMAL));
}
