//! The other side of a command package: a program that serves bindings over its stdin and stdout.
//!
//! It speaks the same protocol as the server and uses the same machine, but has no sessions and runs no code: what a
//! session would do is a table of calls at work and of exported functions. `eval` is an unknown method here.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding::{
    Binding, BindingError, Call, CallContext, CallbackRequest, Callbacks, DroppedRefs, FunctionRef,
    HostFunctions, Principal, Registry, SessionScope, handler, tags,
};
use crate::limits::DURATION_MAX;
use crate::package::{Package, PackageError};
use crate::protocol::boundary::{SessionCommand, SessionEvent};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{PROTOCOL, Payload, Target, ValueResult};
use crate::protocol::peer::{Effect, Peer};
use crate::rpc::{ErrorObject, Id, Kind};
use crate::transport::{Frame, Outgoing, Transport, stdio};

/// Longest message both ways, the same as the server's.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Calls at work; one more is answered with `Busy`. As many as the server keeps waiting on one connection.
const CALLS_OPEN_MAX: usize = 1024;

/// Texts that wait to be written: an answer and a call back for everything at work, so that reading never waits for a
/// peer that does its part.
const TEXTS_QUEUED_MAX: usize = 4 * CALLS_OPEN_MAX;

/// The connection that the peer's functions belong to: there is only one.
const PEER: u64 = 1;

/// How long a call may take unless its limits say otherwise.
const CALL_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Serves a package over stdin and stdout until the input ends. Print to stderr only.
pub async fn serve_stdio(package: Package) -> Result<(), PackageError> {
    serve_over(stdio(MESSAGE_BYTES_MAX), package).await
}

/// Serves the package that `build` makes of the configuration in the declaration file. What it refuses is the
/// server's start error.
pub async fn serve_stdio_with(build: impl Fn(&Value) -> Result<Package, String> + Send + 'static) {
    serve_built(stdio(MESSAGE_BYTES_MAX), build).await;
}

/// Serves a package over any transport.
pub async fn serve_over(transport: impl Transport, package: Package) -> Result<(), PackageError> {
    package.clone().register(&mut Registry::default())?;
    serve_built(transport, move |_| Ok(package.clone())).await;
    Ok(())
}

async fn serve_built(
    transport: impl Transport,
    build: impl Fn(&Value) -> Result<Package, String> + Send + 'static,
) {
    let (mut sink, mut frames) = transport.split();
    let (texts_tx, mut texts_rx) = mpsc::channel::<String>(TEXTS_QUEUED_MAX);
    let write = async move {
        while let Some(text) = texts_rx.recv().await {
            if sink.send(Outgoing::Text(text)).await.is_err() {
                break;
            }
        }
    };
    let (requests_tx, mut requests_rx) = mpsc::channel(CALLS_OPEN_MAX);
    let mut host = Host::new(Box::new(build), requests_tx, texts_tx);
    let serve = async move {
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(Ok(Frame::Text(text))) => host.on_text(&text).await,
                    Some(Ok(Frame::Alive)) => {}
                    Some(Ok(Frame::Binary(_) | Frame::TooLong | Frame::Closed { .. }) | Err(_)) | None => break,
                },
                Some(request) = requests_rx.recv() => host.on_request(request).await,
                Some(Ok(done)) = host.running.join_next() => host.on_done(done).await,
            }
            host.release_dropped().await;
        }
        // Nobody answers calls back any more; what is at work is still finished and answered.
        drop(requests_rx);
        host.waiting.clear();
        while let Some(Ok(done)) = host.running.join_next().await {
            host.on_done(done).await;
        }
    };
    tokio::join!(serve, write);
}

type Done = (Id, Result<Value, ErrorObject>);
type Build = Box<dyn Fn(&Value) -> Result<Package, String> + Send>;

struct Host {
    build: Build,
    /// Empty until the handshake, which brings the configuration.
    registry: Registry,
    peer: Peer,
    scope: Arc<SessionScope>,
    link: Callbacks,
    host_functions: HostFunctions,
    running: JoinSet<Done>,
    /// Calls back that wait for their answers.
    waiting: HashMap<u64, oneshot::Sender<Result<Value, ErrorObject>>>,
    calls: u64,
    texts_tx: mpsc::Sender<String>,
}

impl Host {
    fn new(build: Build, requests_tx: mpsc::Sender<CallbackRequest>, texts_tx: mpsc::Sender<String>) -> Self {
        let principal = Principal::anonymous();
        Self {
            build,
            registry: Registry::default(),
            peer: Peer::new(CALLS_OPEN_MAX),
            scope: Arc::new(SessionScope {
                id: format!("sess_{}", uuid::Uuid::new_v4().simple()),
                principal: Arc::new(principal),
                audit: crate::observe::audit::Audit::default(),
            }),
            link: Callbacks { requests_tx, dropped_refs: DroppedRefs::default() },
            host_functions: HostFunctions::default(),
            running: JoinSet::new(),
            waiting: HashMap::new(),
            calls: 0,
            texts_tx,
        }
    }

    async fn on_text(&mut self, text: &str) {
        let effect = self.peer.on_text(text);
        self.act(effect).await;
    }

    async fn act(&mut self, effect: Option<Effect>) {
        match effect {
            // A writer that is gone shows as the end of the input.
            Some(Effect::Send(text)) => drop(self.texts_tx.send(text).await),
            Some(Effect::Handshake { request, params }) => {
                let welcome = self.welcome(params.metadata.as_ref());
                let answer = self.peer.on_handshake(&request, welcome.as_ref());
                drop(self.texts_tx.send(answer).await);
            }
            Some(Effect::Command(command)) => self.on_command(command).await,
            Some(Effect::Close(..) | Effect::Ignored(_)) | None => {}
        }
    }

    fn welcome(&mut self, metadata: Option<&Value>) -> Result<Value, ErrorObject> {
        let refused = |message: String| ErrorObject::new(Kind::InvalidParams, message);
        let config = metadata.and_then(|metadata| metadata.get("config"));
        let package = (self.build)(config.unwrap_or(&Value::Null)).map_err(refused)?;
        let name = package.name().to_owned();
        let mut registry = Registry::default();
        package.register(&mut registry).map_err(|error| refused(error.to_string()))?;
        self.registry = registry;
        let bindings: Vec<_> = self.registry.iter().map(|binding| &binding.declaration).collect();
        Ok(json!({
            "protocol": PROTOCOL,
            "sessionId": self.scope.id,
            "bindings": bindings,
            "metadata": {"server": {"name": name, "version": env!("CARGO_PKG_VERSION")}},
        }))
    }

    async fn on_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Eval { request, .. } => {
                let message = "no method \"eval\": only bindings are served here";
                self.answer(request, Err(ErrorObject::new(Kind::UnknownMethod, message))).await;
            }
            SessionCommand::Invoke { request, target, payload } => {
                let started = payload.parse().and_then(|payload| self.start(&request, target, payload));
                if let Err(error) = started {
                    self.answer(request, Err(error)).await;
                }
            }
            SessionCommand::Answer { call, outcome } => {
                if let Some(reply_tx) = self.waiting.remove(&call) {
                    // A handler that was cancelled does not want to know.
                    let _ = reply_tx.send(outcome.and_then(|text| read_value(&text)));
                }
            }
            SessionCommand::Release { reference, count } => {
                if let Some(number) = handler_number(&reference) {
                    self.host_functions.release(number, count);
                }
            }
        }
    }

    /// Begins a call of a binding or of an exported function.
    fn start(&mut self, request: &Id, target: Target, payload: Payload) -> Result<(), ErrorObject> {
        tags::check_payload(&payload)?;
        let request = request.clone();
        match (target, payload) {
            (Target::Binding(name), Payload::Input(input)) => {
                let unknown = || ErrorObject::new(Kind::UnknownBinding, format!("no binding {name}"));
                let binding = Arc::clone(self.registry.get(&name).ok_or_else(unknown)?);
                let input = fn_values::scope_to_connection(input, PEER);
                let call = self.call(binding.timeout, &input);
                self.running.spawn(run_binding(request, binding, input, call));
            }
            (Target::Binding(_), Payload::Args(_)) => {
                return Err(ErrorObject::new(Kind::InvalidParams, "a binding takes `input`"));
            }
            (Target::Reference(id), payload) => {
                let arguments = match payload {
                    Payload::Input(input) => vec![input],
                    Payload::Args(arguments) => arguments,
                };
                let unknown = || ErrorObject::new(Kind::UnknownRef, format!("no function {id}"));
                let number = handler_number(&id).ok_or_else(unknown)?;
                let function = self.host_functions.get_sent(number).ok_or_else(unknown)?;
                let arguments = fn_values::scope_to_connection(Value::Array(arguments), PEER);
                let call = self.call(None, &arguments);
                let (host_functions, functions) = (call.host_functions.clone(), call.functions.clone());
                let work = AssertUnwindSafe(async move { function.call(arguments, call).await });
                self.running.spawn(async move {
                    let panicked = |_| Err(BindingError::new("the function failed"));
                    let outcome = work.catch_unwind().await.unwrap_or_else(panicked);
                    let outcome = outcome.map(|value| own_all(value, &functions, &host_functions));
                    (request, outcome.map_err(BindingError::into_object))
                });
            }
        }
        Ok(())
    }

    fn call(&self, timeout: Option<Duration>, input: &Value) -> Call {
        let hold = |id| FunctionRef::new(id, self.link.clone());
        Call {
            session: Arc::clone(&self.scope),
            deadline: Instant::now() + timeout.unwrap_or(CALL_WAIT_DEFAULT).min(DURATION_MAX),
            cancel: CancellationToken::new(),
            depth: 0,
            eval_id: None,
            script_call: None,
            link: self.link.clone(),
            host_functions: self.host_functions.clone(),
            functions: fn_values::names(input).into_iter().map(hold).collect(),
        }
    }

    async fn on_done(&mut self, (request, outcome): Done) {
        self.answer(request, outcome).await;
    }

    async fn answer(&mut self, request: Id, outcome: Result<Value, ErrorObject>) {
        let outcome: Result<Box<RawValue>, ErrorObject> = outcome.and_then(|value| {
            self.count_sent(&value);
            to_raw_value(&ValueResult { value })
                .map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
        });
        let effect = self.peer.on_event(SessionEvent::Answered { request, outcome });
        // The answer to a request is a text and nothing else.
        if let Some(Effect::Send(text)) = effect {
            drop(self.texts_tx.send(text).await);
        }
    }

    /// A handler calls the peer back.
    async fn on_request(&mut self, request: CallbackRequest) {
        let CallbackRequest { target, payload, reply_tx, .. } = request;
        let target = match to_peer(target) {
            Ok(target) => target,
            // A handler that was cancelled does not want to know.
            Err(error) => return drop(reply_tx.send(Err(error))),
        };
        match &payload {
            Payload::Input(input) => self.count_sent(input),
            Payload::Args(arguments) => arguments.iter().for_each(|argument| self.count_sent(argument)),
        }
        self.calls += 1;
        let call = self.calls;
        self.waiting.insert(call, reply_tx);
        match self.peer.on_event(SessionEvent::Call { call, target, payload }) {
            Some(Effect::Send(text)) => drop(self.texts_tx.send(text).await),
            Some(Effect::Command(SessionCommand::Answer { call, outcome })) => {
                if let Some(reply_tx) = self.waiting.remove(&call) {
                    let _ = reply_tx.send(outcome.and_then(|text| read_value(&text)));
                }
            }
            Some(Effect::Command(_) | Effect::Handshake { .. } | Effect::Close(..) | Effect::Ignored(_))
            | None => {}
        }
    }

    /// A value goes out: each of our functions in it is sent once more.
    fn count_sent(&self, value: &Value) {
        fn_values::visit_ids(value, &mut |id| {
            handler_number(id).into_iter().for_each(|number| self.host_functions.count_sent(number));
        });
    }

    /// Tells the peer which of its functions no handler holds any more.
    async fn release_dropped(&mut self) {
        for function in self.link.dropped_refs.take() {
            let Some(reference) = function.client_id(PEER).map(str::to_owned) else { continue };
            let effect = self.peer.on_event(SessionEvent::Release { reference, count: 1 });
            if let Some(Effect::Send(text)) = effect {
                drop(self.texts_tx.send(text).await);
            }
        }
    }
}

async fn run_binding(request: Id, binding: Arc<Binding>, input: Value, call: Call) -> Done {
    let (host_functions, functions) = (call.host_functions.clone(), call.functions.clone());
    let outcome = binding.invoke(input, call, CallContext::Client).await;
    (request, outcome.map(|value| own_all(value, &functions, &host_functions)))
}

/// A function of the peer that goes back to it becomes one of ours: references belong to their sender.
fn own_all(mut value: Value, functions: &[FunctionRef], host_functions: &HostFunctions) -> Value {
    fn_values::replace(&mut value, &mut |passed| {
        let id = FnRef::parse_or_unknown(fn_values::id_of(passed)?);
        let function = functions.iter().find(|function| *function.id() == id)?.clone();
        let name = passed.get("name").and_then(Value::as_str).unwrap_or_default();
        let pass_on = handler(move |arguments, call: Call| {
            let function = function.clone();
            async move {
                let arguments = match arguments {
                    Value::Array(arguments) => arguments,
                    single => vec![single],
                };
                function.call(arguments, call.depth).await
            }
        });
        Some(host_functions.export(name, pass_on))
    });
    value
}

fn handler_number(reference: &str) -> Option<u64> {
    match reference.parse() {
        Ok(FnRef::Handler(number)) => Some(number),
        Ok(FnRef::Script(_) | FnRef::Client { .. }) | Err(_) => None,
    }
}

/// What a handler calls, as the peer names it.
fn to_peer(target: Target) -> Result<Target, ErrorObject> {
    match target {
        Target::Binding(name) => Ok(Target::Binding(name)),
        Target::Reference(text) => match FnRef::parse_or_unknown(&text).client_id(PEER) {
            Some(id) => Ok(Target::Reference(id.to_owned())),
            None => Err(ErrorObject::new(Kind::UnknownRef, format!("no function {text}"))),
        },
    }
}

fn read_value(text: &RawValue) -> Result<Value, ErrorObject> {
    let value = serde_json::from_str(text.get());
    let value = value.map_err(|error| ErrorObject::new(Kind::InvalidOutput, error.to_string()))?;
    Ok(fn_values::scope_to_connection(tags::check_answer(value)?, PEER))
}

#[cfg(test)]
mod tests;
