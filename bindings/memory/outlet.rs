//! The way from the threads of the store back to a connection.
//!
//! It is never waited at: a reader that is too slow loses its connection, not the others their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::codec::{Data, Dialect};

/// Messages that wait for a connection.
pub(super) const MESSAGES_QUEUED_MAX: usize = 4096;

/// Bytes of messages that wait for a connection: several of the largest ones.
pub(super) const MESSAGES_BYTES_MAX: usize = 64 << 20;

/// A message, ready to be sent.
#[derive(Debug)]
pub(super) struct Message {
    text: String,
    queued_bytes: Arc<AtomicUsize>,
}

impl Message {
    /// The text, which no longer waits then.
    pub(super) fn take_text(&mut self) -> String {
        self.queued_bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
        std::mem::take(&mut self.text)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// Sends messages to one connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    messages_tx: mpsc::Sender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    dialect: Dialect,
    /// Ends the connection.
    end: CancellationToken,
}

/// An outlet, and where its messages come out.
pub(super) fn outlet(end: CancellationToken) -> (Outlet, mpsc::Receiver<Message>) {
    let (messages_tx, messages_rx) = mpsc::channel(MESSAGES_QUEUED_MAX);
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    (Outlet { messages_tx, queued_bytes, dialect: Dialect::Tagged, end }, messages_rx)
}

impl Outlet {
    /// The same for a peer that writes otherwise.
    pub(super) fn speaking(&self, dialect: Dialect) -> Self {
        Self { dialect, ..self.clone() }
    }

    /// Sends a message, or ends the connection if too many wait.
    pub(super) fn send(&self, message: &Data) {
        let text = self.dialect.encode(message);
        let queued = self.queued_bytes.fetch_add(text.len(), Ordering::Relaxed);
        let is_too_much = queued > MESSAGES_BYTES_MAX;
        let message = Message { text, queued_bytes: Arc::clone(&self.queued_bytes) };
        if is_too_much || self.messages_tx.try_send(message).is_err() {
            self.end.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_takes_no_message_is_given_up_one_past_the_limit() {
        let end = CancellationToken::new();
        let (outlet, mut messages_rx) = outlet(end.clone());
        (0..MESSAGES_QUEUED_MAX).for_each(|_| outlet.send(&Data::Null));
        assert!(!end.is_cancelled());
        outlet.send(&Data::Null);
        assert!(end.is_cancelled());
        assert_eq!(messages_rx.try_recv().unwrap().text, "fvj1:null");
    }

    #[test]
    fn a_reader_that_leaves_large_messages_is_given_up_too() {
        let end = CancellationToken::new();
        let (outlet, mut messages_rx) = outlet(end.clone());
        outlet.queued_bytes.store(MESSAGES_BYTES_MAX, Ordering::Relaxed);
        outlet.send(&Data::Null);
        assert!(!end.is_cancelled());
        assert_eq!(messages_rx.try_recv().unwrap().take_text(), "fvj1:null");
        assert_eq!(outlet.queued_bytes.load(Ordering::Relaxed), MESSAGES_BYTES_MAX);
        outlet.queued_bytes.store(MESSAGES_BYTES_MAX + 1, Ordering::Relaxed);
        outlet.send(&Data::Null);
        assert!(end.is_cancelled());
    }
}
