//! What a protocol is to the driver: a machine that gets texts and commands, and puts what it wants sent into an outbox.
//!
//! Nothing in a conversation waits. What it would wait for is polled by [`Conversation::poll_command`], and what it
//! must do later is done at [`Conversation::wake_at`].

use std::task::{Context, Poll};
use std::time::Instant;

use crate::transport::{TransportError, close_code};

/// One side of a connection, from its first frame to its last. It may be opened again: a link reconnects.
pub(crate) trait Conversation {
    /// What reaches it from inside the process: commands of handles, events of a session, results of handlers.
    type Command;

    /// The connection is up.
    fn on_open(&mut self, now: Instant, out: &mut Outbox);

    /// A text arrived.
    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox);

    /// A command arrived, from [`Self::poll_command`].
    fn on_command(&mut self, command: Self::Command, now: Instant, out: &mut Outbox);

    /// The next command. It is not polled while the peer leaves too much unread. A conversation that is pending must
    /// have registered the waker, as for any future.
    fn poll_command(&mut self, _cx: &mut Context<'_>) -> Poll<Self::Command> {
        Poll::Pending
    }

    /// Whether the handshake of the protocol is complete, so that commands can be served.
    fn is_ready(&self) -> bool {
        true
    }

    /// When [`Self::on_wake`] is to be called.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Self::wake_at`] has come.
    fn on_wake(&mut self, _now: Instant, _out: &mut Outbox) {}

    /// A binary frame arrived.
    fn on_binary(&mut self, _bytes: &[u8], _now: Instant, out: &mut Outbox) {
        out.close(close_code::UNSUPPORTED, "expected a text frame");
    }

    /// Whether the next frame may be read now. When that changes, a command must become ready.
    fn may_read(&mut self) -> bool {
        true
    }

    /// Whether the transport is held back in the middle of a frame, so that frames of the peer do not arrive.
    fn is_held_back(&self) -> bool {
        false
    }

    /// No frame can be read any more. A conversation that ends nothing here goes on without input until
    /// [`Self::is_done`].
    fn on_input_end(&mut self, end: InputEnd, _now: Instant, out: &mut Outbox) {
        out.end_with(end);
    }

    /// The stop token was cancelled. A conversation that ends nothing here goes on; this is called once.
    fn on_stop(&mut self, _now: Instant, out: &mut Outbox) {
        out.close(close_code::GOING_AWAY, "going away");
    }

    /// Whether there is nothing left to do on this connection, without a close frame.
    fn is_done(&self) -> bool {
        false
    }

    /// This side is about to close the connection. What is sent here goes out before the close frame.
    fn on_closing(&mut self, _disconnect: &Disconnect, _out: &mut Outbox) {}

    /// The connection has ended: calls that wait for an answer fail here.
    fn on_end(&mut self, now: Instant);
}

/// How a connection ended, or is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// With a close frame of ours.
    Close {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// With a close frame of ours, and not to be dialled again.
    GiveUp {
        /// Why.
        reason: String,
    },
    /// The peer closed it.
    Closed {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// The connection broke, without a close frame.
    Gone,
}

/// Why no further frame can be read.
#[derive(Debug)]
pub(crate) enum InputEnd {
    /// The peer closed the connection.
    Closed {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// The input ended without a close frame.
    Ended,
    /// A message was longer than the limit.
    TooLong,
    /// Reading failed.
    Failed(TransportError),
}

/// What a conversation wants sent, and how it wants the connection to end.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    texts: Vec<String>,
    bytes: usize,
    disconnect: Option<Disconnect>,
}

impl Outbox {
    /// Sends a text.
    pub(crate) fn send(&mut self, text: String) {
        self.bytes += text.len();
        self.texts.push(text);
    }

    /// Ends the connection after what was sent. The first call decides.
    pub(crate) fn close(&mut self, code: u16, reason: impl Into<String>) {
        self.disconnect.get_or_insert_with(|| Disconnect::Close { code, reason: reason.into() });
    }

    /// Ends the connection for good: a link does not dial again.
    pub(crate) fn give_up(&mut self, reason: impl Into<String>) {
        self.disconnect.get_or_insert_with(|| Disconnect::GiveUp { reason: reason.into() });
    }

    /// Ends the connection as the end of its input demands.
    pub(crate) fn end_with(&mut self, end: InputEnd) {
        let disconnect = match end {
            InputEnd::Closed { code, reason } => Disconnect::Closed { code, reason },
            InputEnd::Ended => Disconnect::Gone,
            InputEnd::TooLong => {
                Disconnect::Close { code: close_code::TOO_LONG, reason: "message too long".to_owned() }
            }
            InputEnd::Failed(error) => match error.close_code() {
                Some(code) => Disconnect::Close { code, reason: error.to_string() },
                None => Disconnect::Gone,
            },
        };
        self.disconnect.get_or_insert(disconnect);
    }

    /// What was sent, in order. For the tests of a conversation.
    #[cfg(test)]
    pub(crate) fn take_texts(&mut self) -> Vec<String> {
        self.bytes = 0;
        std::mem::take(&mut self.texts)
    }

    /// How the connection is to end, if it is.
    pub(crate) fn disconnect(&self) -> Option<&Disconnect> {
        self.disconnect.as_ref()
    }

    /// Bytes of the texts that were sent and not taken out.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The texts, whose buffer stays.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, String> {
        self.bytes = 0;
        self.texts.drain(..)
    }

    pub(super) fn take_disconnect(&mut self) -> Option<Disconnect> {
        self.disconnect.take()
    }
}
