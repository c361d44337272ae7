//! The way from a gateway to a connection, for what waits until it is read.
//!
//! It is never waited at: a reader that is too slow loses its connection, not the others their time.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Frames that wait for one connection. A reader that is this far behind is disconnected.
pub(crate) const DELIVERIES_QUEUED_MAX: usize = 1024;

/// Bytes of memory that the frames which wait for one connection take. A reader that is this far behind is
/// disconnected, too: as many frames of the longest messages would be a gibibyte and more.
pub(crate) const DELIVERIES_BYTES_MAX: usize = 64 << 20;

/// What one frame counts for at most. A whole session may be longer than all the room; it is taken nevertheless, and
/// what comes right behind it as well.
const DELIVERY_BYTES_COUNTED_MAX: usize = DELIVERIES_BYTES_MAX / 2;

/// What a connection is told.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A frame, with the room that it takes until it is taken out.
    Frame(Value, #[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit),
    Close {
        code: u16,
        reason: String,
    },
}

/// The gateway's end of it.
#[derive(Debug)]
pub(crate) struct Outlet {
    deliveries_tx: mpsc::Sender<Delivery>,
    room: Arc<Semaphore>,
    /// Fires when the connection must end, because it does not take what it gets.
    overrun: CancellationToken,
}

/// An outlet, and where its deliveries come out.
pub(crate) fn outlet(overrun: CancellationToken) -> (Outlet, mpsc::Receiver<Delivery>) {
    let (deliveries_tx, deliveries_rx) = mpsc::channel(DELIVERIES_QUEUED_MAX);
    let room = Arc::new(Semaphore::new(DELIVERIES_BYTES_MAX));
    (Outlet { deliveries_tx, room, overrun }, deliveries_rx)
}

impl Outlet {
    /// Sends a frame; false if too much waits already, which ends the connection.
    pub(crate) fn send(&self, frame: Value) -> bool {
        let room = self.room_for(&frame);
        let is_taken =
            room.is_some_and(|room| self.deliveries_tx.try_send(Delivery::Frame(frame, room)).is_ok());
        if !is_taken {
            self.overrun.cancel();
        }
        is_taken
    }

    /// Ends the connection, after what it was sent if there is room to say so.
    pub(crate) fn close(self, code: u16, reason: String) {
        if self.deliveries_tx.try_send(Delivery::Close { code, reason }).is_err() {
            self.overrun.cancel();
        }
    }

    /// Whether nobody is at the other end.
    pub(crate) fn is_closed(&self) -> bool {
        self.deliveries_tx.is_closed()
    }

    fn room_for(&self, frame: &Value) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes(frame).min(DELIVERY_BYTES_COUNTED_MAX)).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(bytes).ok()
    }
}

/// What a value takes in memory, but for what maps and the allocator add.
fn bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| size_of::<String>() + name.len() + bytes(value)).sum()
        }
    };
    size_of::<Value>() + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A frame that takes so much.
    fn frame(bytes: usize) -> Value {
        Value::String("x".repeat(bytes - size_of::<Value>()))
    }

    fn open() -> (Outlet, mpsc::Receiver<Delivery>, CancellationToken) {
        let overrun = CancellationToken::new();
        let (outlet, deliveries_rx) = outlet(overrun.clone());
        (outlet, deliveries_rx, overrun)
    }

    #[test]
    fn a_reader_that_takes_no_frame_is_given_up_one_past_the_limit() {
        let (outlet, _deliveries_rx, overrun) = open();
        (0..DELIVERIES_QUEUED_MAX).for_each(|_| assert!(outlet.send(Value::Null)));
        assert!(!overrun.is_cancelled());
        assert!(!outlet.send(Value::Null));
        assert!(overrun.is_cancelled());
    }

    #[test]
    fn a_reader_that_leaves_long_frames_is_given_up_one_byte_past_the_limit() {
        let quarter = DELIVERIES_BYTES_MAX / 4;
        for (last, is_taken) in [(quarter, true), (quarter + 1, false)] {
            let (outlet, _deliveries_rx, overrun) = open();
            (0..3).for_each(|_| assert!(outlet.send(frame(quarter))));
            assert_eq!(outlet.send(frame(last)), is_taken);
            assert_eq!(overrun.is_cancelled(), !is_taken);
        }
    }

    #[test]
    fn what_is_taken_out_makes_room() {
        let (outlet, mut deliveries_rx, _) = open();
        for _ in 0..8 {
            assert!(outlet.send(frame(DELIVERY_BYTES_COUNTED_MAX)));
            assert!(matches!(deliveries_rx.try_recv(), Ok(Delivery::Frame(..))));
        }
    }

    #[test]
    fn a_frame_longer_than_all_the_room_is_taken_and_what_comes_behind_it_too() {
        let (outlet, _deliveries_rx, overrun) = open();
        assert!(outlet.send(json!({"type": "pong"})));
        assert!(outlet.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(outlet.send(json!({"type": "pong"})));
        assert!(!outlet.send(frame(DELIVERIES_BYTES_MAX + 1)));
        assert!(overrun.is_cancelled());
    }

    #[test]
    fn names_and_all_that_is_inside_count() {
        let value = size_of::<Value>();
        assert_eq!(bytes(&json!(1)), value);
        assert_eq!(bytes(&json!([1, "ab"])), 3 * value + 2);
        assert_eq!(bytes(&json!({"abc": null})), 2 * value + size_of::<String>() + 3);
    }
}
