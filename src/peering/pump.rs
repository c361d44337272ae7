//! Runs a conversation whose commands come over a channel.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::concurrency::ByteReceiver;
use crate::transport::{
    Conversation, Disconnect, Driver, DriverSettings, InputEnd, Outbox, Timeouts, Transport, WRITE_STALL_MAX,
};

/// How long a peer may be silent before it is pinged.
const PING_AFTER: Duration = Duration::from_secs(30);

/// How long a peer may be silent before the connection is closed: two pings were lost, or it is gone.
const IDLE_MAX: Duration = Duration::from_secs(75);

/// Every connection of the other protocols. A peer that does not read is not read either.
const SETTINGS: DriverSettings = DriverSettings {
    timeouts: Timeouts { handshake: None, ping_after: Some(PING_AFTER), idle_max: Some(IDLE_MAX) },
    write_stall_max: Some(WRITE_STALL_MAX),
    frames_queued_max: 0,
};

/// The receiving end of a channel of commands, whatever its limits.
pub(crate) trait CommandReceiver<C> {
    /// The next command; `None` when every sender was dropped.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<C>>;
}

impl<C> CommandReceiver<C> for mpsc::Receiver<C> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<C>> {
        Self::poll_recv(self, cx)
    }
}

impl<C> CommandReceiver<C> for ByteReceiver<C> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<C>> {
        Self::poll_recv(self, cx)
    }
}

/// Serves a connection to its end.
pub(crate) async fn pump<T: Transport, C: Conversation>(
    transport: &mut T,
    conversation: &mut C,
    commands_rx: &mut impl CommandReceiver<C::Command>,
    stop: &CancellationToken,
) -> Disconnect {
    Driver::new(transport, SETTINGS).serve(&mut Commanded { conversation, commands_rx }, stop).await
}

/// A conversation with the channel of its commands.
struct Commanded<'a, C, R> {
    conversation: &'a mut C,
    commands_rx: &'a mut R,
}

impl<C: Conversation, R: CommandReceiver<C::Command>> Conversation for Commanded<'_, C, R> {
    type Command = C::Command;

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<C::Command> {
        match self.commands_rx.poll_recv(cx) {
            Poll::Ready(Some(command)) => Poll::Ready(command),
            // A channel without senders does not end the connection.
            Poll::Ready(None) | Poll::Pending => self.conversation.poll_command(cx),
        }
    }

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        self.conversation.on_open(now, out);
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        self.conversation.on_text(text, now, out);
    }

    fn on_command(&mut self, command: C::Command, now: Instant, out: &mut Outbox) {
        self.conversation.on_command(command, now, out);
    }

    fn is_ready(&self) -> bool {
        self.conversation.is_ready()
    }

    fn wake_at(&self) -> Option<Instant> {
        self.conversation.wake_at()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        self.conversation.on_wake(now, out);
    }

    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        self.conversation.on_binary(bytes, now, out);
    }

    fn may_read(&mut self) -> bool {
        self.conversation.may_read()
    }

    fn is_held_back(&self) -> bool {
        self.conversation.is_held_back()
    }

    fn on_input_end(&mut self, end: InputEnd, now: Instant, out: &mut Outbox) {
        self.conversation.on_input_end(end, now, out);
    }

    fn on_stop(&mut self, now: Instant, out: &mut Outbox) {
        self.conversation.on_stop(now, out);
    }

    fn is_done(&self) -> bool {
        self.conversation.is_done()
    }

    fn on_closing(&mut self, disconnect: &Disconnect, out: &mut Outbox) {
        self.conversation.on_closing(disconnect, out);
    }

    fn on_end(&mut self, now: Instant) {
        self.conversation.on_end(now);
    }
}

#[cfg(test)]
mod tests;
