//! Routes the requests of one peer to scripts and bindings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};

use super::connection::{Command, call_method};
use super::methods::{MethodRegistry, MethodTarget, ScriptHandler};
use super::wire::{self, Status};
use crate::binding::{BindingError, NativeFunction, Principal, handler};
use crate::client::{Client, ClientError};
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

#[derive(Clone)]
pub(super) struct RequestRouter {
    methods: Arc<MethodRegistry>,
    /// The peer's name in the configuration; `None` for a peer that connected to us.
    peer_name: Option<Arc<str>>,
    /// The principal that calls bindings; `None` for a peer that we dialed, which acts as the
    /// server itself.
    principal: Option<Arc<Principal>>,
    /// A session for calling bindings, opened by the first call.
    client: Arc<OnceCell<Client>>,
}

impl RequestRouter {
    pub(super) fn new(
        methods: Arc<MethodRegistry>,
        peer_name: Option<&str>,
        principal: Option<Arc<Principal>>,
    ) -> Self {
        Self { methods, peer_name: peer_name.map(Arc::from), principal, client: Arc::default() }
    }

    pub(super) fn peer_name(&self) -> Option<&str> {
        self.peer_name.as_deref()
    }

    /// Handles a request. `commands_tx` leads to the connection that it came from, for `peer.call`.
    pub(super) async fn handle(
        &self,
        method: &str,
        payload: Value,
        commands_tx: &mpsc::Sender<Command>,
    ) -> Result<Value, Status> {
        let work = async {
            match self.methods.find(method) {
                Some(MethodTarget::Script(script)) => self.call_script(script, payload, commands_tx).await,
                Some(MethodTarget::Binding(binding)) => self.call_binding(&binding, payload).await,
                None => Err(Status::new(wire::UNIMPLEMENTED, format!("method {method:?} not registered"))),
            }
        };
        let timeout = self.methods.handler_timeout;
        tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
            let message = format!("timeout after {}ms", timeout.as_millis());
            Err(Status::new(wire::DEADLINE_EXCEEDED, message))
        })
    }

    async fn call_script(
        &self,
        script: ScriptHandler,
        payload: Value,
        commands_tx: &mpsc::Sender<Command>,
    ) -> Result<Value, Status> {
        let peer_call = script.host_functions.export("call", peer_call(commands_tx.clone()));
        let peer = json!({"name": self.peer_name(), "call": peer_call});
        let request = json!({"payload": from_plain(payload), "peer": peer});
        match script.function.call(vec![request], 0).await {
            Ok(value) => to_plain(value).map_err(|error| Status::new(wire::INTERNAL, error.to_string())),
            Err(error) => Err(to_status(&error)),
        }
    }

    async fn call_binding(&self, binding: &str, payload: Value) -> Result<Value, Status> {
        let unavailable = |error: ClientError| Status::new(wire::UNAVAILABLE, error.to_string());
        let client = self.client.get_or_try_init(|| self.connect()).await.map_err(unavailable)?;
        match client.invoke(binding, from_plain(payload)).await {
            Ok(value) => to_plain(value).map_err(|error| Status::new(wire::INTERNAL, error.to_string())),
            Err(ClientError::Rpc(error)) => Err(to_status(&BindingError::from(error))),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn connect(&self) -> Result<Client, ClientError> {
        let host = self.methods.host().ok_or(ClientError::Busy)?;
        let transport = match &self.principal {
            Some(principal) => host.connect_as(principal),
            None => host.connect(),
        };
        Client::builder().connect_transport(transport).await
    }
}

fn to_status(error: &BindingError) -> Status {
    let is = |kind: Kind| error.kind() == Some(kind.name());
    let code = match error.own_code() {
        Some(code) => code,
        None if is(Kind::InvalidInput) => wire::INVALID_ARGUMENT,
        None if is(Kind::Timeout) => wire::DEADLINE_EXCEEDED,
        None if is(Kind::PermissionDenied) => wire::PERMISSION_DENIED,
        None if is(Kind::Busy) => wire::RESOURCE_EXHAUSTED,
        None if is(Kind::UnknownBinding) => wire::UNIMPLEMENTED,
        None if is(Kind::PeerGone) => wire::UNAVAILABLE,
        None => wire::INTERNAL,
    };
    Status::new(code, error.own_message())
}

/// `peer.call(method, payload, { timeoutMs })`, which sends a request on the connection that the
/// handled one came from.
fn peer_call(commands_tx: mpsc::Sender<Command>) -> NativeFunction {
    handler(move |arguments: Value, call| {
        let commands_tx = commands_tx.clone();
        async move {
            let method = arguments.get(0).and_then(Value::as_str).unwrap_or_default().to_owned();
            if method.trim().is_empty() {
                let message = "peer.call: expected the name of a method";
                return Err(BindingError::with_code(wire::INVALID_ARGUMENT, message));
            }
            let payload = arguments.get(1).cloned().unwrap_or_else(|| json!({}));
            let timeout_ms =
                arguments.get(2).and_then(|options| options.get("timeoutMs")).and_then(Value::as_u64);
            let left = call.deadline.saturating_duration_since(Instant::now());
            let timeout = timeout_ms.map_or(left, |ms| left.min(Duration::from_millis(ms)));
            let send = |command| async move { commands_tx.send(command).await };
            call_method(method, payload, timeout, send).await
        }
    })
}
