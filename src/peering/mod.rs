//! What the other protocols share: connections that we dial or accept.
//!
//! A protocol is a pure machine over texts, and a [`Conversation`] to the driver of its connections. [`link`] dials a
//! peer and keeps the connection up; an [`Endpoint`] serves the connections that are made to a [`Mount`]; both run
//! [`pump`].

mod endpoint;
mod handshake;
mod host;
mod link;
mod pump;
mod requester;

use tokio::sync::mpsc;

pub use endpoint::{Endpoint, IncomingConnection, Mount, MountGate, MountKind};
pub use host::{Background, Host};
pub(crate) use link::{Link, LinkDown, LinkSettings, LinkState, link};
pub(crate) use pump::pump;
pub(crate) use requester::{PendingRecord, Requester};

pub(crate) use crate::transport::{Conversation, Disconnect, Outbox};

/// Commands that wait for a connection before its senders wait or get an error.
/// A busy peer has about this many requests in flight; more would only hide that it is too slow.
pub(crate) const COMMANDS_QUEUED_MAX: usize = 256;

/// The channel for the commands of a connection.
pub(crate) fn commands<C>() -> (mpsc::Sender<C>, mpsc::Receiver<C>) {
    mpsc::channel(COMMANDS_QUEUED_MAX)
}
