//! Sends messages from the threads of the store to a connection.
//!
//! Sending never waits: a client that reads too slowly loses its connection instead of blocking the
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::codec::{Data, Dialect};

/// Most messages queued for a connection.
pub(super) const MESSAGES_QUEUED_MAX: usize = 4096;

/// Most bytes of messages queued for a connection: several of the largest messages.
pub(super) const MESSAGES_BYTES_MAX: usize = 64 << 20;

/// An encoded message; counts as queued until its text is taken or it is dropped.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    text: String,
    queued_bytes: Arc<AtomicUsize>,
}

impl QueuedMessage {
    pub(super) fn take_text(&mut self) -> String {
        self.queued_bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
        std::mem::take(&mut self.text)
    }
}

impl Drop for QueuedMessage {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct MessageSender {
    messages_tx: mpsc::Sender<QueuedMessage>,
    queued_bytes: Arc<AtomicUsize>,
    dialect: Dialect,
    /// Closes the connection.
    close: CancellationToken,
}

pub(super) fn message_channel(close: CancellationToken) -> (MessageSender, mpsc::Receiver<QueuedMessage>) {
    let (messages_tx, messages_rx) = mpsc::channel(MESSAGES_QUEUED_MAX);
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    (MessageSender { messages_tx, queued_bytes, dialect: Dialect::Tagged, close }, messages_rx)
}

impl MessageSender {
    pub(super) fn with_dialect(&self, dialect: Dialect) -> Self {
        Self { dialect, ..self.clone() }
    }

    /// Sends a message, or closes the connection if too many are queued.
    pub(super) fn send(&self, message: &Data) {
        let text = self.dialect.encode(message);
        let queued = self.queued_bytes.fetch_add(text.len(), Ordering::Relaxed);
        let is_full = queued > MESSAGES_BYTES_MAX;
        let message = QueuedMessage { text, queued_bytes: Arc::clone(&self.queued_bytes) };
        if is_full || self.messages_tx.try_send(message).is_err() {
            self.close.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_is_closed_past_the_message_limit() {
        let close = CancellationToken::new();
        let (sender, mut messages_rx) = message_channel(close.clone());
        (0..MESSAGES_QUEUED_MAX).for_each(|_| sender.send(&Data::Null));
        assert!(!close.is_cancelled());
        sender.send(&Data::Null);
        assert!(close.is_cancelled());
        assert_eq!(messages_rx.try_recv().unwrap().text, "fvj1:null");
    }

    #[test]
    fn connection_is_closed_past_the_byte_limit() {
        let close = CancellationToken::new();
        let (sender, mut messages_rx) = message_channel(close.clone());
        sender.queued_bytes.store(MESSAGES_BYTES_MAX, Ordering::Relaxed);
        sender.send(&Data::Null);
        assert!(!close.is_cancelled());
        assert_eq!(messages_rx.try_recv().unwrap().take_text(), "fvj1:null");
        assert_eq!(sender.queued_bytes.load(Ordering::Relaxed), MESSAGES_BYTES_MAX);
        sender.queued_bytes.store(MESSAGES_BYTES_MAX + 1, Ordering::Relaxed);
        sender.send(&Data::Null);
        assert!(close.is_cancelled());
    }
}
