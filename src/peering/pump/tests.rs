//! A conversation that repeats what it hears, over a pair and over a real link.

use super::*;
use crate::peering::{Host, Link, LinkSettings, LinkState, commands, link};
use crate::transport::{Dial, Frame, Outgoing, PairEnd, pair};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;

/// Says what it hears, and what it is told; `bye` closes, `never again` gives up.
#[derive(Default)]
struct Parrot {
    wake_at: Option<Instant>,
    ends: usize,
}

impl Conversation for Parrot {
    type Command = String;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        out.send("hello".to_owned());
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        match text {
            "bye" => out.close(4000, "as you wish"),
            "never again" => out.give_up("asked to"),
            "later" => self.wake_at = Some(now + Duration::from_millis(1)),
            _ => out.send(format!("heard {text}")),
        }
    }

    fn on_command(&mut self, command: String, _: Instant, out: &mut Outbox) {
        out.send(format!("told {command}"));
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

struct Talk {
    peer: PairEnd,
    told_tx: mpsc::Sender<String>,
    stop: CancellationToken,
    done: tokio::task::JoinHandle<(Disconnect, usize)>,
}

fn talk() -> Talk {
    let (mut ours, peer) = pair(8);
    let (told_tx, mut told_rx) = commands();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let done = tokio::spawn(async move {
        let mut parrot = Parrot::default();
        let parting = pump(&mut ours, &mut parrot, &mut told_rx, &stopped).await;
        (parting, parrot.ends)
    });
    Talk { peer, told_tx, stop, done }
}

impl Talk {
    async fn say(&mut self, text: &str) {
        self.peer.send(Outgoing::Text(text.to_owned())).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        match self.peer.next().await {
            Some(Ok(Frame::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Frame::Closed { code, reason })) => format!("{code} {reason}"),
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn texts_and_commands_reach_the_conversation_and_its_words_the_peer() {
    let mut talk = talk();
    assert_eq!(talk.hear().await, "hello");
    talk.say("a").await;
    assert_eq!(talk.hear().await, "heard a");
    talk.told_tx.send("b".to_owned()).await.unwrap();
    assert_eq!(talk.hear().await, "told b");
}

#[tokio::test]
async fn a_close_comes_after_what_was_said_before_it() {
    let mut talk = talk();
    talk.say("a").await;
    talk.say("bye").await;
    assert_eq!(talk.hear().await, "hello");
    assert_eq!(talk.hear().await, "heard a");
    assert_eq!(talk.hear().await, "4000 as you wish");
    drop(talk.peer);
    let (parting, ends) = talk.done.await.unwrap();
    assert_eq!(parting, Disconnect::Close { code: 4000, reason: "as you wish".to_owned() });
    assert_eq!(ends, 1);
}

#[tokio::test]
async fn a_server_that_stops_closes_with_going_away() {
    let mut talk = talk();
    assert_eq!(talk.hear().await, "hello");
    talk.stop.cancel();
    assert_eq!(talk.hear().await, "1001 going away");
}

#[tokio::test]
async fn a_peer_that_is_gone_ends_the_conversation() {
    let talk = talk();
    drop(talk.peer);
    let (parting, ends) = talk.done.await.unwrap();
    assert_eq!((parting, ends), (Disconnect::Gone, 1));
}

#[tokio::test]
async fn the_conversation_is_woken_when_it_asked_for_it() {
    let mut talk = talk();
    assert_eq!(talk.hear().await, "hello");
    talk.say("later").await;
    assert_eq!(talk.hear().await, "awake");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_given_up() {
    let talk = talk();
    // Far more than the pair holds; nobody takes them out.
    for number in 0..64 {
        let _ = talk.told_tx.send(number.to_string()).await;
    }
    let (parting, ends) = talk.done.await.unwrap();
    assert_eq!(
        parting,
        Disconnect::Close { code: 1013, reason: "the connection reads too slowly".to_owned() }
    );
    assert_eq!(ends, 1);
    drop(talk.peer);
}

#[tokio::test]
async fn binary_and_overlong_frames_close_with_their_codes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (_link, background) = link(settings(&listener), |_| Parrot::default());
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
    LinkSettings::new("parrot", Dial { url, message_bytes_max: 1 << 10, ..Dial::default() })
}

fn host(stop: &CancellationToken) -> Host {
    Host::new(|_| pair(1).0, stop.clone())
}

#[tokio::test]
async fn a_link_comes_back_after_its_peer_closed_and_refuses_commands_meanwhile() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (link, background) = link(settings(&listener), |_| Parrot::default());
    assert!(link.send("too early".to_owned()).await.is_err());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut first = answering(&listener).await;
    assert_eq!(link.settled().await, LinkState::Up);
    link.send("a".to_owned()).await.unwrap();
    let heard = [first.next().await.unwrap().unwrap(), first.next().await.unwrap().unwrap()];
    assert_eq!(heard.map(|message| message.to_string()), ["hello", "told a"]);
    drop(first);
    let mut second = answering(&listener).await;
    assert_eq!(second.next().await.unwrap().unwrap().to_string(), "hello");
    stop.cancel();
    running.await.unwrap();
    assert!(matches!(link.state(), LinkState::GivenUp { .. }));
}

#[tokio::test]
async fn a_link_that_gave_up_says_why_and_does_not_dial_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let (link, background) = link(settings(&listener), |_| Parrot::default());
    let running = tokio::spawn(background.run(host(&stop)));
    let mut peer = answering(&listener).await;
    peer.send(tokio_tungstenite::tungstenite::Message::text("never again")).await.unwrap();
    // Reads on, so that the close is answered.
    while let Some(Ok(_)) = peer.next().await {}
    let given_up = |state: &LinkState| *state == LinkState::GivenUp { reason: "asked to".to_owned() };
    while !given_up(&link.state()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(link.send("a".to_owned()).await.unwrap_err().0, "asked to");
    stop.cancel();
    running.await.unwrap();
}

/// Waits for a peer that greets first.
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
