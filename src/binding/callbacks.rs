//! The way from a handler back to the session, or the program, that called it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::BindingError;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::{Payload, Target};
use crate::rpc::{ErrorObject, Kind};

/// A handler's request to the session that called it.
#[derive(Debug)]
pub(crate) struct CallbackRequest {
    /// A binding of the client or the server, or a function.
    pub target: Target,
    /// With what.
    pub payload: Payload,
    /// How many invokes it is inside of.
    pub depth: u32,
    /// The script's call on whose behalf it is made, by the session's number.
    pub script_call: Option<u64>,
    /// Where the answer goes.
    pub reply_tx: oneshot::Sender<Result<Value, ErrorObject>>,
}

/// The session has ended, or the other side of the connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionGone;

/// Where callbacks lead: to a session of this server, or over a connection.
pub(crate) trait CallbackRoute: std::fmt::Debug + Send + Sync + 'static {
    /// Sends a request; returns a number by which it can be [cancelled](Self::cancel).
    fn send(&self, request: CallbackRequest) -> BoxFuture<'_, Result<u64, SessionGone>>;

    /// The answer to a request is not awaited any more.
    fn cancel(&self, number: u64);

    /// A handler dropped a function that it had received.
    fn release(&self, function: FnRef);

    /// Whether the session has ended.
    fn is_gone(&self) -> bool;

    /// Waits for the end of the session.
    fn gone(&self) -> BoxFuture<'_, ()>;
}

/// The way back, as a handler has it.
#[derive(Debug, Clone)]
pub(crate) struct Callbacks(Arc<dyn CallbackRoute>);

impl Callbacks {
    /// Callbacks along a route.
    pub(crate) fn new(route: Arc<dyn CallbackRoute>) -> Self {
        Self(route)
    }

    /// Callbacks into a channel of that capacity.
    pub(crate) fn channel(capacity: usize) -> (Self, CallbackReceiver) {
        let (requests_tx, requests_rx) = mpsc::channel(capacity);
        let dropped = Arc::<Mutex<Vec<FnRef>>>::default();
        let route = ChannelRoute { requests_tx, dropped: Arc::clone(&dropped) };
        (Self(Arc::new(route)), CallbackReceiver { requests_rx, dropped })
    }

    pub(super) async fn request(
        &self,
        target: Target,
        payload: Payload,
        depth: u32,
        script_call: Option<u64>,
    ) -> Result<Value, BindingError> {
        let gone = || BindingError::of_kind(Kind::PeerGone, "the session is gone");
        let (reply_tx, reply_rx) = oneshot::channel();
        let request = CallbackRequest { target, payload, depth, script_call, reply_tx };
        let number = self.0.send(request).await.map_err(|SessionGone| gone())?;
        let mut cancel = CancelOnDrop { route: &*self.0, number: Some(number) };
        let reply = reply_rx.await;
        cancel.number = None;
        reply.map_err(|_| gone())?.map_err(BindingError::from)
    }

    pub(super) fn release(&self, function: FnRef) {
        self.0.release(function);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    pub(super) async fn gone(&self) {
        self.0.gone().await;
    }
}

/// Cancels a request whose handler stopped waiting for the answer.
struct CancelOnDrop<'a> {
    route: &'a dyn CallbackRoute,
    number: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.route.cancel(number);
        }
    }
}

#[derive(Debug)]
struct ChannelRoute {
    requests_tx: mpsc::Sender<CallbackRequest>,
    dropped: Arc<Mutex<Vec<FnRef>>>,
}

impl CallbackRoute for ChannelRoute {
    fn send(&self, request: CallbackRequest) -> BoxFuture<'_, Result<u64, SessionGone>> {
        Box::pin(async move { self.requests_tx.send(request).await.map(|()| 0).map_err(|_| SessionGone) })
    }

    /// The receiver finds its `reply_tx` closed.
    fn cancel(&self, _: u64) {}

    fn release(&self, function: FnRef) {
        self.dropped.lock().push(function);
    }

    fn is_gone(&self) -> bool {
        self.requests_tx.is_closed()
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.requests_tx.closed())
    }
}

/// The receiving end of [`Callbacks::channel`]. For handlers the session has ended when it is dropped.
#[derive(Debug)]
pub(crate) struct CallbackReceiver {
    /// The requests of handlers.
    pub requests_rx: mpsc::Receiver<CallbackRequest>,
    dropped: Arc<Mutex<Vec<FnRef>>>,
}

impl CallbackReceiver {
    /// Takes the functions that handlers dropped since the last look.
    pub(crate) fn take_dropped(&self) -> Vec<FnRef> {
        std::mem::take(&mut *self.dropped.lock())
    }
}
