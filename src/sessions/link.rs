//! The host's end of a session: how connections, handlers and the directory reach it, wherever it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::events::{ConnectionEvent, EventSender};
use crate::binding::{CallbackRequest, CallbackRoute, SessionGone};
use crate::budget::Charge;
use crate::protocol::client_messages::{Closing, ToClient};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Target;
use crate::quota::EvalSlot;
use crate::rpc::ErrorObject;
use crate::session::boundary::{InvokeTarget, SessionInfo, ToSession};

/// Messages that wait for a session.
/// A client's own limit of open requests comes first; this one keeps what handlers and connections send together.
pub(crate) const INBOX_QUEUED_MAX: usize = 2048;

/// What a message of a client is charged with until the session has dealt with it.
#[derive(Debug)]
struct Charged {
    charge: Charge,
    /// Its place among the evals of the principal that wait.
    slot: Option<EvalSlot>,
    is_eval: bool,
}

/// What all messages of clients are charged with that the session has not dealt with.
#[derive(Debug, Default)]
struct Charges {
    by_number: BTreeMap<u64, Charged>,
    evals: usize,
}

impl Charges {
    fn remove(&mut self, number: u64) -> Option<Charged> {
        let charged = self.by_number.remove(&number)?;
        self.evals -= usize::from(charged.is_eval);
        Some(charged)
    }
}

type Reply = oneshot::Sender<Result<Value, ErrorObject>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct SessionLink {
    inbox_tx: mpsc::Sender<ToSession>,
    connections: Mutex<BTreeMap<u64, EventSender>>,
    charges: Mutex<Charges>,
    replies: Mutex<BTreeMap<u64, Reply>>,
    inspections: Mutex<BTreeMap<u64, oneshot::Sender<SessionInfo>>>,
    /// What is to be sent from places that cannot wait.
    unsent: Mutex<Vec<ToSession>>,
    /// Handlers whose outcome may be ready and is not sent: what they drop goes out after it.
    releases_held: AtomicUsize,
    last_number: AtomicU64,
    ended: CancellationToken,
    /// Whether it was stored and goes on elsewhere.
    is_suspended: AtomicBool,
}

/// Why a message was not sent.
pub(crate) enum TrySendError {
    /// The inbox is full; the message comes back.
    Full(Box<ToSession>),
    /// The session has ended.
    Closed,
}

impl SessionLink {
    /// A link, and the session's end of it.
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<ToSession>) {
        Self::with_room_for(INBOX_QUEUED_MAX)
    }

    /// The same with room for `messages_max` in the inbox.
    pub(crate) fn with_room_for(messages_max: usize) -> (Arc<Self>, mpsc::Receiver<ToSession>) {
        let (inbox_tx, inbox_rx) = mpsc::channel(messages_max);
        let link = Self {
            inbox_tx,
            connections: Mutex::default(),
            charges: Mutex::default(),
            replies: Mutex::default(),
            inspections: Mutex::default(),
            unsent: Mutex::default(),
            releases_held: AtomicUsize::new(0),
            last_number: AtomicU64::new(0),
            ended: CancellationToken::new(),
            is_suspended: AtomicBool::new(false),
        };
        (Arc::new(link), inbox_rx)
    }

    /// Numbers of the host begin after this one: a session that was read from its image may name numbers of the host
    /// before.
    pub(super) fn number_from(&self, last_number: u64) {
        self.last_number.fetch_max(last_number, Relaxed);
    }

    /// The session was stored and goes on elsewhere.
    pub(super) fn mark_suspended(&self) {
        self.is_suspended.store(true, Relaxed);
    }

    /// Whether [`Self::mark_suspended`] was called.
    pub(super) fn is_suspended(&self) -> bool {
        self.is_suspended.load(Relaxed)
    }

    /// For a shard that ends its sessions: it does not keep them alive.
    pub(super) fn downgrade_inbox(&self) -> mpsc::WeakSender<ToSession> {
        self.inbox_tx.downgrade()
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Relaxed) + 1
    }

    /// Sends a message, and waits while the inbox is full.
    pub(crate) async fn send(&self, message: ToSession) -> Result<(), SessionGone> {
        self.inbox_tx.send(message).await.map_err(|_| SessionGone)
    }

    /// Sends a message if there is room for it now.
    pub(crate) fn try_send(&self, message: ToSession) -> Result<(), TrySendError> {
        self.inbox_tx.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(message) => TrySendError::Full(Box::new(message)),
            mpsc::error::TrySendError::Closed(_) => TrySendError::Closed,
        })
    }

    /// Sends a message from a place that cannot wait. With a full inbox it goes out when the session next says something,
    /// which a session with a full inbox is about to do.
    fn send_soon(&self, message: ToSession) {
        if let Err(TrySendError::Full(message)) = self.try_send(message) {
            self.unsent.lock().push(*message);
        }
    }

    /// Sends what could not be sent where it arose.
    pub(super) fn flush(&self) {
        let mut unsent = self.unsent.lock();
        if !unsent.is_empty() {
            let messages = std::mem::take(&mut *unsent);
            drop(unsent);
            messages.into_iter().for_each(|message| self.send_soon(message));
        }
    }

    /// Keeps releases back until it is dropped: a handler that returns a function must not release it first.
    pub(super) fn hold_releases(self: &Arc<Self>) -> HeldReleases {
        self.releases_held.fetch_add(1, SeqCst);
        HeldReleases(Arc::clone(self))
    }

    /// Waits for the end of the session.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled() || self.inbox_tx.is_closed()
    }

    /// Whether [`Self::mark_ended`] was called.
    pub(super) fn is_marked_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// The session has ended.
    pub(super) fn mark_ended(&self) {
        self.ended.cancel();
    }

    /// Drops everything that waits for the session, after [`Self::mark_ended`].
    pub(super) fn end(&self) {
        self.connections.lock().clear();
        self.replies.lock().clear();
        self.inspections.lock().clear();
        drop(std::mem::take(&mut *self.charges.lock()));
        self.unsent.lock().clear();
    }

    /// A connection waits for events of the session.
    pub(super) fn connect(&self, connection: u64, events_tx: EventSender) {
        self.connections.lock().insert(connection, events_tx);
        if self.has_ended() {
            self.connections.lock().clear();
        }
    }

    /// A connection waits for nothing any more.
    pub(super) fn disconnect(&self, connection: u64) {
        self.connections.lock().remove(&connection);
    }

    /// Sends an event to a connection; `false` when it is gone or reads too slowly. It then gets nothing more.
    pub(super) fn send_event(&self, connection: u64, event: ConnectionEvent) -> bool {
        let mut connections = self.connections.lock();
        let is_sent = connections.get(&connection).is_some_and(|events_tx| events_tx.send(event));
        if !is_sent {
            connections.remove(&connection);
        }
        is_sent
    }

    /// Closes the connections that wait for events.
    pub(super) fn close_connections(&self, closing: Closing) {
        for events_tx in self.connections.lock().values() {
            // One that does not read is closed in any case.
            let _ = events_tx.send(ConnectionEvent::Session(ToClient::Close(closing)));
        }
    }

    /// Keeps what a message is charged with, under a number that goes with the message.
    pub(crate) fn keep_charge(&self, charge: Charge, slot: Option<EvalSlot>, is_eval: bool) -> u64 {
        if !charge.is_counted() && !is_eval {
            return 0;
        }
        let number = self.next_number();
        let mut charges = self.charges.lock();
        charges.evals += usize::from(is_eval);
        charges.by_number.insert(number, Charged { charge, slot, is_eval });
        number
    }

    /// Whether evals were sent to the session that it has not answered: a further one would wait.
    pub(crate) fn has_open_evals(&self) -> bool {
        self.charges.lock().evals > 0
    }

    /// The session has dealt with a message; with `is_open`, only with its text.
    pub(super) fn discharge(&self, number: u64, is_open: bool) {
        let mut charges = self.charges.lock();
        if is_open {
            if let Some(charged) = charges.by_number.get_mut(&number) {
                charged.charge.release_text();
            }
            return;
        }
        let charged = charges.remove(number);
        drop(charges);
        drop(charged);
    }

    /// An eval does not wait any more.
    pub(super) fn dequeue(&self, number: u64) {
        let slot = self.charges.lock().by_number.get_mut(&number).and_then(|charged| charged.slot.take());
        drop(slot);
    }

    /// Charges further bytes for a message; `false` if there is no room for them.
    pub(super) fn try_grow_charge(&self, number: u64, bytes: usize) -> bool {
        self.charges.lock().by_number.get_mut(&number).is_none_or(|charged| charged.charge.try_grow(bytes))
    }

    /// How the session is doing.
    pub(crate) async fn inspect(&self) -> Option<SessionInfo> {
        let (info_tx, info_rx) = oneshot::channel();
        let request = self.next_number();
        self.inspections.lock().insert(request, info_tx);
        let info = match self.send(ToSession::Inspect { request }).await {
            Ok(()) => {
                tokio::select! {
                    biased;
                    info = info_rx => info.ok(),
                    () = self.inbox_tx.closed() => None,
                }
            }
            Err(SessionGone) => None,
        };
        self.inspections.lock().remove(&request);
        info
    }

    /// The session said how it is doing.
    pub(super) fn answer_inspection(&self, request: u64, info: SessionInfo) {
        if let Some(info_tx) = self.inspections.lock().remove(&request) {
            // The request may have been cancelled.
            let _ = info_tx.send(info);
        }
    }

    /// The session answered a handler's request.
    pub(super) fn answer_handler(&self, request: u64, outcome: Result<Value, ErrorObject>) {
        if let Some(reply_tx) = self.replies.lock().remove(&request) {
            // A handler that was cancelled does not wait any more.
            let _ = reply_tx.send(outcome);
        }
    }
}

/// See [`SessionLink::hold_releases`].
pub(super) struct HeldReleases(Arc<SessionLink>);

impl Drop for HeldReleases {
    fn drop(&mut self) {
        // A release after this finds nothing held, one before it is in the list by now.
        self.0.releases_held.fetch_sub(1, SeqCst);
        self.0.flush();
    }
}

impl CallbackRoute for SessionLink {
    fn send(&self, request: CallbackRequest) -> BoxFuture<'_, Result<u64, SessionGone>> {
        let CallbackRequest { target, payload, depth, script_call, reply_tx } = request;
        let target = match target {
            Target::Binding(name) => InvokeTarget::Binding(name),
            Target::Reference(function) => InvokeTarget::Function(FnRef::parse_or_unknown(&function)),
        };
        let request = self.next_number();
        self.replies.lock().insert(request, reply_tx);
        let message = ToSession::HandlerInvoke { request, target, payload, depth, script_call };
        Box::pin(async move {
            let sent = self.send(message).await;
            if sent.is_err() || self.has_ended() {
                self.replies.lock().remove(&request);
                return Err(SessionGone);
            }
            Ok(request)
        })
    }

    fn cancel(&self, number: u64) {
        if self.replies.lock().remove(&number).is_some() {
            self.send_soon(ToSession::HandlerCancel { request: number });
        }
    }

    /// Goes out after the answer of the handler that dropped it. A function that was kept beyond that goes out
    /// immediately: an idle session would otherwise hold it, and its client would hear nothing.
    fn release(&self, function: FnRef) {
        if self.has_ended() {
            return;
        }
        self.unsent.lock().push(ToSession::HandlerRelease { function, count: 1 });
        if self.releases_held.load(SeqCst) == 0 {
            self.flush();
        }
    }

    fn is_gone(&self) -> bool {
        self.has_ended()
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.ended.cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_function_is_released_while_the_session_is_idle() {
        let (link, mut inbox_rx) = SessionLink::new();
        link.release(FnRef::Script(1));
        assert!(matches!(inbox_rx.try_recv(), Ok(ToSession::HandlerRelease { .. })));
    }

    #[test]
    fn release_waits_for_the_last_answer_of_a_handler() {
        let (link, mut inbox_rx) = SessionLink::new();
        let (first, second) = (link.hold_releases(), link.hold_releases());
        link.release(FnRef::Script(1));
        assert!(inbox_rx.try_recv().is_err());
        drop((first, second));
        assert!(matches!(inbox_rx.try_recv(), Ok(ToSession::HandlerRelease { .. })));
    }
}
