//! The one loop that serves a connection: scomp server and client, command packages, and the other protocols.
//!
//! It sits between a transport and a [`Conversation`]. It owns the read round (frames that are ready together are
//! handled together, then written with one flush), write errors, pings and idle timeouts, the stop token, the last
//! flush and the close frame. It decides nothing that a protocol could have an opinion on, and waits for nothing but
//! its inputs.

mod conversation;
mod frame_io;
mod idle;

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{Frame, Frames, Outgoing, TransportError, close_code};

pub(crate) use conversation::{Conversation, Disconnect, InputEnd, Outbox};
use frame_io::{CLOSE_WAIT_MAX, FrameIo, IoEvent, WriteError};
pub use idle::Timeouts;
use idle::{IdleAction, IdleClock};

/// Frames read in one round before the commands are looked at.
const FRAMES_PER_ROUND_MAX: usize = 64;

/// Commands handled in one round before the output is flushed.
const COMMANDS_PER_ROUND_MAX: usize = 256;

/// Output that ends a round early, so that a flood of answers is not gathered in memory.
const OUTPUT_PER_ROUND_BYTES_MAX: usize = 64 << 10;

/// How long a peer may leave its socket full before the connection is closed.
/// A healthy peer reads immediately; a minute of waiting would be a minute of memory.
pub(crate) const WRITE_STALL_MAX: Duration = Duration::from_secs(15);

/// How a driver treats its transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriverSettings {
    /// When a silent peer is pinged and given up.
    pub timeouts: Timeouts,
    /// How long the peer may read nothing before it is given up; `None` for a peer that is waited for.
    pub write_stall_max: Option<Duration>,
    /// Frames that may wait to be written before nothing more is read and no command is taken. With 0 every write is
    /// waited for, which slows a peer down that sends and does not read.
    pub frames_queued_max: usize,
}

/// A transport and what the driver knows of it.
pub(crate) struct Driver<T> {
    io: FrameIo<T>,
    out: Outbox,
    idle: IdleClock,
    write_stall_max: Option<Duration>,
    /// Rings when a deadline may have passed. It is kept from one event to the next and set again only for an earlier
    /// time, because registering a timer for every message would cost more than reading it.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether the last wait was without reading.
    was_held: bool,
    input_ended: bool,
    read_failure: Option<String>,
}

/// What happened.
enum Event<C> {
    Stop,
    Command(C),
    Io(IoEvent),
    Alarm,
}

/// Fires once; kept over all events, for the same reason as the alarm.
type Stop = Option<Pin<Box<WaitForCancellationFutureOwned>>>;

impl<T: Frames> Driver<T> {
    /// A driver for a transport that is connected.
    pub(crate) fn new(transport: T, settings: DriverSettings) -> Self {
        Self {
            io: FrameIo::new(transport, settings.frames_queued_max),
            out: Outbox::default(),
            idle: IdleClock::new(settings.timeouts, Instant::now()),
            write_stall_max: settings.write_stall_max,
            alarm: None,
            was_held: false,
            input_ended: false,
            read_failure: None,
        }
    }

    /// Serves a conversation from its opening to its end, with the close frame.
    pub(crate) async fn serve<C: Conversation>(
        mut self,
        conversation: &mut C,
        stop: &CancellationToken,
    ) -> Disconnect {
        let disconnect = self.run(conversation, stop).await.unwrap_or(Disconnect::Gone);
        conversation.on_end(Instant::now().into_std());
        self.close(&disconnect).await;
        disconnect
    }

    /// Runs a conversation until the connection is to end; `None` when the conversation is done with it, which may then
    /// be served further by another one. What was sent is delivered, but for the `None`; the close frame is not sent.
    pub(crate) async fn run<C: Conversation>(
        &mut self,
        conversation: &mut C,
        stop: &CancellationToken,
    ) -> Option<Disconnect> {
        let mut stop: Stop = Some(Box::pin(stop.clone().cancelled_owned()));
        conversation.on_open(Instant::now().into_std(), &mut self.out);
        loop {
            self.queue_output();
            if let Some(disconnect) = self.out.take_disconnect() {
                return Some(self.finish(conversation, disconnect).await);
            }
            if conversation.is_done() {
                return None;
            }
            self.io.write_now();
            let event = self.next_event(conversation, &mut stop).await;
            if let Err(disconnect) = self.handle(conversation, event) {
                // What was answered before is still delivered.
                self.queue_output();
                let _ = self.io.flush(Some(CLOSE_WAIT_MAX)).await;
                return Some(disconnect);
            }
        }
    }

    /// Writes what was sent, as long as the peer reads.
    pub(crate) async fn flush(&mut self) {
        self.queue_output();
        // A peer that does not read it is gone all the same.
        let _ = self.io.flush(self.write_stall_max).await;
    }

    /// Closes the connection as [`Self::run`] returned.
    pub(crate) async fn close(&mut self, disconnect: &Disconnect) {
        match disconnect {
            Disconnect::Close { code, reason } => self.io.close(*code, reason.clone()).await,
            Disconnect::GiveUp { reason } => self.io.close(close_code::NORMAL, reason.clone()).await,
            Disconnect::Closed { .. } | Disconnect::Gone => {}
        }
    }

    /// Why reading or writing failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.read_failure.clone().or_else(|| self.io.failure().map(ToString::to_string))
    }

    fn queue_output(&mut self) {
        for text in self.out.drain() {
            self.io.push(Outgoing::Text(text));
        }
    }

    /// Delivers the last frames of a conversation that ends the connection.
    async fn finish<C: Conversation>(&mut self, conversation: &mut C, disconnect: Disconnect) -> Disconnect {
        let stall_max = match &disconnect {
            Disconnect::Close { .. } | Disconnect::GiveUp { .. } => {
                conversation.on_closing(&disconnect, &mut self.out);
                self.write_stall_max.unwrap_or(CLOSE_WAIT_MAX)
            }
            Disconnect::Closed { .. } | Disconnect::Gone => CLOSE_WAIT_MAX,
        };
        self.queue_output();
        match self.io.flush(Some(stall_max)).await {
            Err(WriteError::Stalled) if self.write_stall_max == Some(stall_max) => stalled(),
            // A peer that left before the last frames does not change how the connection was to end.
            Ok(()) | Err(WriteError::Closed | WriteError::Stalled) => disconnect,
        }
    }

    async fn next_event<C: Conversation>(
        &mut self,
        conversation: &mut C,
        stop: &mut Stop,
    ) -> Event<C::Command> {
        loop {
            let has_room = self.io.has_room();
            let may_read = has_room && !self.input_ended && conversation.may_read();
            self.note_reading(may_read);
            self.set_alarm(conversation);
            let Self { io, alarm, .. } = self;
            let event = tokio::select! {
                biased;
                () = optional(stop) => Event::Stop,
                command = poll_fn(|cx| conversation.poll_command(cx)), if has_room => Event::Command(command),
                event = poll_fn(|cx| io.poll(cx, may_read)) => Event::Io(event),
                () = optional(alarm) => Event::Alarm,
            };
            match event {
                Event::Stop => *stop = None,
                Event::Alarm => {
                    self.alarm = None;
                    let is_due = self.next_deadline(conversation).is_some_and(|at| at <= Instant::now());
                    if !is_due {
                        continue;
                    }
                }
                Event::Command(_) | Event::Io(_) => {}
            }
            return event;
        }
    }

    /// While the peer is not read its frames do not arrive, so that time does not count as idle.
    fn note_reading(&mut self, may_read: bool) {
        if may_read && self.was_held {
            self.idle.restart(Instant::now());
        }
        self.was_held = !may_read;
    }

    fn next_deadline<C: Conversation>(&self, conversation: &C) -> Option<Instant> {
        let idle = self.idle.next_at(conversation.is_ready());
        let wake = conversation.wake_at().map(Instant::from_std);
        [idle, wake, self.stall_deadline()].into_iter().flatten().min()
    }

    fn stall_deadline(&self) -> Option<Instant> {
        Some(self.io.stalled_since()? + self.write_stall_max?)
    }

    fn set_alarm<C: Conversation>(&mut self, conversation: &C) {
        let Some(at) = self.next_deadline(conversation) else { return };
        match &mut self.alarm {
            None => self.alarm = Some(Box::pin(tokio::time::sleep_until(at))),
            Some(alarm) if at < alarm.deadline() => alarm.as_mut().reset(at),
            Some(_) => {}
        }
    }

    /// Handles an event and all other inputs that are ready. An error ends the connection without a word from the
    /// conversation.
    fn handle<C: Conversation>(
        &mut self,
        conversation: &mut C,
        event: Event<C::Command>,
    ) -> Result<(), Disconnect> {
        let now = Instant::now();
        match event {
            Event::Stop => conversation.on_stop(now.into_std(), &mut self.out),
            Event::Command(command) => conversation.on_command(command, now.into_std(), &mut self.out),
            Event::Io(IoEvent::Frame(frame)) => self.on_frame(conversation, frame, now),
            Event::Io(IoEvent::Flushed) => return Ok(()),
            Event::Io(IoEvent::Failed) => return Err(Disconnect::Gone),
            Event::Alarm => self.on_alarm(conversation, now)?,
        }
        self.take_ready(conversation);
        Ok(())
    }

    /// Handles the frames and the commands that are ready, within the limits of a round.
    fn take_ready<C: Conversation>(&mut self, conversation: &mut C) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..FRAMES_PER_ROUND_MAX {
            if self.is_round_over(conversation) || self.input_ended || !conversation.may_read() {
                break;
            }
            let Poll::Ready(frame) = self.io.poll_frame(&mut cx) else { break };
            self.on_frame(conversation, frame, Instant::now());
        }
        for _ in 0..COMMANDS_PER_ROUND_MAX {
            if self.is_round_over(conversation) {
                break;
            }
            let Poll::Ready(command) = conversation.poll_command(&mut cx) else { break };
            conversation.on_command(command, Instant::now().into_std(), &mut self.out);
        }
    }

    fn is_round_over<C: Conversation>(&self, conversation: &C) -> bool {
        self.out.disconnect().is_some()
            || self.out.bytes() > OUTPUT_PER_ROUND_BYTES_MAX
            || !self.io.has_room()
            || conversation.is_done()
    }

    fn on_frame<C: Conversation>(
        &mut self,
        conversation: &mut C,
        frame: Option<Result<Frame, TransportError>>,
        now: Instant,
    ) {
        self.idle.on_frame(now);
        let (now, out) = (now.into_std(), &mut self.out);
        let end = match frame {
            Some(Ok(Frame::Text(text))) => return conversation.on_text(text.as_str(), now, out),
            Some(Ok(Frame::Binary(bytes))) => return conversation.on_binary(&bytes, now, out),
            Some(Ok(Frame::Alive)) => return,
            Some(Ok(Frame::TooLong)) => InputEnd::TooLong,
            Some(Ok(Frame::Closed { code, reason })) => InputEnd::Closed { code, reason },
            Some(Err(error)) => {
                self.read_failure = Some(error.to_string());
                InputEnd::Failed(error)
            }
            None => InputEnd::Ended,
        };
        self.input_ended = true;
        conversation.on_input_end(end, now, out);
    }

    fn on_alarm<C: Conversation>(&mut self, conversation: &mut C, now: Instant) -> Result<(), Disconnect> {
        if self.stall_deadline().is_some_and(|at| at <= now) {
            return Err(stalled());
        }
        if conversation.wake_at().is_some_and(|at| at <= now.into_std()) {
            conversation.on_wake(now.into_std(), &mut self.out);
        }
        if self.was_held || conversation.is_held_back() {
            self.idle.restart(now);
            return Ok(());
        }
        match self.idle.on_alarm(now, conversation.is_ready()) {
            IdleAction::Wait => {}
            IdleAction::Ping => self.io.push(Outgoing::Ping),
            IdleAction::HandshakeTimeout => return Err(policy_violation("handshake timed out")),
            IdleAction::IdleTimeout => return Err(policy_violation("idle timeout: no answer to a ping")),
        }
        Ok(())
    }
}

fn policy_violation(reason: &str) -> Disconnect {
    Disconnect::Close { code: close_code::POLICY, reason: reason.to_owned() }
}

fn stalled() -> Disconnect {
    Disconnect::Close {
        code: close_code::TRY_AGAIN_LATER,
        reason: "the connection reads too slowly".to_owned(),
    }
}

/// Waits for a future that may not be there.
async fn optional<F: Future<Output = ()> + Unpin>(future: &mut Option<F>) {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
