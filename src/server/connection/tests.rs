//! Timeouts of a connection, under a paused clock.

use futures_util::SinkExt as _;

use super::*;
use crate::binding::Registry;
use crate::budget::ServerBudget;
use crate::limits::Limits;
use crate::observe::audit::Audit;
use crate::sessions::SessionSettings;
use crate::transport::{PairEnd, pair};

const HANDSHAKE: Duration = Duration::from_secs(30);
const PING_AFTER: Duration = Duration::from_secs(30);
const IDLE_MAX: Duration = Duration::from_secs(75);

/// The client's end of a connection with these timeouts.
fn connect(timeouts: Timeouts) -> PairEnd {
    let (client, transport) = pair(8);
    let directory = Directory::new(
        Arc::new(Registry::default()),
        Arc::new(Limits::default()),
        SessionSettings::default(),
        "test",
        Audit::default(),
    );
    let config = ConnectionConfig {
        directory: Arc::new(directory),
        principal: Arc::new(Principal::anonymous()),
        timeouts,
        stop: CancellationToken::new(),
        finishes: false,
        budget: ConnectionBudget::new(&ServerBudget::new(1 << 30), 1 << 30, 1 << 20),
    };
    tokio::task::spawn_local(drive(transport, config));
    client
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
    let heard = Instant::now();
    client.send(Outgoing::Ping).await.unwrap();
    let (frame, took) = next(&mut client, heard).await;
    assert!(frame == "ping" && is_about(took, PING_AFTER), "{frame} after {took:?}");
    let (frame, took) = next(&mut client, heard).await;
    assert!(frame == "1008" && is_about(took, IDLE_MAX), "{frame} after {took:?}");
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn any_frame_restarts_the_idle_timeout() {
    let timeouts = Timeouts { handshake: None, ping_after: Some(PING_AFTER), idle_max: Some(IDLE_MAX) };
    let mut client = connect(timeouts);
    for _ in 0..3 {
        let heard = Instant::now();
        client.send(Outgoing::Ping).await.unwrap();
        let (frame, took) = next(&mut client, heard).await;
        assert!(frame == "ping" && is_about(took, PING_AFTER), "{frame} after {took:?}");
    }
}
