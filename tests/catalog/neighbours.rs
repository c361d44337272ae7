//! Texts about many bindings do not hold up the other sessions of a shard.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use scomp::binding::{BindingLimits, handler};
use scomp::client::Client;
use scomp::limits::Limits;
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::server::Server;
use scomp::transport::{Frame, Outgoing, PairEnd, TransportError, pair};
use serde_json::{Value, json};

const DECLARATIONS: usize = 2_000;

/// Calls of the neighbour that have to be served between a request and its answer. With all declarations in one go it is
/// one or two, however slow the machine is; in slices it is more than thirty.
const SERVED_MIN: usize = 10;

/// A connection that notes how many calls of the neighbour were served when a request about bindings came in, and how many
/// when its answer went out. Both happen on the thread of the shard.
struct Noting {
    inner: PairEnd,
    served: Arc<AtomicUsize>,
    at_request: Arc<AtomicUsize>,
    between: Arc<AtomicUsize>,
}

impl Stream for Noting {
    type Item = Result<Frame, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(Frame::Text(_)))) = &polled {
            self.at_request.store(self.served.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        polled
    }
}

impl Sink<Outgoing> for Noting {
    type Error = TransportError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.inner.poll_ready_unpin(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Outgoing) -> Result<(), TransportError> {
        let between = self.served.load(Ordering::Relaxed) - self.at_request.load(Ordering::Relaxed);
        self.between.store(between, Ordering::Relaxed);
        self.inner.start_send_unpin(item)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.inner.poll_flush_unpin(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.inner.poll_close_unpin(cx)
    }
}

/// A server on one shard with many bindings, and `tick`, which counts.
fn server(served: &Arc<AtomicUsize>) -> Server {
    let (served, idle) = (Arc::clone(served), handler(|_, _| async { Ok(Value::Null) }));
    let tick = handler(move |_, _| {
        served.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            Ok(Value::Null)
        }
    });
    let limits = BindingLimits::default;
    let mut package = Package::new("many").with(Declaration::named("tick"), limits(), tick);
    for at in 0..DECLARATIONS {
        let mut declaration = Declaration::named(format!("tool.number{at}"));
        declaration.description = Some(format!("Does what number {at} does."));
        declaration.input =
            Some(json!({"properties": {"id": {"type": "string"}, "count": {"type": "integer"}}}));
        package = package.with(declaration, limits(), Arc::clone(&idle));
    }
    // The neighbour goes on until it is cancelled.
    let limits = Limits { calls_per_eval_max: 1 << 40, ..Limits::default() };
    Server::builder().shards(1).package(package).limits(limits).build().unwrap()
}

/// Invokes a control binding beside a session that calls `tick` all the time; how many of these were served meanwhile.
async fn served_during(binding: &str, input: Value) -> usize {
    let [served, at_request, between] = [0, 0, 0].map(|zero| Arc::new(AtomicUsize::new(zero)));
    let server = server(&served);
    let neighbour = Client::builder().connect_transport(server.connect()).await.unwrap();
    let (ours, theirs) = pair(16);
    let noting =
        Noting { inner: theirs, served: Arc::clone(&served), at_request, between: Arc::clone(&between) };
    let serving = server.clone();
    tokio::spawn(async move { serving.serve_transport(noting).await });
    let client = Client::builder().connect_transport(ours).await.unwrap();
    let ticking = tokio::spawn({
        let neighbour = neighbour.clone();
        async move { neighbour.eval("globalThis.go = true; while (go) await tick()").await }
    });
    while served.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let value = client.invoke(binding, input).await.unwrap();
    assert!(!value.is_null());
    neighbour.cancel(None).await.unwrap();
    ticking.await.unwrap().unwrap_err();
    between.load(Ordering::Relaxed)
}

#[tokio::test]
async fn neighbour_is_served_while_many_types_are_written() {
    let served = served_during("bindings.types", json!({})).await;
    assert!(served >= SERVED_MIN, "{served}");
}

#[tokio::test]
async fn neighbour_is_served_while_many_bindings_are_searched() {
    let served = served_during("bindings.search", json!({"query": "number 7"})).await;
    assert!(served >= SERVED_MIN, "{served}");
}
