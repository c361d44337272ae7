//! The bounded channel of frames from a gateway to one connection.
//!
//! The sender never waits: a reader that is too slow is disconnected and does not delay the others.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Frames queued for one connection. A reader that is further behind is disconnected.
pub(crate) const DELIVERIES_QUEUED_MAX: usize = 1024;

/// Memory of the frames queued for one connection, in bytes. A reader that is further behind is
/// disconnected, too: `DELIVERIES_QUEUED_MAX` of the longest messages would take more than a
/// gibibyte.
pub(crate) const DELIVERIES_BYTES_MAX: usize = 64 << 20;

/// The most that one frame counts. A whole session may be longer than `DELIVERIES_BYTES_MAX`; it is
/// queued nevertheless, with room for the frames behind it.
const DELIVERY_BYTES_COUNTED_MAX: usize = DELIVERIES_BYTES_MAX / 2;

#[derive(Debug)]
pub(crate) enum Delivery {
    /// A frame, with the permit for its bytes until it is received.
    Frame(Value, #[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit),
    Close {
        code: u16,
        reason: String,
    },
}

#[derive(Debug)]
pub(crate) struct DeliverySender {
    deliveries_tx: mpsc::Sender<Delivery>,
    room: Arc<Semaphore>,
    /// Cancelled when the queue is full, to disconnect the reader.
    overflow: CancellationToken,
}

pub(crate) fn delivery_channel(overflow: CancellationToken) -> (DeliverySender, mpsc::Receiver<Delivery>) {
    let (deliveries_tx, deliveries_rx) = mpsc::channel(DELIVERIES_QUEUED_MAX);
    let room = Arc::new(Semaphore::new(DELIVERIES_BYTES_MAX));
    (DeliverySender { deliveries_tx, room, overflow }, deliveries_rx)
}

impl DeliverySender {
    /// Sends a frame; returns false, and disconnects the reader, if the queue is full.
    pub(crate) fn send(&self, frame: Value) -> bool {
        let room = self.reserve_room(&frame);
        let is_queued =
            room.is_some_and(|room| self.deliveries_tx.try_send(Delivery::Frame(frame, room)).is_ok());
        if !is_queued {
            self.overflow.cancel();
        }
        is_queued
    }

    /// Closes the connection after the queued frames, or immediately if the queue is full.
    pub(crate) fn close(self, code: u16, reason: String) {
        if self.deliveries_tx.try_send(Delivery::Close { code, reason }).is_err() {
            self.overflow.cancel();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.deliveries_tx.is_closed()
    }

    fn reserve_room(&self, frame: &Value) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(memory_bytes(frame).min(DELIVERY_BYTES_COUNTED_MAX)).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(bytes).ok()
    }
}

/// Estimates the memory of a value, without the overhead of maps and the allocator.
fn memory_bytes(value: &Value) -> usize {
    let nested = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| size_of::<String>() + name.len() + memory_bytes(value)).sum()
        }
    };
    size_of::<Value>() + nested
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a frame of that size in memory.
    fn frame(bytes: usize) -> Value {
        Value::String("x".repeat(bytes - size_of::<Value>()))
    }

    fn open() -> (DeliverySender, mpsc::Receiver<Delivery>, CancellationToken) {
        let overflow = CancellationToken::new();
        let (deliveries, deliveries_rx) = delivery_channel(overflow.clone());
        (deliveries, deliveries_rx, overflow)
    }

    #[test]
    fn reader_past_the_frame_limit_is_disconnected() {
        let (deliveries, _deliveries_rx, overflow) = open();
        (0..DELIVERIES_QUEUED_MAX).for_each(|_| assert!(deliveries.send(Value::Null)));
        assert!(!overflow.is_cancelled());
        assert!(!deliveries.send(Value::Null));
        assert!(overflow.is_cancelled());
    }

    #[test]
    fn reader_one_byte_past_the_limit_is_disconnected() {
        let quarter = DELIVERIES_BYTES_MAX / 4;
        for (last, is_queued) in [(quarter, true), (quarter + 1, false)] {
            let (deliveries, _deliveries_rx, overflow) = open();
            (0..3).for_each(|_| assert!(deliveries.send(frame(quarter))));
            assert_eq!(deliveries.send(frame(last)), is_queued);
            assert_eq!(overflow.is_cancelled(), !is_queued);
        }
    }

    #[test]
    fn received_frame_makes_room() {
        let (deliveries, mut deliveries_rx, _) = open();
        for _ in 0..8 {
            assert!(deliveries.send(frame(DELIVERY_BYTES_COUNTED_MAX)));
            assert!(matches!(deliveries_rx.try_recv(), Ok(Delivery::Frame(..))));
        }
    }

    #[test]
    fn frame_longer_than_the_limit_is_queued_with_the_next() {
        let (deliveries, _deliveries_rx, overflow) = open();
        assert!(deliveries.send(json!({"type": "pong"})));
        assert!(deliveries.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(deliveries.send(json!({"type": "pong"})));
        assert!(!deliveries.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(overflow.is_cancelled());
    }

    #[test]
    fn memory_includes_names_and_nested_values() {
        let value = size_of::<Value>();
        assert_eq!(memory_bytes(&json!(1)), value);
        assert_eq!(memory_bytes(&json!([1, "ab"])), 3 * value + 2);
        assert_eq!(memory_bytes(&json!({"abc": null})), 2 * value + size_of::<String>() + 3);
    }
}
