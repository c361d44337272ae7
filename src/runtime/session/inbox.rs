//! What reaches a session, and the handle through which it does.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::super::total::{Claim, MemoryTotal};
use crate::budget::Charge;
use crate::concurrency::{ByteReceiver, ByteSender, byte_channel};
use crate::protocol::boundary::{Closing, SessionCommand, SessionEvent};
use crate::protocol::declaration::Declaration;
use crate::protocol::shape::tree_bytes;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::FunctionParam;
use crate::schema::{Schema, SchemaBudget};

/// Messages that wait for a session.
/// A client's own limit of open requests comes first; this one keeps what handlers and connections send together.
pub(crate) const INBOX_QUEUED_MAX: usize = 2048;

/// Events that wait for the connection. They are written as fast as the socket takes them.
pub(crate) const EVENTS_QUEUED_MAX: usize = 1024;

/// Bytes of answers that may wait for a connection before it counts as a slow reader and is closed.
pub(crate) const BACKLOG_BYTES_MAX: usize = 32 << 20;

/// Larger events are claimed from the memory of all sessions while they wait. Where there is no room left, a connection
/// that has more than this waiting already is closed as a slow reader: many of them would take what the others need.
/// Small enough that twenty thousand connections below it fit into a gigabyte.
const UNCLAIMED_BYTES_MAX: usize = 64 << 10;

/// Something for a session to act on.
#[derive(Debug)]
pub(crate) enum Inbox {
    /// A connection takes the session.
    Attach(Attachment),
    /// From the connection of that number, which is charged for it until it is answered.
    Command(u64, SessionCommand, Charge),
    /// The connection of that number is gone.
    Detach(u64),
    /// A server binding that the script called is done.
    CallDone(u64, Result<Value, ErrorObject>),
    /// A request of the client to a server binding is done.
    InvokeDone(u64, Result<Value, ErrorObject>),
    /// The handler that made this call to the client stopped waiting for it.
    CallWithdrawn(u64),
    /// The session is to end.
    End(Closing),
    /// How is it doing?
    Inspect(oneshot::Sender<SessionInfo>),
}

/// A session's state for the operator.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Whether an eval runs.
    pub running: bool,
    /// Evals that wait.
    pub evals_queued: usize,
    /// Evals that ran.
    pub evals_done: u64,
    /// Bytes of the JavaScript heap.
    pub memory_bytes: u64,
    /// CPU time used in all.
    pub cpu_ms: u64,
    /// Binding calls in flight.
    pub calls_in_flight: usize,
    /// Pending timers.
    pub timers: usize,
    /// Functions of the script that the client holds.
    pub functions_held: usize,
    /// Functions of the client that the script holds.
    pub functions_imported: usize,
}

/// A client's binding, checked.
#[derive(Debug)]
pub struct ClientBinding {
    /// As it was declared.
    pub declaration: Declaration,
    /// Checks what the script passes.
    pub input: Option<Schema>,
    /// Checks what the client answers.
    pub output: Option<Schema>,
    /// Where typed functions stand in the input.
    pub places: Vec<FunctionParam>,
    /// How long a call may take, if the declaration says so.
    pub timeout: Option<Duration>,
}

/// A connection that holds a session.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Its number: higher than that of any before it.
    pub(crate) number: u64,
    /// Where events go.
    pub(crate) events_tx: EventSender,
    /// What the client declared.
    pub(crate) bindings: Vec<ClientBinding>,
    /// What its schemas are charged to.
    pub(crate) schema_budget: SchemaBudget,
}

/// The way from a session to its connection, with the bytes on it counted.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    events_tx: ByteSender<QueuedEvent>,
    memory: Arc<MemoryTotal>,
}

/// An event on its way, with its part of the memory of all sessions if it is large.
#[derive(Debug)]
struct QueuedEvent {
    event: SessionEvent,
    _claim: Option<Claim>,
}

/// The connection's end of it.
#[derive(Debug)]
pub(crate) struct EventReceiver {
    events_rx: ByteReceiver<QueuedEvent>,
}

/// A way for events; large ones draw on `memory`.
pub(crate) fn event_channel(memory: &Arc<MemoryTotal>) -> (EventSender, EventReceiver) {
    let (events_tx, events_rx) = byte_channel(EVENTS_QUEUED_MAX, BACKLOG_BYTES_MAX);
    (EventSender { events_tx, memory: Arc::clone(memory) }, EventReceiver { events_rx })
}

/// What an event counts beside its content.
const EVENT_BYTES: usize = 256;

fn weight(event: &SessionEvent) -> usize {
    match event {
        SessionEvent::Answered { outcome: Ok(result), .. } => EVENT_BYTES + result.get().len(),
        SessionEvent::Answered { outcome: Err(error), .. } => {
            EVENT_BYTES + error.message.len() + error.data.as_ref().map_or(0, tree_bytes)
        }
        SessionEvent::Call { payload, .. } => EVENT_BYTES + payload.text_bytes(),
        SessionEvent::GiveUp { .. } | SessionEvent::Release { .. } | SessionEvent::Close(_) => EVENT_BYTES,
    }
}

impl EventSender {
    /// Sends an event; `false` when the connection is gone or reads too slowly, which is the same to a session.
    pub(crate) async fn send(&self, event: SessionEvent) -> bool {
        let bytes = weight(&event);
        let is_large = bytes > UNCLAIMED_BYTES_MAX;
        let claim = is_large.then(|| Claim::new(&self.memory, bytes)).flatten();
        let is_short = is_large && claim.is_none();
        if is_short && self.events_tx.queued_bytes() > UNCLAIMED_BYTES_MAX {
            return false;
        }
        self.events_tx.send(QueuedEvent { event, _claim: claim }, bytes).await.is_ok()
    }
}

impl EventReceiver {
    /// The next event; `None` when the session is gone or gave the connection up.
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<SessionEvent>> {
        self.events_rx.poll_recv(cx).map(|queued| queued.map(|queued| queued.event))
    }

    /// An event that is queued already.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<SessionEvent> {
        self.events_rx.try_recv().map(|queued| queued.event)
    }
}

/// Why a message was not sent.
pub(crate) enum TrySendError {
    /// The inbox is full; the message comes back.
    Full(Inbox),
    /// The session has ended.
    Closed,
}

/// How others reach a session.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    pub(crate) inbox_tx: mpsc::Sender<Inbox>,
}

impl SessionHandle {
    /// Sends a message; an error when the session is gone.
    pub(crate) async fn send(&self, message: Inbox) -> Result<(), ErrorObject> {
        let gone = |_| ErrorObject::new(Kind::SessionClosed, "the session is gone");
        self.inbox_tx.send(message).await.map_err(gone)
    }

    /// Sends a message if there is room for it now.
    pub(crate) fn try_send(&self, message: Inbox) -> Result<(), TrySendError> {
        self.inbox_tx.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(message) => TrySendError::Full(message),
            mpsc::error::TrySendError::Closed(_) => TrySendError::Closed,
        })
    }

    /// How the session is doing.
    pub async fn inspect(&self) -> Option<SessionInfo> {
        let (info_tx, info_rx) = oneshot::channel();
        self.inbox_tx.send(Inbox::Inspect(info_tx)).await.ok()?;
        tokio::select! {
            biased;
            info = info_rx => info.ok(),
            // A message that slips in while the session ends is neither answered nor dropped: this handle keeps it.
            () = self.inbox_tx.closed() => None,
        }
    }

    /// Whether the session is gone.
    pub fn is_gone(&self) -> bool {
        self.inbox_tx.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Id;

    fn answer(bytes: usize) -> SessionEvent {
        let text = format!("\"{}\"", "x".repeat(bytes));
        let result = serde_json::value::RawValue::from_string(text).unwrap();
        SessionEvent::Answered { request: Id::Number(1), outcome: Ok(result) }
    }

    #[tokio::test]
    async fn slow_reader_is_given_up_when_the_memory_of_all_is_used_up() {
        let memory = MemoryTotal::new(3 << 20);
        let (slow, mut waiting) = event_channel(&memory);
        assert!(slow.send(answer(1 << 20)).await && slow.send(answer(1 << 20)).await);
        assert!(!slow.send(answer(1 << 20)).await);
        // A connection that reads gets its answer however much waits for others.
        let (quick, mut read) = event_channel(&memory);
        assert!(quick.send(answer(2 << 20)).await);
        assert!(read.try_recv().is_some());
        assert!(waiting.try_recv().is_some() && waiting.try_recv().is_some());
        assert_eq!(memory.drawn(), 0);
    }

    #[tokio::test]
    async fn events_of_an_ended_connection_are_given_back() {
        let memory = MemoryTotal::new(3 << 20);
        let (sender, receiver) = event_channel(&memory);
        assert!(sender.send(answer(1 << 20)).await);
        assert!(memory.drawn() > 1 << 20);
        drop((sender, receiver));
        assert_eq!(memory.drawn(), 0);
    }
}
