//! A server with a package whose bindings a test changes.

use std::sync::Arc;

use scomp::binding::{Binding, BindingError, BindingPublisher, Handler, handler};
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::server::Server;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::support::Wire;

/// A server on a free port, and the handle of its package `tools`.
pub(crate) struct Tools {
    pub(crate) url: String,
    pub(crate) server: Server,
    pub(crate) publisher: BindingPublisher,
    /// How many calls of `tools.wait` have begun.
    pub(crate) begun: Arc<Semaphore>,
    /// How many of them may end.
    pub(crate) may_end: Arc<Semaphore>,
}

impl Tools {
    /// Offers `tools.wait` and bindings of these names that return their own name.
    pub(crate) async fn offering(names: &[&str]) -> Self {
        Self::beside(names, Package::new("others")).await
    }

    /// The same beside another package.
    pub(crate) async fn beside(names: &[&str], other: Package) -> Self {
        let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let package = Package::new("tools");
        let publisher = package.publisher();
        let server = Server::builder().shards(1).package(other).package(package).build().unwrap();
        let url = listen(&server).await;
        let tools = Self { url, server, publisher, begun, may_end };
        tools.offer(names).await;
        tools
    }

    /// Offers `tools.wait` and these instead of what was offered before.
    pub(crate) async fn offer(&self, names: &[&str]) {
        let refused = self.publisher.replace(self.with_wait(names.iter().map(|name| named(name)))).await;
        assert_eq!(refused, []);
    }

    /// `tools.wait` and others.
    pub(crate) fn with_wait(&self, others: impl IntoIterator<Item = Binding>) -> Vec<Binding> {
        let wait = Binding::new(Declaration::named("tools.wait"), self.wait());
        std::iter::once(wait).chain(others).collect()
    }

    /// A handler that says when a call has begun, and ends when it may.
    fn wait(&self) -> Arc<dyn Handler> {
        let (begun, may_end) = (Arc::clone(&self.begun), Arc::clone(&self.may_end));
        handler(move |_, _| {
            begun.add_permits(1);
            let may_end = Arc::clone(&may_end);
            async move {
                may_end.acquire().await.map_err(BindingError::from)?.forget();
                Ok(json!("waited"))
            }
        })
    }

    /// Waits until a call of `tools.wait` has begun.
    pub(crate) async fn call_begins(&self) {
        self.begun.acquire().await.unwrap().forget();
    }

    /// Lets a call of `tools.wait` end.
    pub(crate) fn end_call(&self) {
        self.may_end.add_permits(1);
    }

    /// A connection that declares these bindings.
    pub(crate) async fn client(&self, bindings: &[&str]) -> (Wire, Value) {
        let bindings: Vec<_> = bindings.iter().map(|name| json!({"name": name})).collect();
        Wire::live_with(&self.url, json!({"bindings": bindings})).await
    }
}

/// Serves on a free port; returns its URL.
pub(crate) async fn listen(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    url
}

/// A binding that returns its own name.
pub(crate) fn named(name: &str) -> Binding {
    let value = Value::from(name);
    let answer = handler(move |_, _| {
        let value = value.clone();
        async move { Ok(value) }
    });
    Binding::new(Declaration::named(name), answer)
}

/// The names of the bindings that a handshake listed, without the control bindings.
pub(crate) fn listed(welcome: &Value) -> Vec<&str> {
    let names =
        welcome["bindings"].as_array().unwrap().iter().map(|binding| binding["name"].as_str().unwrap());
    names.filter(|name| !name.starts_with("session.") && !name.starts_with("bindings.")).collect()
}

/// What resumes the session of a handshake.
pub(crate) fn ticket(welcome: &Value) -> Value {
    json!({"id": welcome["sessionId"], "token": welcome["metadata"]["session"]["token"]})
}

/// Takes the next message, which has to be an `invoke` of `binding`; answers it and returns its input.
pub(crate) async fn serve(wire: &mut Wire, binding: &str) -> Value {
    let (id, input) = called(wire, binding).await;
    answer(wire, &id).await;
    input
}

/// Takes the next message, which has to be an `invoke` of `binding`; returns its id and its input.
pub(crate) async fn called(wire: &mut Wire, binding: &str) -> (Value, Value) {
    let message = wire.json().await;
    assert_eq!(message["method"], "invoke", "{message}");
    assert_eq!(message["params"]["binding"], binding, "{message}");
    (message["id"].clone(), message["params"]["input"].clone())
}

pub(crate) async fn answer(wire: &mut Wire, id: &Value) {
    wire.text(&json!({"jsonrpc": "2.0", "id": id, "result": {"value": null}}).to_string()).await;
}
