//! The driver over a pair, over a transport with prepared frames, and with the clock in the hand of the test.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::{FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::sync::mpsc;

use super::*;
use crate::transport::{PairEnd, pair};

const PING_AFTER: Duration = Duration::from_secs(30);
const IDLE_MAX: Duration = Duration::from_secs(75);

const SETTINGS: DriverSettings = DriverSettings {
    timeouts: Timeouts { handshake: None, ping_after: Some(PING_AFTER), idle_max: Some(IDLE_MAX) },
    write_stall_max: Some(WRITE_STALL_MAX),
    frames_queued_max: 0,
};

/// Repeats every text and every command. Some texts change how it behaves.
struct Echo {
    commands_rx: mpsc::Receiver<String>,
    may_read: Rc<Cell<bool>>,
    is_ready: bool,
    finishes: bool,
    input_ended: bool,
    running: usize,
    ends: usize,
}

impl Echo {
    fn new() -> (Self, mpsc::Sender<String>) {
        let (commands_tx, commands_rx) = mpsc::channel(64);
        let may_read = Rc::new(Cell::new(true));
        let echo = Self {
            commands_rx,
            may_read,
            is_ready: true,
            finishes: false,
            input_ended: false,
            running: 0,
            ends: 0,
        };
        (echo, commands_tx)
    }
}

impl Conversation for Echo {
    type Command = String;

    fn on_open(&mut self, _: std::time::Instant, _: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _: std::time::Instant, out: &mut Outbox) {
        match text {
            "close" => out.close(4000, "done"),
            "run" => self.running += 1,
            "hold" => self.may_read.set(false),
            _ => out.send(text.to_owned()),
        }
    }

    fn on_command(&mut self, command: String, _: std::time::Instant, out: &mut Outbox) {
        match command.as_str() {
            "read" => self.may_read.set(true),
            "ran" => self.running -= 1,
            _ => {}
        }
        out.send(command);
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        match self.commands_rx.poll_recv(cx) {
            Poll::Ready(Some(command)) => Poll::Ready(command),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn may_read(&mut self) -> bool {
        self.may_read.get()
    }

    fn on_input_end(&mut self, end: InputEnd, _: std::time::Instant, out: &mut Outbox) {
        match self.finishes {
            true => self.input_ended = true,
            false => out.end_with(end),
        }
    }

    fn is_done(&self) -> bool {
        self.input_ended && self.running == 0
    }

    fn on_closing(&mut self, _: &Disconnect, out: &mut Outbox) {
        out.send("closing".to_owned());
    }

    fn on_end(&mut self, _: std::time::Instant) {
        self.ends += 1;
    }
}

/// Reads prepared frames and counts what is written.
#[derive(Default)]
struct Scripted {
    frames: VecDeque<Result<Frame, TransportError>>,
    written: Rc<Cell<(usize, usize)>>,
    fails_writing: bool,
}

impl Stream for Scripted {
    type Item = Result<Frame, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.pop_front().map_or(Poll::Pending, |frame| Poll::Ready(Some(frame)))
    }
}

impl Sink<Outgoing> for Scripted {
    type Error = TransportError;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, _: Outgoing) -> Result<(), TransportError> {
        let (frames, flushes) = self.written.get();
        self.written.set((frames + 1, flushes));
        if self.fails_writing { Err(TransportError::Closed) } else { Ok(()) }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let (frames, flushes) = self.written.get();
        self.written.set((frames, flushes + 1));
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }
}

fn text(text: &str) -> Result<Frame, TransportError> {
    Ok(Frame::Text(text.to_owned().into()))
}

async fn run_scripted(frames: impl IntoIterator<Item = Result<Frame, TransportError>>) -> Option<Disconnect> {
    let scripted = Scripted { frames: frames.into_iter().collect(), ..Scripted::default() };
    let (mut echo, _commands_tx) = Echo::new();
    Driver::new(scripted, SETTINGS).run(&mut echo, &CancellationToken::new()).await
}

#[tokio::test]
async fn unreadable_frames_close_with_the_code_for_their_reason() {
    for (frame, expected) in [
        (Ok(Frame::Binary(b"{}".as_slice().into())), 1003),
        (Ok(Frame::TooLong), 1009),
        (Err(TransportError::NotUtf8), 1007),
        (Err(TransportError::Violation("reserved bits".to_owned())), 1002),
    ] {
        let end = run_scripted([Ok(Frame::Alive), frame]).await;
        assert!(matches!(end, Some(Disconnect::Close { code, .. }) if code == expected), "{end:?}");
    }
}

#[tokio::test]
async fn broken_connection_is_gone_and_keeps_its_failure() {
    let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let scripted = Scripted { frames: [Err(broken.into())].into(), ..Scripted::default() };
    let (mut echo, _commands_tx) = Echo::new();
    let mut driver = Driver::new(scripted, SETTINGS);
    assert_eq!(driver.run(&mut echo, &CancellationToken::new()).await, Some(Disconnect::Gone));
    assert_eq!(driver.failure().as_deref(), Some("connection reset"));
}

#[tokio::test]
async fn frames_that_are_ready_together_are_answered_with_one_flush() {
    let written = Rc::new(Cell::new((0, 0)));
    let frames = (0..FRAMES_PER_ROUND_MAX).map(|number| text(&number.to_string())).collect();
    let scripted = Scripted { frames, written: Rc::clone(&written), fails_writing: false };
    let (mut echo, _commands_tx) = Echo::new();
    let mut driver = Driver::new(scripted, SETTINGS);
    assert!(driver.run(&mut echo, &CancellationToken::new()).now_or_never().is_none());
    assert_eq!(written.get(), (FRAMES_PER_ROUND_MAX, 1));
}

#[tokio::test]
async fn long_output_ends_a_round() {
    let long = "x".repeat(OUTPUT_PER_ROUND_BYTES_MAX + 1);
    let written = Rc::new(Cell::new((0, 0)));
    let frames = [text(&long), text(&long), text("short")].into();
    let scripted = Scripted { frames, written: Rc::clone(&written), fails_writing: false };
    let (mut echo, _commands_tx) = Echo::new();
    let mut driver = Driver::new(scripted, SETTINGS);
    assert!(driver.run(&mut echo, &CancellationToken::new()).now_or_never().is_none());
    assert_eq!(written.get(), (3, 3));
}

#[tokio::test]
async fn close_frame_that_arrived_explains_a_failed_write() {
    let expected = Disconnect::Closed { code: 4001, reason: "taken over".to_owned() };
    // Without a queue the peer is not read while a frame waits to be written.
    for (frames_queued_max, end) in [(2, expected), (0, Disconnect::Gone)] {
        let closed = Ok(Frame::Closed { code: 4001, reason: "taken over".to_owned() });
        let scripted = Scripted { frames: [closed].into(), fails_writing: true, ..Scripted::default() };
        let mut driver = Driver::new(scripted, DriverSettings { frames_queued_max, ..SETTINGS });
        driver.io.push(Outgoing::Ping);
        let (mut echo, _commands_tx) = Echo::new();
        assert_eq!(driver.run(&mut echo, &CancellationToken::new()).await, Some(end));
    }
}

/// A served echo, its commands, and the other end of its connection.
struct Scene {
    peer: PairEnd,
    commands_tx: mpsc::Sender<String>,
    stop: CancellationToken,
    may_read: Rc<Cell<bool>>,
    served: tokio::task::JoinHandle<(Disconnect, usize)>,
}

fn serve(capacity: usize, settings: DriverSettings, change: impl FnOnce(&mut Echo)) -> Scene {
    let (transport, peer) = pair(capacity);
    let (mut echo, commands_tx) = Echo::new();
    change(&mut echo);
    let (stop, may_read) = (CancellationToken::new(), Rc::clone(&echo.may_read));
    let stopped = stop.clone();
    let served = tokio::task::spawn_local(async move {
        let end = Driver::new(transport, settings).serve(&mut echo, &stopped).await;
        (end, echo.ends)
    });
    Scene { peer, commands_tx, stop, may_read, served }
}

impl Scene {
    async fn send(&mut self, text: &str) {
        self.peer.send(Outgoing::Text(text.to_owned())).await.unwrap();
    }

    async fn next(&mut self) -> String {
        match self.peer.next().await {
            Some(Ok(Frame::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Frame::Alive)) => "ping".to_owned(),
            Some(Ok(Frame::Closed { code, reason })) => format!("{code} {reason}"),
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "local")]
async fn last_texts_arrive_before_the_close_frame() {
    let mut scene = serve(8, SETTINGS, |_| {});
    for text in ["a", "close", "b"] {
        scene.send(text).await;
    }
    assert_eq!(scene.next().await, "a");
    assert_eq!(scene.next().await, "closing");
    assert_eq!(scene.next().await, "4000 done");
    drop(scene.peer);
    let end = Disconnect::Close { code: 4000, reason: "done".to_owned() };
    assert_eq!(scene.served.await.unwrap(), (end, 1));
}

#[tokio::test(flavor = "local")]
async fn stop_token_closes_with_going_away() {
    let mut scene = serve(8, SETTINGS, |_| {});
    scene.stop.cancel();
    assert_eq!(scene.next().await, "closing");
    assert_eq!(scene.next().await, "1001 going away");
}

#[tokio::test(flavor = "local")]
async fn conversation_may_finish_after_the_end_of_its_input() {
    let mut scene = serve(8, SETTINGS, |echo| echo.finishes = true);
    scene.send("run").await;
    scene.peer.close().await.unwrap();
    scene.commands_tx.send("late".to_owned()).await.unwrap();
    assert_eq!(scene.next().await, "late");
    scene.commands_tx.send("ran".to_owned()).await.unwrap();
    assert_eq!(scene.served.await.unwrap(), (Disconnect::Gone, 1));
}

#[tokio::test(flavor = "local")]
async fn held_conversation_reads_again_after_a_command() {
    let mut scene = serve(8, SETTINGS, |_| {});
    for text in ["hold", "a"] {
        scene.send(text).await;
    }
    scene.commands_tx.send("b".to_owned()).await.unwrap();
    assert_eq!(scene.next().await, "b");
    assert!(!scene.may_read.get());
    scene.commands_tx.send("read".to_owned()).await.unwrap();
    assert_eq!(scene.next().await, "read");
    assert_eq!(scene.next().await, "a");
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn time_without_reading_is_not_idle_time() {
    let mut scene = serve(8, SETTINGS, |_| {});
    scene.send("hold").await;
    tokio::time::sleep(IDLE_MAX * 3).await;
    let resumed = Instant::now();
    scene.commands_tx.send("read".to_owned()).await.unwrap();
    assert_eq!(scene.next().await, "read");
    assert_eq!(scene.next().await, "ping");
    assert!(resumed.elapsed() >= PING_AFTER, "{:?}", resumed.elapsed());
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn silent_peer_is_closed_before_its_handshake() {
    let timeouts = Timeouts { handshake: Some(Duration::from_secs(20)), ..SETTINGS.timeouts };
    let settings = DriverSettings { timeouts, ..SETTINGS };
    let start = Instant::now();
    let mut scene = serve(8, settings, |echo| echo.is_ready = false);
    assert_eq!(scene.next().await, "1008 handshake timed out");
    assert!(start.elapsed() >= Duration::from_secs(20) && start.elapsed() < PING_AFTER);
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn peer_that_does_not_read_is_closed_when_the_write_stalls() {
    let start = Instant::now();
    let scene = serve(1, SETTINGS, |_| {});
    for number in 0..8 {
        scene.commands_tx.send(number.to_string()).await.unwrap();
    }
    let (end, _) = scene.served.await.unwrap();
    let reason = "the connection reads too slowly".to_owned();
    assert_eq!(end, Disconnect::Close { code: 1013, reason });
    assert!(start.elapsed() >= WRITE_STALL_MAX, "{:?}", start.elapsed());
    drop(scene.peer);
}

#[tokio::test(start_paused = true, flavor = "local")]
async fn progress_of_a_slow_reader_restarts_the_stall() {
    let mut scene = serve(1, SETTINGS, |_| {});
    for number in 0..8 {
        scene.commands_tx.send(number.to_string()).await.unwrap();
    }
    for number in 0..8 {
        tokio::time::sleep(WRITE_STALL_MAX - Duration::from_secs(1)).await;
        assert_eq!(scene.next().await, number.to_string());
    }
}

#[tokio::test(flavor = "local")]
async fn frames_are_read_while_writes_wait_up_to_the_queue_limit() {
    let settings = DriverSettings { frames_queued_max: 4, write_stall_max: None, ..SETTINGS };
    let mut scene = serve(1, settings, |_| {});
    // One answer fits into the pair; the others are queued, and the peer can still send.
    for number in 0..5 {
        scene.send(&number.to_string()).await;
    }
    for number in 0..5 {
        assert_eq!(scene.next().await, number.to_string());
    }
}
