//! What a connection shares between its transport, its calls and its supervisor.
//!
//! The transport sorts what comes in, in order and without a task per message: progress goes to the call it belongs to,
//! a changed list wakes the supervisor, and of requests only a few are let through. So a server that floods us costs its
//! own connection time, and no memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use rmcp::model::{
    ClientRequest, ErrorData, GetExtensions as _, GetMeta as _, JsonRpcMessage, ProgressToken, RequestId,
    ServerNotification,
};
use rmcp::service::{InboundStreamOrigin, RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Requests of a server that are worked on at a time. A server asks during its calls, one question each.
/// Past it: the request is answered with an error.
pub(super) const PEER_REQUESTS_MAX: usize = 16;

/// What happens to a call before its answer. Past it: progress is left out, and questions are declined.
pub(super) const CALL_EVENTS_MAX: usize = 64;

/// What a server sends for one of our calls.
#[derive(Debug)]
pub(super) enum CallEvent {
    /// How far it got.
    Progress(Value),
    /// A question for the person in front of the session's client.
    Elicit { params: Value, reply_tx: oneshot::Sender<Value> },
}

/// The call that a request is sent for. It travels with the request inside of this process.
#[derive(Debug, Clone)]
pub(super) struct CallTag {
    /// The session that made it.
    pub(super) session: Arc<str>,
    pub(super) events_tx: mpsc::Sender<CallEvent>,
}

struct Route {
    request: RequestId,
    tag: CallTag,
}

/// The state of one connection.
#[derive(Default)]
pub(super) struct Routes {
    calls: Mutex<HashMap<ProgressToken, Route>>,
    failure: Mutex<Option<String>>,
    peer_requests: AtomicUsize,
    /// Fires when a list of the server changed.
    pub(super) changed: Notify,
    /// Cancelled when the connection is over.
    pub(super) closed: CancellationToken,
}

impl Routes {
    /// Ends the connection. The first reason is kept.
    pub(super) fn close(&self, reason: &str) {
        self.failure.lock().get_or_insert_with(|| reason.to_owned());
        self.closed.cancel();
    }

    /// Why the connection ended.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// A call is over.
    pub(super) fn remove(&self, token: &ProgressToken) {
        self.calls.lock().remove(token);
    }

    fn register(&self, request: &ClientRequest, id: &RequestId) {
        let token = request.get_meta().get_progress_token();
        if let (Some(tag), Some(token)) = (request.extensions().get::<CallTag>(), token) {
            self.calls.lock().insert(token, Route { request: id.clone(), tag: tag.clone() });
        }
    }

    fn report_progress(&self, token: &ProgressToken, progress: Value) {
        if let Some(route) = self.calls.lock().get(token) {
            // A script that is slower than the server misses some of it.
            let _ = route.tag.events_tx.try_send(CallEvent::Progress(progress));
        }
    }

    /// The call that a question of the server belongs to. Where the transport does not say, it must be clear: a question
    /// must never reach another session.
    pub(super) fn call_of(&self, origin: Option<&InboundStreamOrigin>) -> Option<mpsc::Sender<CallEvent>> {
        let calls = self.calls.lock();
        let route = match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => {
                calls.values().find(|route| route.request == *id)
            }
            Some(InboundStreamOrigin::Unassociated) | None => {
                let mut routes = calls.values();
                let first = routes.next()?;
                routes.all(|route| route.tag.session == first.tag.session).then_some(first)
            }
        };
        route.map(|route| route.tag.events_tx.clone())
    }

    /// Takes one message in; returns what the protocol library has to see of it.
    fn sort(&self, message: RxJsonRpcMessage<RoleClient>) -> Sorted {
        match message {
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let reported = serde_json::to_value(&progress.params).unwrap_or_default();
                    self.report_progress(&progress.params.progress_token, reported);
                    Sorted::Consumed
                }
                ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::PromptListChangedNotification(_)
                | ServerNotification::ResourceListChangedNotification(_) => {
                    self.changed.notify_one();
                    Sorted::Consumed
                }
                ServerNotification::CancelledNotification(_)
                | ServerNotification::SubscriptionsAcknowledgedNotification(_) => {
                    Sorted::Pass(Box::new(JsonRpcMessage::Notification(notification)))
                }
                _ => Sorted::Consumed,
            },
            JsonRpcMessage::Request(request) => {
                let is_free = self.peer_requests.fetch_add(1, Relaxed) < PEER_REQUESTS_MAX;
                match is_free {
                    true => Sorted::Pass(Box::new(JsonRpcMessage::Request(request))),
                    false => Sorted::Refuse(request.id),
                }
            }
            other @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => Sorted::Pass(Box::new(other)),
        }
    }

    fn count_answer(&self) {
        // A rejection by the library is an answer too, and so is ours.
        let _ = self.peer_requests.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    }
}

enum Sorted {
    Pass(Box<RxJsonRpcMessage<RoleClient>>),
    Consumed,
    Refuse(RequestId),
}

/// A transport whose messages pass through [`Routes`].
pub(super) struct Routed<T> {
    inner: T,
    routes: Arc<Routes>,
}

impl<T> Routed<T> {
    pub(super) fn new(inner: T, routes: Arc<Routes>) -> Self {
        Self { inner, routes }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Routed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &item {
            // Before it is sent: progress may come before `send` returns.
            JsonRpcMessage::Request(request) => self.routes.register(&request.request, &request.id),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.routes.count_answer(),
            JsonRpcMessage::Notification(_) => {}
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let received = tokio::select! {
                biased;
                () = self.routes.closed.cancelled() => None,
                received = self.inner.receive() => received,
            };
            let Some(message) = received else {
                self.routes.close("the server closed the connection");
                return None;
            };
            match self.routes.sort(message) {
                Sorted::Pass(message) => return Some(*message),
                Sorted::Consumed => {}
                Sorted::Refuse(id) => {
                    let error = ErrorData::internal_error("too many requests at a time", None);
                    // Whether it arrives is the server's concern; a write that stalls ends the connection.
                    let _ = self.send(JsonRpcMessage::error(error, Some(id))).await;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.routes.close("the connection was closed");
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(routes: &Routes, session: &str, number: i64) -> mpsc::Receiver<CallEvent> {
        let (events_tx, events_rx) = mpsc::channel(CALL_EVENTS_MAX);
        let wire =
            json!({"method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": number}}});
        let mut request: ClientRequest = serde_json::from_value(wire).unwrap();
        request.extensions_mut().insert(CallTag { session: session.into(), events_tx });
        routes.register(&request, &RequestId::Number(number + 100));
        events_rx
    }

    fn receive(routes: &Routes, wire: Value) -> Sorted {
        routes.sort(serde_json::from_value(wire).unwrap())
    }

    fn progress(token: i64, at: usize) -> Value {
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": at}})
    }

    #[test]
    fn progress_reaches_its_call_in_order_and_is_bounded() {
        let routes = Routes::default();
        let mut events = request(&routes, "s", 1);
        for at in 0..CALL_EVENTS_MAX + 10 {
            assert!(matches!(receive(&routes, progress(1, at)), Sorted::Consumed));
        }
        assert!(matches!(receive(&routes, progress(2, 0)), Sorted::Consumed));
        let mut seen = Vec::new();
        while let Ok(CallEvent::Progress(progress)) = events.try_recv() {
            seen.push(progress["progress"].as_f64().unwrap());
        }
        assert_eq!(seen.len(), CALL_EVENTS_MAX);
        assert!(seen.is_sorted());
    }

    #[test]
    fn question_reaches_only_the_session_it_belongs_to() {
        let routes = Routes::default();
        assert!(routes.call_of(None).is_none());
        let (_first, _second) = (request(&routes, "a", 1), request(&routes, "a", 2));
        assert!(routes.call_of(None).is_some());
        let _other = request(&routes, "b", 3);
        assert!(routes.call_of(None).is_none());
        let origin = InboundStreamOrigin::OutboundRequest(RequestId::Number(103));
        assert!(routes.call_of(Some(&origin)).is_some());
        routes.remove(&ProgressToken(RequestId::Number(3)));
        assert!(routes.call_of(Some(&origin)).is_none());
        assert!(routes.call_of(None).is_some());
    }

    #[test]
    fn requests_past_the_limit_are_refused() {
        let routes = Routes::default();
        let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        for id in 0..PEER_REQUESTS_MAX {
            assert!(matches!(receive(&routes, ping(id)), Sorted::Pass(_)));
        }
        assert!(matches!(receive(&routes, ping(99)), Sorted::Refuse(RequestId::Number(99))));
        routes.count_answer();
        routes.count_answer();
        assert!(matches!(receive(&routes, ping(100)), Sorted::Pass(_)));
    }
}
