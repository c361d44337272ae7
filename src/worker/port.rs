//! The way of a worker's sessions to the server: one buffer, which a task writes to the socket.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::Interest;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

use super::catalogs;
use super::codec::write_frame;
use super::frame::FromWorker;
use crate::catalog::Catalog;
use crate::protocol::client_messages::Closing;
use crate::rpc::ErrorObject;
use crate::runtime::Port;
use crate::session::boundary::{FromSession, HandlerCall, ToSession};

/// Bytes that wait to be written. Past it the worker stands still until the server has read: the server always reads, so
/// that is a moment.
const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// How long the worker stands still before it tries to write again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Messages to the server.
pub(super) struct Outbox {
    socket: OwnedWriteHalf,
    buffer: RefCell<Vec<u8>>,
    filled: Notify,
}

impl Outbox {
    pub(super) fn new(socket: OwnedWriteHalf) -> Rc<Self> {
        Rc::new(Self { socket, buffer: RefCell::default(), filled: Notify::new() })
    }

    /// Sends a message as soon as the event loop gets to it.
    pub(super) fn send(&self, message: &FromWorker) {
        let mut buffer = self.buffer.borrow_mut();
        if let Err(error) = write_frame(&mut buffer, message) {
            // The server sees a session that does not answer, and its limits end that.
            tracing::error!(%error, "a message to the server could not be written");
        }
        while buffer.len() > OUTBOX_BYTES_MAX && self.write_some(&mut buffer).is_ok() {
            if buffer.len() > OUTBOX_BYTES_MAX {
                std::thread::sleep(FULL_PAUSE);
            }
        }
        self.filled.notify_one();
    }

    /// Writes what the socket takes now.
    fn write_some(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.socket.try_write(buffer) {
                Ok(written) => drop(buffer.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes until the socket is closed.
    pub(super) async fn write_all(&self) -> io::Result<()> {
        loop {
            let is_empty = self.buffer.borrow().is_empty();
            if is_empty {
                self.filled.notified().await;
            } else {
                self.socket.ready(Interest::WRITABLE).await?;
            }
            self.write_some(&mut self.buffer.borrow_mut())?;
        }
    }
}

/// The way of one session. Dropped before the session has said that it ended, it says so.
pub(super) struct WorkerPort {
    session: u64,
    outbox: Rc<Outbox>,
    has_ended: Cell<bool>,
}

impl WorkerPort {
    pub(super) fn new(session: u64, outbox: Rc<Outbox>) -> Self {
        Self { session, outbox, has_ended: Cell::new(false) }
    }

    /// There is no session to end.
    pub(super) fn forget(&self) {
        self.has_ended.set(true);
    }
}

impl Port for WorkerPort {
    fn send(&self, mut message: FromSession) -> Option<ToSession> {
        if matches!(message, FromSession::Ended { .. } | FromSession::Suspended { .. }) {
            self.has_ended.set(true);
        }
        if let Some((server, client)) = catalogs::in_description(&mut message) {
            // The server has both.
            *server = Arc::new(Catalog::named(server.version()));
            *client = Arc::default();
        }
        self.outbox.send(&FromWorker::Session { session: self.session, message });
        None
    }

    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        self.send(FromSession::CallHandler(call));
        None
    }

    fn is_closed(&self) -> bool {
        false
    }
}

impl Drop for WorkerPort {
    fn drop(&mut self) {
        if !self.has_ended.get() {
            self.send(FromSession::Ended { connection: None, closing: Closing::Fault });
        }
    }
}
