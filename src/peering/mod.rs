//! What the other protocols share: connections that are made by us or to us, and the loop that serves them.
//!
//! A protocol is a pure machine over texts. [`Conversation`] is how it meets the drivers: what happens goes in, what
//! is to be sent comes out, and nothing in it waits. [`link`] dials a peer and keeps the connection up; an
//! [`Endpoint`] serves the connections that come to a [`Mount`]; both run the same [`pump`].

mod endpoint;
mod handshake;
mod host;
mod link;
mod pump;
mod requester;

use std::time::Instant;

use tokio::sync::mpsc;

pub use endpoint::{Endpoint, IncomingConnection, Mount, MountGate, MountKind};
pub use host::{Background, Host};
pub use link::{HANDSHAKE_MAX, Link, LinkDown, LinkSettings, LinkState, link};
pub use pump::{Disconnect, pump};
pub use requester::{PendingRecord, Requester};

/// Commands that wait for a connection before its senders wait or are refused.
/// A busy peer has about this many requests in flight; more would only hide that it is too slow.
pub const COMMANDS_QUEUED_MAX: usize = 256;

/// The channel on which others tell a connection something.
pub fn commands<C>() -> (mpsc::Sender<C>, mpsc::Receiver<C>) {
    mpsc::channel(COMMANDS_QUEUED_MAX)
}

/// One side of a connection, from its first frame to its last. It may be opened again: a link reconnects.
pub trait Conversation: Send + 'static {
    /// What others tell it: handlers, scripts, other connections.
    type Command: Send + 'static;

    /// The connection is up.
    fn on_open(&mut self, now: Instant, out: &mut Outbox);

    /// A text came in.
    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox);

    /// Somebody told it something.
    fn on_command(&mut self, command: Self::Command, now: Instant, out: &mut Outbox);

    /// Whether the handshake of the protocol is complete, so that commands can be served. A link counts as up only
    /// then, and is closed if it takes longer than [`LinkSettings::handshake_max`].
    fn is_ready(&self) -> bool {
        true
    }

    /// When it wants to be woken.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// It is time.
    fn on_wake(&mut self, _now: Instant, _out: &mut Outbox) {}

    /// A binary frame came in.
    fn on_binary(&mut self, _bytes: &[u8], _now: Instant, out: &mut Outbox) {
        out.close(crate::transport::close_code::UNSUPPORTED, "expected a text frame");
    }

    /// The connection is about to be closed by this side. What is sent here goes out before the close frame.
    fn on_closing(&mut self, _parting: &Disconnect, _out: &mut Outbox) {}

    /// The connection is gone. Whoever waits for an answer is told so here.
    fn on_end(&mut self, now: Instant);
}

/// What a conversation wants done.
#[derive(Debug, Default)]
pub struct Outbox {
    texts: Vec<String>,
    parting: Option<Disconnect>,
}

impl Outbox {
    /// Sends a text.
    pub fn send(&mut self, text: String) {
        self.texts.push(text);
    }

    /// Ends the connection after what was sent. The first to say so is heard.
    pub fn close(&mut self, code: u16, reason: impl Into<String>) {
        self.parting.get_or_insert(Disconnect::Close { code, reason: reason.into() });
    }

    /// Ends the connection for good: a link does not dial again.
    pub fn give_up(&mut self, reason: impl Into<String>) {
        self.parting.get_or_insert(Disconnect::GiveUp { reason: reason.into() });
    }

    /// What was sent, in order. For the tests of a conversation.
    pub fn take_texts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.texts)
    }

    /// How the connection is to end, if it is.
    pub fn parting(&self) -> Option<&Disconnect> {
        self.parting.as_ref()
    }
}
