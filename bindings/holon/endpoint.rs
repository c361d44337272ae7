//! A connection in the world: the machine with those who wait for it, and with those who answer.
//!
//! The same for connections that came in and for those that we made: a peer that we dialled may ask us as well.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::JoinSet;

use super::hub::{Hub, Served, Service};
use super::machine::{Effect, Machine, Terms};
use super::wire::{self, Status};
use crate::binding::{BindingError, NativeFunction, Principal, handler};
use crate::client::{Client, ClientError};
use crate::observe;
use crate::peering::{Conversation, Endpoint, IncomingConnection, Outbox, commands, pump};
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

/// The WebSocket subprotocol.
pub(super) const SUBPROTOCOL: &str = "holon-web";

/// How an answer is waited for.
pub(super) type Waiter = oneshot::Sender<Result<Value, Status>>;

/// What a connection is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Ask the peer.
    Ask { method: String, payload: Value, timeout: Duration, waiter: Waiter },
    /// Answer the peer.
    Answer { id: String, outcome: Result<Value, Status> },
}

/// One connection.
pub(super) struct Talk {
    machine: Machine<Waiter>,
    commands_tx: mpsc::Sender<Command>,
    answering: JoinSet<()>,
    desk: Desk,
}

impl Talk {
    pub(super) fn new(terms: Terms, commands_tx: mpsc::Sender<Command>, desk: Desk) -> Self {
        Self { machine: Machine::new(terms), commands_tx, answering: JoinSet::new(), desk }
    }

    fn perform(&mut self, effects: impl IntoIterator<Item = Effect<Waiter>>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                Effect::Send(text) => out.send(text),
                Effect::Close(code, reason) => out.close(code, reason),
                Effect::Serve { id, method, payload } => self.serve(id, method, payload),
                Effect::Settled(waiter, outcome) => {
                    // Whoever asked may have gone.
                    let _ = waiter.send(outcome);
                }
                Effect::Warn(warning) => {
                    observe::peer_warned(warning.name());
                    tracing::warn!(
                        peer = self.desk.name.as_deref(),
                        warning = warning.name(),
                        "a holon peer erred"
                    );
                }
            }
        }
    }

    fn serve(&mut self, id: String, method: String, payload: Value) {
        while self.answering.try_join_next().is_some() {}
        let (desk, commands_tx) = (self.desk.clone(), self.commands_tx.clone());
        self.answering.spawn(async move {
            let outcome = desk.answer(&method, payload, &commands_tx).await;
            // The connection may be gone.
            let _ = commands_tx.send(Command::Answer { id, outcome }).await;
        });
    }
}

impl Conversation for Talk {
    type Command = Command;

    fn on_open(&mut self, now: Instant, _: &mut Outbox) {
        self.machine.on_open(now);
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_text(text, now);
        self.perform(effects, out);
    }

    fn on_command(&mut self, command: Command, now: Instant, out: &mut Outbox) {
        let effect = match command {
            Command::Ask { method, payload, timeout, waiter } => {
                Some(self.machine.ask(&method, &payload, timeout, waiter, now))
            }
            Command::Answer { id, outcome } => self.machine.answer(&id, &outcome),
        };
        self.perform(effect, out);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.machine.wake_at()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_wake(now);
        self.perform(effects, out);
    }

    fn on_end(&mut self, _: Instant) {
        self.answering.abort_all();
        let effects = self.machine.on_end();
        self.perform(effects, &mut Outbox::default());
    }
}

/// Where the requests of one peer are answered.
#[derive(Clone)]
pub(super) struct Desk {
    hub: Arc<Hub>,
    /// The peer's name in the configuration; none for those who came by themselves.
    name: Option<Arc<str>>,
    /// In whose name bindings are called; the server's own for peers that we dialled.
    principal: Option<Arc<Principal>>,
    /// A session for the bindings, made when the first is called.
    client: Arc<OnceCell<Client>>,
}

impl Desk {
    pub(super) fn new(hub: Arc<Hub>, name: Option<&str>, principal: Option<Arc<Principal>>) -> Self {
        Self { hub, name: name.map(Arc::from), principal, client: Arc::default() }
    }

    async fn answer(
        &self,
        method: &str,
        payload: Value,
        commands_tx: &mpsc::Sender<Command>,
    ) -> Result<Value, Status> {
        let work = async {
            match self.hub.find(method) {
                Some(Service::Script(served)) => self.call_script(served, payload, commands_tx).await,
                Some(Service::Binding(binding)) => self.call_binding(&binding, payload).await,
                None => Err(Status::new(wire::UNIMPLEMENTED, format!("method {method:?} not registered"))),
            }
        };
        let handler_max = self.hub.handler_max;
        tokio::time::timeout(handler_max, work).await.unwrap_or_else(|_| {
            let message = format!("timeout after {}ms", handler_max.as_millis());
            Err(Status::new(wire::DEADLINE_EXCEEDED, message))
        })
    }

    async fn call_script(
        &self,
        served: Served,
        payload: Value,
        commands_tx: &mpsc::Sender<Command>,
    ) -> Result<Value, Status> {
        let call_back = served.host_functions.export("call", call_back(commands_tx.clone()));
        let peer = json!({"name": self.name.as_deref(), "call": call_back});
        let request = json!({"payload": from_plain(payload), "peer": peer});
        match served.handler.call(vec![request], 0).await {
            Ok(value) => to_plain(value).map_err(|error| Status::new(wire::INTERNAL, error.to_string())),
            Err(error) => Err(told(&error)),
        }
    }

    async fn call_binding(&self, binding: &str, payload: Value) -> Result<Value, Status> {
        let unavailable = |error: ClientError| Status::new(wire::UNAVAILABLE, error.to_string());
        let client = self.client.get_or_try_init(|| self.connect()).await.map_err(unavailable)?;
        match client.invoke(binding, from_plain(payload)).await {
            Ok(value) => to_plain(value).map_err(|error| Status::new(wire::INTERNAL, error.to_string())),
            Err(ClientError::Rpc(error)) => Err(told(&BindingError::from(error))),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn connect(&self) -> Result<Client, ClientError> {
        let host = self.hub.host().ok_or(ClientError::Busy)?;
        let transport = match &self.principal {
            Some(principal) => host.connect_as(principal),
            None => host.connect(),
        };
        Client::builder().connect_transport(transport).await
    }
}

/// An error of ours in the words of the peer.
fn told(error: &BindingError) -> Status {
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

/// Asks the peer and waits for its answer; `send` puts the command on its way.
pub(super) async fn ask<F, E>(
    method: String,
    payload: Value,
    timeout: Duration,
    send: impl FnOnce(Command) -> F,
) -> Result<Value, BindingError>
where
    F: Future<Output = Result<(), E>>,
    E: ToString,
{
    let unavailable = |message: String| BindingError::with_code(wire::UNAVAILABLE, message);
    let payload =
        to_plain(payload).map_err(|error| BindingError::of_kind(Kind::InvalidInput, error.to_string()))?;
    let (waiter, answered) = oneshot::channel();
    send(Command::Ask { method, payload, timeout, waiter })
        .await
        .map_err(|error| unavailable(error.to_string()))?;
    match answered.await {
        Ok(Ok(result)) => Ok(from_plain(result)),
        Ok(Err(Status { code, message })) => Err(BindingError::with_code(code, message)),
        Err(_) => Err(unavailable("connection closed".to_owned())),
    }
}

/// `peer.call(method, payload, { timeoutMs })`, on the very connection that a request came from.
fn call_back(commands_tx: mpsc::Sender<Command>) -> NativeFunction {
    handler(move |arguments: Value, call| {
        let commands_tx = commands_tx.clone();
        async move {
            let method = arguments.get(0).and_then(Value::as_str).unwrap_or_default().to_owned();
            if method.trim().is_empty() {
                return Err(BindingError::with_code(wire::INVALID_ARGUMENT, "expected a method's name"));
            }
            let payload = arguments.get(1).cloned().unwrap_or_else(|| json!({}));
            let wanted =
                arguments.get(2).and_then(|options| options.get("timeoutMs")).and_then(Value::as_u64);
            let left = call.deadline.saturating_duration_since(Instant::now());
            let timeout = wanted.map_or(left, |wanted| left.min(Duration::from_millis(wanted)));
            ask(method, payload, timeout, |command| async move { commands_tx.send(command).await }).await
        }
    })
}

/// The way in.
pub(super) struct HolonEndpoint {
    pub(super) hub: Arc<Hub>,
    pub(super) terms: Terms,
    pub(super) message_bytes_max: usize,
}

impl Endpoint for HolonEndpoint {
    fn subprotocol(&self) -> Option<&'static str> {
        Some(SUBPROTOCOL)
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn serve(&self, visit: IncomingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let desk = Desk::new(Arc::clone(&self.hub), None, Some(visit.principal));
        let (commands_tx, mut commands_rx) = commands();
        let mut talk = Talk::new(self.terms.clone(), commands_tx, desk);
        let (mut transport, stop) = (visit.transport, visit.stop);
        Box::pin(async move {
            pump(&mut transport, &mut talk, &mut commands_rx, &stop).await;
        })
    }
}
