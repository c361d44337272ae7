//! A channel with two limits: how many messages may wait, and how many bytes they may take.
//!
//! A limit on messages alone says nothing about memory, because the peer chooses how long a message is. The sender
//! declares the bytes of a message, and they count until it is received. This is the rule for every queue in the server
//! that counts bytes:
//!
//! - A message is accepted while at most `bytes_max` wait before it. So a message that is longer than the limit still
//!   gets through, and the channel holds at most one message more than its limit. A strict total would save no memory,
//!   because the message exists already when it is sent, and a long one could never be sent at all; how long a message
//!   may be is the business of its reader.
//! - A message that counts for no bytes is refused for the number of messages alone. Those that open, close or
//!   synchronise must not get lost behind a flood of data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

/// A channel for `messages_max` messages and `bytes_max` bytes.
pub(crate) fn byte_channel<T>(messages_max: usize, bytes_max: usize) -> (ByteSender<T>, ByteReceiver<T>) {
    let (messages_tx, messages_rx) = mpsc::channel(messages_max);
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    let sender = ByteSender { messages_tx, queued_bytes: Arc::clone(&queued_bytes), bytes_max };
    (sender, ByteReceiver { messages_rx, queued_bytes })
}

/// Why a message was not sent, with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ByteSendError<T> {
    /// Too many messages or bytes wait.
    #[error("the receiver is too slow")]
    Full(T),
    /// The receiver was dropped.
    #[error("the receiver is gone")]
    Closed(T),
}

/// The sending end of a [`byte_channel`].
#[derive(Debug)]
pub(crate) struct ByteSender<T> {
    messages_tx: mpsc::Sender<(T, usize)>,
    queued_bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl<T> Clone for ByteSender<T> {
    fn clone(&self) -> Self {
        Self {
            messages_tx: self.messages_tx.clone(),
            queued_bytes: Arc::clone(&self.queued_bytes),
            bytes_max: self.bytes_max,
        }
    }
}

impl<T> ByteSender<T> {
    /// Sends a message that counts for `bytes`, and waits while `messages_max` are queued. Bytes are not waited for.
    pub(crate) async fn send(&self, message: T, bytes: usize) -> Result<(), ByteSendError<T>> {
        let Some(reserved) = self.reserve(bytes) else { return Err(ByteSendError::Full(message)) };
        let sent = self.messages_tx.send((message, bytes)).await;
        sent.map_err(|mpsc::error::SendError((message, _))| ByteSendError::Closed(message))?;
        reserved.keep();
        Ok(())
    }

    /// Sends a message that counts for `bytes`, if there is room now.
    pub(crate) fn try_send(&self, message: T, bytes: usize) -> Result<(), ByteSendError<T>> {
        let Some(reserved) = self.reserve(bytes) else { return Err(ByteSendError::Full(message)) };
        self.messages_tx.try_send((message, bytes)).map_err(|error| match error {
            mpsc::error::TrySendError::Full((message, _)) => ByteSendError::Full(message),
            mpsc::error::TrySendError::Closed((message, _)) => ByteSendError::Closed(message),
        })?;
        reserved.keep();
        Ok(())
    }

    /// Bytes that wait for the receiver.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Relaxed)
    }

    /// Whether the receiver was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.messages_tx.is_closed()
    }

    /// Waits until the receiver is dropped.
    #[cfg(test)]
    pub(crate) async fn closed(&self) {
        self.messages_tx.closed().await;
    }

    fn reserve(&self, bytes: usize) -> Option<Reserved<'_>> {
        let before = self.queued_bytes.fetch_add(bytes, Relaxed);
        let reserved = Reserved { queued_bytes: &self.queued_bytes, bytes };
        (bytes == 0 || before <= self.bytes_max).then_some(reserved)
    }
}

/// Bytes that are released again unless their message was queued.
struct Reserved<'a> {
    queued_bytes: &'a AtomicUsize,
    bytes: usize,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.queued_bytes.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// The receiving end of a [`byte_channel`].
#[derive(Debug)]
pub(crate) struct ByteReceiver<T> {
    messages_rx: mpsc::Receiver<(T, usize)>,
    queued_bytes: Arc<AtomicUsize>,
}

impl<T> ByteReceiver<T> {
    /// The next message; `None` when every sender was dropped and the channel is empty.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let received = self.messages_rx.recv().await;
        self.release(received)
    }

    /// [`Self::recv`] for a driver that polls.
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.messages_rx.poll_recv(cx).map(|received| self.release(received))
    }

    /// A message that is queued already.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        let received = self.messages_rx.try_recv().ok();
        self.release(received)
    }

    fn release(&self, received: Option<(T, usize)>) -> Option<T> {
        let (message, bytes) = received?;
        self.queued_bytes.fetch_sub(bytes, Relaxed);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn message_past_the_byte_limit_is_refused_until_one_is_read() {
        let (sender, mut receiver) = byte_channel(8, 10);
        assert_eq!(sender.try_send('a', 10), Ok(()));
        // Ten bytes wait, which is the limit: one more message gets through, however long it is.
        assert_eq!(sender.try_send('b', 99), Ok(()));
        assert_eq!(sender.try_send('c', 1), Err(ByteSendError::Full('c')));
        assert_eq!(sender.queued_bytes(), 109);
        assert_eq!(receiver.try_recv(), Some('a'));
        assert_eq!(sender.try_send('c', 1), Err(ByteSendError::Full('c')));
        assert_eq!(receiver.try_recv(), Some('b'));
        assert_eq!(sender.try_send('c', 1), Ok(()));
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Some('c'), None));
        assert_eq!(sender.queued_bytes(), 0);
    }

    #[test]
    fn message_without_bytes_is_accepted_past_the_byte_limit() {
        let (sender, mut receiver) = byte_channel(2, 10);
        assert_eq!(sender.try_send('a', 11), Ok(()));
        assert_eq!(sender.try_send('b', 1), Err(ByteSendError::Full('b')));
        assert_eq!(sender.try_send('c', 0), Ok(()));
        assert_eq!(
            sender.try_send('d', 0),
            Err(ByteSendError::Full('d')),
            "the number of messages is a limit"
        );
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Some('a'), Some('c')));
    }

    #[test]
    fn message_past_the_count_limit_is_refused_and_not_counted() {
        let (sender, mut receiver) = byte_channel(1, 10);
        assert_eq!(sender.try_send('a', 1), Ok(()));
        assert_eq!(sender.try_send('b', 1), Err(ByteSendError::Full('b')));
        assert_eq!(sender.queued_bytes(), 1);
        assert_eq!(receiver.recv().now_or_never(), Some(Some('a')));
    }

    #[test]
    fn sender_waits_for_a_place_but_not_for_bytes() {
        let (sender, mut receiver) = byte_channel(1, 10);
        assert_eq!(sender.send('a', 1).now_or_never(), Some(Ok(())));
        assert_eq!(sender.send('b', 1).now_or_never(), None);
        // The wait was given up, so its bytes are free again.
        assert_eq!(sender.queued_bytes(), 1);
        assert_eq!(receiver.try_recv(), Some('a'));
        assert_eq!(sender.send('b', 11).now_or_never(), Some(Ok(())));
        assert_eq!(sender.send('c', 1).now_or_never(), Some(Err(ByteSendError::Full('c'))));
    }

    #[test]
    fn dropped_receiver_closes_the_channel() {
        let (sender, receiver) = byte_channel(1, 10);
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.try_send('a', 1), Err(ByteSendError::Closed('a')));
        assert_eq!(sender.send('a', 1).now_or_never(), Some(Err(ByteSendError::Closed('a'))));
        assert_eq!(sender.queued_bytes(), 0);
    }

    #[test]
    fn dropped_senders_end_the_channel_after_its_messages() {
        let (sender, mut receiver) = byte_channel(1, 10);
        assert_eq!(sender.clone().try_send('a', 1), Ok(()));
        drop(sender);
        let mut poll = || receiver.poll_recv(&mut Context::from_waker(std::task::Waker::noop()));
        assert_eq!((poll(), poll()), (Poll::Ready(Some('a')), Poll::Ready(None)));
    }
}
