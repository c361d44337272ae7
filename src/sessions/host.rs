//! Where sessions run.
//!
//! A [`SessionHost`] starts a session and exchanges messages with it: [`ToSession`] in, [`FromSession`] out, and nothing
//! else. The server reaches a session only through its [`SessionLink`], so it does not know whether the session runs on
//! a shard of this process ([`LocalHost`]), in another process, or not at all, as in tests.
//!
//! A host makes the link of a session with [`SessionLink::new`], starts the session, and from then on:
//!
//! - takes the messages out of the link's receiver and passes them on in their order. It stops receiving while the session
//!   cannot take more: the receiver is the only buffer, and what sends to it waits.
//! - passes each message of the session to its [`SessionPort`](super::port::SessionPort), also in their order, and what
//!   that returns back to the session. A host in the same process may ask the port for the outcome of a handler that is
//!   ready at that moment; another one waits for [`ToSession::HandlerDone`].
//! - relies on the session for the answers that a message asks for: `Attached`, `Info`, and `Ended` or `Suspended`, the
//!   last of all. After that it closes the receiver.
//! - drops the port and the receiver if the session is lost. That ends it for its connections and handlers; the
//!   directory removes it when it next looks, or at [`Directory::forget_shard`](super::Directory::forget_shard) where many
//!   are lost together.
//! - does not trust what comes from a process that runs scripts: a message with an unknown number changes nothing in the
//!   link, but its size and rate are the host's to bound.
//!
//! [`ToSession`]: crate::session::boundary::ToSession
//! [`ToSession::HandlerDone`]: crate::session::boundary::ToSession::HandlerDone
//! [`FromSession`]: crate::session::boundary::FromSession

mod local;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) mod process;

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;

use super::Directory;
use super::link::SessionLink;
use crate::binding::SessionScope;
use crate::catalog::Catalog;
use crate::rpc::ErrorObject;
use crate::runtime::RestoredSession;
pub(super) use local::LocalHost;

/// A session to be started.
pub(crate) struct NewSession {
    /// Its id, its principal and where its calls are recorded.
    pub(crate) scope: Arc<SessionScope>,
    /// The server's bindings.
    pub(crate) catalog: Arc<Catalog>,
    /// The image that it goes on from.
    pub(crate) restored: Option<Box<RestoredSession>>,
}

/// A session that was started.
pub(crate) struct HostedSession {
    pub(crate) link: Arc<SessionLink>,
    /// The shard that runs it, for [`Directory::forget_shard`](super::Directory::forget_shard).
    pub(crate) shard: usize,
}

/// Starts sessions. See the module for what it does with them afterwards.
pub(crate) trait SessionHost: Send + Sync {
    /// Starts a session. `Busy` if there is no room for it now.
    fn start(&self, session: NewSession) -> BoxFuture<'_, Result<HostedSession, ErrorObject>>;

    /// Says where forks of its sessions are admitted and registered. A host without this has none.
    fn set_directory(&self, _directory: Weak<Directory>) {}
}
