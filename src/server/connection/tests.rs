//! Timeouts of a connection, under a paused clock, and the messages that it refuses.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::time::Instant;

use super::*;
use crate::binding::Policy;
use crate::budget::ServerBudget;
use crate::limits::Limits;
use crate::observe::audit::Audit;
use crate::protocol::client_messages::ToClient;
use crate::protocol::methods::{Payload, Target};
use crate::quota::Quotas;
use crate::sessions::SessionSettings;
use crate::transport::{Frame, Outgoing, PairEnd, pair};

const HANDSHAKE: Duration = Duration::from_secs(30);
const PING_AFTER: Duration = Duration::from_secs(30);
const IDLE_MAX: Duration = Duration::from_secs(75);

/// The client's end of a connection with these timeouts.
fn connect(timeouts: Timeouts) -> PairEnd {
    let (client, transport) = pair(8);
    tokio::task::spawn_local(drive(transport, config(timeouts, Principal::anonymous())));
    client
}

fn config(timeouts: Timeouts, principal: Principal) -> ConnectionConfig {
    let directory = Directory::new(
        Arc::default(),
        Arc::new(Limits::default()),
        SessionSettings::default(),
        "test",
        Audit::default(),
        None,
    );
    ConnectionConfig {
        directory: directory.into_shared(),
        principal: Arc::new(principal),
        timeouts,
        stop: CancellationToken::new(),
        finishes: false,
        budget: ConnectionBudget::new(&ServerBudget::new(1 << 30), 1 << 30, 1 << 20),
    }
}

/// What comes next, and how long after `start`.
async fn next(client: &mut PairEnd, start: Instant) -> (String, Duration) {
    let frame = match client.next().await {
        Some(Ok(Frame::Closed { code, .. })) => code.to_string(),
        Some(Ok(Frame::Alive)) => "ping".to_owned(),
        other => format!("{other:?}"),
    };
    (frame, start.elapsed())
}

/// Within a tick of the timer.
fn is_about(took: Duration, expected: Duration) -> bool {
    took >= expected && took <= expected + Duration::from_millis(5)
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn client_without_handshake_is_closed() {
    let timeouts =
        Timeouts { handshake: Some(HANDSHAKE), ping_after: Some(PING_AFTER * 2), idle_max: Some(IDLE_MAX) };
    let start = Instant::now();
    let mut client = connect(timeouts);
    let (frame, took) = next(&mut client, start).await;
    assert!(frame == "1008" && is_about(took, HANDSHAKE), "{frame} after {took:?}");
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn idle_time_is_counted_from_the_last_frame() {
    let timeouts = Timeouts { handshake: None, ping_after: Some(PING_AFTER), idle_max: Some(IDLE_MAX) };
    let mut client = connect(timeouts);
    tokio::time::sleep(PING_AFTER - Duration::from_secs(10)).await;
    let sent = Instant::now();
    client.send(Outgoing::Ping).await.unwrap();
    let (frame, took) = next(&mut client, sent).await;
    assert!(frame == "ping" && is_about(took, PING_AFTER), "{frame} after {took:?}");
    let (frame, took) = next(&mut client, sent).await;
    assert!(frame == "1008" && is_about(took, IDLE_MAX), "{frame} after {took:?}");
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn any_frame_restarts_the_idle_timeout() {
    let timeouts = Timeouts { handshake: None, ping_after: Some(PING_AFTER), idle_max: Some(IDLE_MAX) };
    let mut client = connect(timeouts);
    for _ in 0..3 {
        let sent = Instant::now();
        client.send(Outgoing::Ping).await.unwrap();
        let (frame, took) = next(&mut client, sent).await;
        assert!(frame == "ping" && is_about(took, PING_AFTER), "{frame} after {took:?}");
    }
}

/// A connection past its message quota, whose handshake was accepted without a session.
fn over_quota() -> Connection {
    let quotas = Quotas { messages_per_second: Some(0.001), messages_burst: Some(1.0), ..Quotas::default() };
    let principal = Principal::new("ann", Policy::default(), quotas);
    let mut connection = Connection::new(config(Timeouts::NONE, principal));
    let mut out = Outbox::default();
    let handshake = r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"0.1"}}"#;
    connection.on_text(handshake, std::time::Instant::now(), &mut out);
    let opening = connection.opening.take().unwrap();
    connection.peer.on_handshake(&opening.request, Ok(&serde_json::json!({})));
    connection
}

#[test]
fn request_past_the_message_quota_is_refused_and_frees_its_id() {
    let mut connection = over_quota();
    for _ in 0..2 {
        let mut out = Outbox::default();
        let eval = r#"{"jsonrpc":"2.0","id":2,"method":"eval","params":{"code":"1"}}"#;
        connection.on_text(eval, std::time::Instant::now(), &mut out);
        let texts = out.take_texts();
        let answer: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert_eq!((texts.len(), &answer["id"]), (1, &serde_json::json!(2)));
        assert_eq!(answer["error"]["data"]["quota"], "messages");
        assert!(connection.peer.is_idle());
    }
}

#[test]
fn answer_past_the_message_quota_is_not_refused() {
    let mut connection = over_quota();
    let (target, payload) = (Target::Binding("notify".into()), Payload::Input(serde_json::Value::Null));
    let mut out = Outbox::default();
    let call = ToClient::Call { call: 7, target, payload };
    let call = ConnectionEvent::Session(call);
    connection.on_command(Input::Session(Some(call)), std::time::Instant::now(), &mut out);
    assert_eq!(out.take_texts().len(), 1);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"value":null}}"#;
    connection.on_text(answer, std::time::Instant::now(), &mut out);
    assert!(out.take_texts().is_empty() && !connection.peer.awaits_answers());
}
