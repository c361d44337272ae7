//! A conversation that echoes what it receives, over a pair and over a real link.

use super::*;
use crate::peering::{Host, Link, LinkSettings, LinkState, commands, link};
use crate::transport::{Dial, Frame, Outgoing, PairEnd, pair};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;

/// Echoes texts and commands; `bye` closes, `never again` gives up.
#[derive(Default)]
struct Echo {
    wake_at: Option<Instant>,
    ends: usize,
}

impl Conversation for Echo {
    type Command = String;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        out.send("hello".to_owned());
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        match text {
            "bye" => out.close(4000, "as you wish"),
            "never again" => out.give_up("refused"),
            "later" => self.wake_at = Some(now + Duration::from_millis(1)),
            _ => out.send(format!("text {text}")),
        }
    }

    fn on_command(&mut self, command: String, _: Instant, out: &mut Outbox) {
        out.send(format!("command {command}"));
    }

    fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    fn on_wake(&mut self, _: Instant, out: &mut Outbox) {
        self.wake_at = None;
        out.send("awake".to_owned());
    }

    fn on_end(&mut self, _: Instant) {
        self.ends += 1;
    }
}

struct Scene {
    peer: PairEnd,
    commands_tx: mpsc::Sender<String>,
    stop: CancellationToken,
    done: tokio::task::JoinHandle<(Disconnect, usize)>,
}

fn serve() -> Scene {
    let (mut ours, peer) = pair(8);
    let (commands_tx, mut commands_rx) = commands();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let done = tokio::spawn(async move {
        let mut echo = Echo::default();
        let disconnect = pump(&mut ours, &mut echo, &mut commands_rx, &stopped).await;
        (disconnect, echo.ends)
    });
    Scene { peer, commands_tx, stop, done }
}

impl Scene {
    async fn send(&mut self, text: &str) {
        self.peer.send(Outgoing::Text(text.to_owned())).await.unwrap();
    }

    async fn next(&mut self) -> String {
        match self.peer.next().await {
            Some(Ok(Frame::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Frame::Closed { code, reason })) => format!("{code} {reason}"),
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn texts_and_commands_are_answered() {
    let mut scene = serve();
    assert_eq!(scene.next().await, "hello");
    scene.send("a").await;
    assert_eq!(scene.next().await, "text a");
    scene.commands_tx.send("b".to_owned()).await.unwrap();
    assert_eq!(scene.next().await, "command b");
}

#[tokio::test]
async fn close_frame_follows_the_texts_before_it() {
    let mut scene = serve();
    scene.send("a").await;
    scene.send("bye").await;
    assert_eq!(scene.next().await, "hello");
    assert_eq!(scene.next().await, "text a");
    assert_eq!(scene.next().await, "4000 as you wish");
    drop(scene.peer);
    let (disconnect, ends) = scene.done.await.unwrap();
    assert_eq!(disconnect, Disconnect::Close { code: 4000, reason: "as you wish".to_owned() });
    assert_eq!(ends, 1);
}

#[tokio::test]
async fn stop_closes_with_going_away() {
    let mut scene = serve();
    assert_eq!(scene.next().await, "hello");
    scene.stop.cancel();
    assert_eq!(scene.next().await, "1001 going away");
}

#[tokio::test]
async fn broken_connection_ends_the_conversation() {
    let scene = serve();
    drop(scene.peer);
    let (disconnect, ends) = scene.done.await.unwrap();
    assert_eq!((disconnect, ends), (Disconnect::Gone, 1));
}

#[tokio::test]
async fn conversation_is_woken_at_its_time() {
    let mut scene = serve();
    assert_eq!(scene.next().await, "hello");
    scene.send("later").await;
    assert_eq!(scene.next().await, "awake");
}

#[tokio::test(start_paused = true)]
async fn peer_that_does_not_read_is_closed() {
    let scene = serve();
    // Far more than the pair holds, and they are never read.
    for number in 0..64 {
        let _ = scene.commands_tx.send(number.to_string()).await;
    }
    let (disconnect, ends) = scene.done.await.unwrap();
    assert_eq!(
        disconnect,
        Disconnect::Close { code: 1013, reason: "the connection reads too slowly".to_owned() }
    );
    assert_eq!(ends, 1);
    drop(scene.peer);
}

#[tokio::test]
async fn binary_and_too_long_frames_close_with_their_codes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (_link, background) = link(settings(&listener), |_| Echo::default());
    let running = tokio::spawn(background.run(host(&stop)));
    let long = tokio_tungstenite::tungstenite::Message::text("x".repeat((1 << 10) + 1));
    for (message, code) in [(tokio_tungstenite::tungstenite::Message::binary("x"), 1003), (long, 1009)] {
        let mut peer = answering(&listener).await;
        peer.send(message).await.unwrap();
        let mut closed = None;
        while let Some(Ok(frame)) = peer.next().await {
            if let tokio_tungstenite::tungstenite::Message::Close(Some(frame)) = frame {
                closed = Some(u16::from(frame.code));
            }
        }
        assert_eq!(closed, Some(code));
    }
    stop.cancel();
    running.await.unwrap();
}

async fn answering(listener: &TcpListener) -> tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    tokio_tungstenite::accept_async(stream).await.unwrap()
}

fn settings(listener: &TcpListener) -> LinkSettings {
    let url = format!("ws://{}", listener.local_addr().unwrap());
    LinkSettings::new("echo", Dial { url, message_bytes_max: 1 << 10, ..Dial::default() })
}

fn host(stop: &CancellationToken) -> Host {
    Host::new(|_| pair(1).0, stop.clone())
}

#[tokio::test]
async fn link_redials_after_a_close_and_refuses_commands_meanwhile() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (link, background) = link(settings(&listener), |_| Echo::default());
    assert!(link.send("too early".to_owned()).await.is_err());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut first = answering(&listener).await;
    assert_eq!(link.settled().await, LinkState::Up);
    link.send("a".to_owned()).await.unwrap();
    let received = [first.next().await.unwrap().unwrap(), first.next().await.unwrap().unwrap()];
    assert_eq!(received.map(|message| message.to_string()), ["hello", "command a"]);
    drop(first);
    let mut second = answering(&listener).await;
    assert_eq!(second.next().await.unwrap().unwrap().to_string(), "hello");
    stop.cancel();
    running.await.unwrap();
    assert!(matches!(link.state(), LinkState::GivenUp { .. }));
}

#[tokio::test]
async fn link_that_gave_up_reports_why_and_does_not_redial() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (link, background) = link(settings(&listener), |_| Echo::default());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut peer = answering(&listener).await;
    peer.send(tokio_tungstenite::tungstenite::Message::text("never again")).await.unwrap();
    // Reads on, so that the close is answered.
    while let Some(Ok(_)) = peer.next().await {}
    let given_up = |state: &LinkState| *state == LinkState::GivenUp { reason: "refused".to_owned() };
    while !given_up(&link.state()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(link.send("a".to_owned()).await.unwrap_err().0, "refused");
    stop.cancel();
    running.await.unwrap();
}

/// Ready once the peer has sent `welcome`.
#[derive(Default)]
struct Guest {
    is_welcome: bool,
}

impl Conversation for Guest {
    type Command = String;

    fn on_open(&mut self, _: Instant, _: &mut Outbox) {
        self.is_welcome = false;
    }

    fn on_text(&mut self, text: &str, _: Instant, _: &mut Outbox) {
        self.is_welcome |= text == "welcome";
    }

    fn on_command(&mut self, command: String, _: Instant, out: &mut Outbox) {
        out.send(command);
    }

    fn is_ready(&self) -> bool {
        self.is_welcome
    }

    fn on_end(&mut self, _: Instant) {}
}

async fn wait_for_state(link: &Link<String>, expected: impl Fn(&LinkState) -> bool) -> LinkState {
    loop {
        let state = link.state();
        if expected(&state) {
            return state;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn link_refuses_commands_until_the_handshake_is_complete() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (link, background) = link(settings(&listener), |_| Guest::default());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut peer = answering(&listener).await;
    peer.send(tokio_tungstenite::tungstenite::Message::text("who is there?")).await.unwrap();
    assert_eq!(link.send("too early".to_owned()).await.unwrap_err().0, "not connected");
    assert_eq!(link.state(), LinkState::Connecting);
    peer.send(tokio_tungstenite::tungstenite::Message::text("welcome")).await.unwrap();
    assert_eq!(link.settled().await, LinkState::Up);
    link.send("now".to_owned()).await.unwrap();
    assert_eq!(peer.next().await.unwrap().unwrap().to_string(), "now");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn silent_peer_is_closed_when_the_handshake_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let settings = LinkSettings { handshake_max: Duration::from_millis(1), ..settings(&listener) };
    let (link, background) = link(settings, |_| Guest::default());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut peer = answering(&listener).await;
    let closed = match peer.next().await {
        Some(Ok(tokio_tungstenite::tungstenite::Message::Close(Some(frame)))) => frame,
        other => panic!("expected a close frame, got {other:?}"),
    };
    assert_eq!((u16::from(closed.code), closed.reason.as_str()), (1008, "handshake timed out"));
    drop(peer);
    let is_down = |state: &LinkState| matches!(state, LinkState::Down { error: Some(_) });
    let down = wait_for_state(&link, is_down).await;
    assert_eq!(down, LinkState::Down { error: Some("handshake timed out".to_owned()) });
    stop.cancel();
    running.await.unwrap();
}
