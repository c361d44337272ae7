//! Sends messages from the threads of the store to a connection.
//!
//! Sending never waits: a client that reads too slowly loses its connection instead of blocking the
//! thread.

use tokio_util::sync::CancellationToken;

use super::codec::{Data, Dialect};
use crate::concurrency::{ByteReceiver, ByteSender, byte_channel};

/// Most messages queued for a connection.
pub(super) const MESSAGES_QUEUED_MAX: usize = 4096;

/// Most bytes of messages queued for a connection: several of the largest messages.
pub(super) const MESSAGES_BYTES_MAX: usize = 64 << 20;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct MessageSender {
    /// Encoded messages.
    messages_tx: ByteSender<String>,
    dialect: Dialect,
    /// Closes the connection.
    close: CancellationToken,
}

pub(super) fn message_channel(close: CancellationToken) -> (MessageSender, ByteReceiver<String>) {
    let (messages_tx, messages_rx) = byte_channel(MESSAGES_QUEUED_MAX, MESSAGES_BYTES_MAX);
    (MessageSender { messages_tx, dialect: Dialect::Tagged, close }, messages_rx)
}

impl MessageSender {
    pub(super) fn with_dialect(&self, dialect: Dialect) -> Self {
        Self { dialect, ..self.clone() }
    }

    /// Sends a message, or closes the connection if too many are queued.
    pub(super) fn send(&self, message: &Data) {
        let text = self.dialect.encode(message);
        let bytes = text.len();
        if self.messages_tx.try_send(text, bytes).is_err() {
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
        assert_eq!(messages_rx.try_recv().as_deref(), Some("fvj1:null"));
    }

    #[test]
    fn connection_is_closed_past_the_byte_limit() {
        let close = CancellationToken::new();
        let (sender, mut messages_rx) = message_channel(close.clone());
        // Encoded, a text has a prefix of five bytes and two quotes.
        sender.send(&Data::Text("x".repeat(MESSAGES_BYTES_MAX - "fvj1:\"\"".len())));
        assert_eq!(sender.messages_tx.queued_bytes(), MESSAGES_BYTES_MAX);
        sender.send(&Data::Null);
        assert!(!close.is_cancelled(), "exactly at the limit");
        sender.send(&Data::Null);
        assert!(close.is_cancelled());
        assert_eq!(messages_rx.try_recv().map(|text| text.len()), Some(MESSAGES_BYTES_MAX));
        assert_eq!(messages_rx.try_recv().as_deref(), Some("fvj1:null"));
        assert_eq!(messages_rx.try_recv(), None);
    }
}
