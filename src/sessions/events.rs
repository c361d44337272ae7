//! The way from a session to one of its connections, with the bytes on it counted.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::concurrency::{ByteReceiver, ByteSender, byte_channel};
use crate::protocol::client_messages::ToClient;
use crate::protocol::shape::tree_bytes;
use crate::runtime::{Claim, MemoryTotal};

/// Bytes of answers that may wait for a connection before it counts as a slow reader and is closed.
pub(crate) const BACKLOG_BYTES_MAX: usize = 32 << 20;

/// What an event counts beside its content.
const EVENT_BYTES: usize = 256;

/// Events that wait for the connection. The bytes are the limit that is reached first.
const EVENTS_QUEUED_MAX: usize = BACKLOG_BYTES_MAX / EVENT_BYTES + 2;

/// Larger events are claimed from the memory of all sessions while they wait. Where there is no room left, a connection
/// that has more than this waiting already is closed as a slow reader: many of them would take what the others need.
/// Small enough that twenty thousand connections below it fit into a gigabyte.
const UNCLAIMED_BYTES_MAX: usize = 64 << 10;

/// Something for a connection.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The session is attached; evals that wait or run in it.
    Attached(usize),
    /// For the client.
    Session(ToClient),
}

/// The session's end.
#[derive(Debug)]
pub(crate) struct EventSender {
    events_tx: ByteSender<QueuedEvent>,
    memory: Arc<MemoryTotal>,
}

/// An event on its way, with its part of the memory of all sessions if it is large.
#[derive(Debug)]
struct QueuedEvent {
    event: ConnectionEvent,
    _claim: Option<Claim>,
}

/// The connection's end.
#[derive(Debug)]
pub(crate) struct EventReceiver {
    events_rx: ByteReceiver<QueuedEvent>,
}

/// A way for events; large ones draw on `memory`.
pub(crate) fn event_channel(memory: &Arc<MemoryTotal>) -> (EventSender, EventReceiver) {
    let (events_tx, events_rx) = byte_channel(EVENTS_QUEUED_MAX, BACKLOG_BYTES_MAX);
    (EventSender { events_tx, memory: Arc::clone(memory) }, EventReceiver { events_rx })
}

fn weight(event: &ConnectionEvent) -> usize {
    let ConnectionEvent::Session(event) = event else { return EVENT_BYTES };
    match event {
        ToClient::Answered { outcome: Ok(result), .. } => EVENT_BYTES + result.get().len(),
        ToClient::Answered { outcome: Err(error), .. } => {
            EVENT_BYTES + error.message.len() + error.data.as_ref().map_or(0, tree_bytes)
        }
        ToClient::Call { payload, .. } => EVENT_BYTES + payload.text_bytes(),
        ToClient::GiveUp { .. } | ToClient::Release { .. } | ToClient::Close(_) => EVENT_BYTES,
    }
}

impl EventSender {
    /// Sends an event; `false` when the connection is gone or reads too slowly, which is the same to a session.
    pub(crate) fn send(&self, event: ConnectionEvent) -> bool {
        let bytes = weight(&event);
        let is_large = bytes > UNCLAIMED_BYTES_MAX;
        let claim = is_large.then(|| Claim::new(&self.memory, bytes)).flatten();
        let is_short = is_large && claim.is_none();
        if is_short && self.events_tx.queued_bytes() > UNCLAIMED_BYTES_MAX {
            return false;
        }
        self.events_tx.try_send(QueuedEvent { event, _claim: claim }, bytes).is_ok()
    }
}

impl EventReceiver {
    /// The next event; `None` when the session is gone or gave the connection up.
    pub(crate) async fn recv(&mut self) -> Option<ConnectionEvent> {
        self.events_rx.recv().await.map(|queued| queued.event)
    }

    /// The next event, as [`Self::recv`].
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        self.events_rx.poll_recv(cx).map(|queued| queued.map(|queued| queued.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Id;

    fn answer(bytes: usize) -> ConnectionEvent {
        let text = format!("\"{}\"", "x".repeat(bytes));
        let result = serde_json::value::RawValue::from_string(text).unwrap();
        ConnectionEvent::Session(ToClient::Answered { request: Id::Number(1), outcome: Ok(result) })
    }

    #[tokio::test]
    async fn slow_reader_is_refused_when_the_memory_of_all_is_used_up() {
        let memory = MemoryTotal::new(3 << 20);
        let (slow, mut waiting) = event_channel(&memory);
        assert!(slow.send(answer(1 << 20)) && slow.send(answer(1 << 20)));
        assert!(!slow.send(answer(1 << 20)));
        // A connection that reads gets its answer however much waits for others.
        let (quick, mut read) = event_channel(&memory);
        assert!(quick.send(answer(2 << 20)));
        assert!(read.recv().await.is_some());
        assert!(waiting.recv().await.is_some() && waiting.recv().await.is_some());
        assert_eq!(memory.drawn(), 0);
    }

    #[tokio::test]
    async fn small_events_are_refused_by_their_bytes() {
        let (sender, _receiver) = event_channel(&MemoryTotal::new(usize::MAX));
        let sent = (0..EVENTS_QUEUED_MAX).take_while(|_| sender.send(ConnectionEvent::Attached(0))).count();
        assert_eq!(sent, BACKLOG_BYTES_MAX / EVENT_BYTES + 1);
    }

    #[tokio::test]
    async fn events_of_an_ended_connection_are_released() {
        let memory = MemoryTotal::new(3 << 20);
        let (sender, receiver) = event_channel(&memory);
        assert!(sender.send(answer(1 << 20)));
        assert!(memory.drawn() > 1 << 20);
        drop((sender, receiver));
        assert_eq!(memory.drawn(), 0);
    }
}
