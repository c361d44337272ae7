//! The bounded channel of frames from a gateway to one connection.
//!
//! The sender never waits: a reader that is too slow is disconnected and does not delay the others.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::concurrency::{ByteReceiver, ByteSender, byte_channel};

/// Frames queued for one connection. A reader that is further behind is disconnected.
pub(crate) const DELIVERIES_QUEUED_MAX: usize = 1024;

/// Memory of the frames queued for one connection, in bytes. A reader with more than that before
/// the next frame is disconnected, too: `DELIVERIES_QUEUED_MAX` of the longest messages would take
/// more than a gibibyte.
pub(crate) const DELIVERIES_BYTES_MAX: usize = 64 << 20;

/// The most that one frame counts. A whole session may be longer than `DELIVERIES_BYTES_MAX`; there
/// is room for the frames behind it nevertheless.
const DELIVERY_BYTES_COUNTED_MAX: usize = DELIVERIES_BYTES_MAX / 2;

#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(Value),
    Close { code: u16, reason: String },
}

#[derive(Debug)]
pub(crate) struct DeliverySender {
    deliveries_tx: ByteSender<Delivery>,
    /// Cancelled when the queue is full, to disconnect the reader.
    overflow: CancellationToken,
}

pub(crate) fn delivery_channel(overflow: CancellationToken) -> (DeliverySender, ByteReceiver<Delivery>) {
    let (deliveries_tx, deliveries_rx) = byte_channel(DELIVERIES_QUEUED_MAX, DELIVERIES_BYTES_MAX);
    (DeliverySender { deliveries_tx, overflow }, deliveries_rx)
}

impl DeliverySender {
    /// Sends a frame; returns false, and disconnects the reader, if the queue is full.
    pub(crate) fn send(&self, frame: Value) -> bool {
        let bytes = memory_bytes(&frame).min(DELIVERY_BYTES_COUNTED_MAX);
        let is_queued = self.deliveries_tx.try_send(Delivery::Frame(frame), bytes).is_ok();
        if !is_queued {
            self.overflow.cancel();
        }
        is_queued
    }

    /// Closes the connection after the queued frames, or immediately if too many are queued.
    pub(crate) fn close(self, code: u16, reason: String) {
        if self.deliveries_tx.try_send(Delivery::Close { code, reason }, 0).is_err() {
            self.overflow.cancel();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.deliveries_tx.is_closed()
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

    fn open() -> (DeliverySender, ByteReceiver<Delivery>, CancellationToken) {
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
    fn reader_with_more_than_the_limit_queued_is_disconnected() {
        let quarter = DELIVERIES_BYTES_MAX / 4;
        for (last, is_queued) in [(quarter, true), (quarter + 1, false)] {
            let (deliveries, _deliveries_rx, overflow) = open();
            (0..3).for_each(|_| assert!(deliveries.send(frame(quarter))));
            assert!(deliveries.send(frame(last)));
            assert!(!overflow.is_cancelled());
            assert_eq!(deliveries.send(Value::Null), is_queued);
            assert_eq!(overflow.is_cancelled(), !is_queued);
        }
    }

    #[test]
    fn received_frame_makes_room() {
        let (deliveries, mut deliveries_rx, _) = open();
        for _ in 0..8 {
            assert!(deliveries.send(frame(DELIVERY_BYTES_COUNTED_MAX)));
            assert!(matches!(deliveries_rx.try_recv(), Some(Delivery::Frame(_))));
        }
    }

    #[test]
    fn frame_longer_than_the_limit_leaves_room_for_the_next() {
        let (deliveries, _deliveries_rx, overflow) = open();
        assert!(deliveries.send(json!({"type": "pong"})));
        assert!(deliveries.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(deliveries.send(json!({"type": "pong"})));
        assert!(deliveries.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(!overflow.is_cancelled());
        assert!(!deliveries.send(json!({"type": "pong"})));
        assert!(overflow.is_cancelled());
    }

    #[test]
    fn close_is_queued_behind_more_than_the_byte_limit() {
        let (deliveries, mut deliveries_rx, overflow) = open();
        (0..3).for_each(|_| assert!(deliveries.send(frame(DELIVERY_BYTES_COUNTED_MAX))));
        deliveries.close(1008, "why".to_owned());
        assert!(!overflow.is_cancelled());
        (0..3).for_each(|_| assert!(matches!(deliveries_rx.try_recv(), Some(Delivery::Frame(_)))));
        assert!(matches!(deliveries_rx.try_recv(), Some(Delivery::Close { code: 1008, .. })));
    }

    #[test]
    fn memory_includes_names_and_nested_values() {
        let value = size_of::<Value>();
        assert_eq!(memory_bytes(&json!(1)), value);
        assert_eq!(memory_bytes(&json!([1, "ab"])), 3 * value + 2);
        assert_eq!(memory_bytes(&json!({"abc": null})), 2 * value + size_of::<String>() + 3);
    }
}
