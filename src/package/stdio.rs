//! The other side of a command package: a program that serves bindings over its stdin and stdout.
//!
//! It serves the same protocol as the server and uses the same machine, but has no sessions and runs no code: what a
//! session would do is a table of running calls and of functions given away. `eval` is an unknown method here.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
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
use crate::protocol::methods::{PROTOCOL, Payload, Target, ValueResult};
use crate::protocol::peer::{Effect, Peer};
use crate::rpc::{ErrorObject, Id, Kind};
use crate::schema::fn_refs;
use crate::transport::{Conversation, Driver, DriverSettings, InputEnd, Outbox, Timeouts, Transport, stdio};

/// Longest message both ways, the same as the server's.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Running calls; one more is answered with `Busy`. As many as the server keeps waiting on one connection.
const CALLS_OPEN_MAX: usize = 1024;

/// Texts that wait to be written: an answer and a call back for every running call, so that reading never waits for a
/// server that does its part.
const TEXTS_QUEUED_MAX: usize = 4 * CALLS_OPEN_MAX;

/// A pipe has no pings, and the server that started this program may read as slowly as it likes.
const DRIVER_SETTINGS: DriverSettings =
    DriverSettings { timeouts: Timeouts::NONE, write_stall_max: None, frames_queued_max: TEXTS_QUEUED_MAX };

/// How long a call may take unless its limits say otherwise.
const CALL_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Serves a package over stdin and stdout until the input ends. Print to stderr only.
pub async fn serve_stdio(package: Package) -> Result<(), PackageError> {
    serve_over(stdio(MESSAGE_BYTES_MAX), package).await
}

/// Serves the package that `build` makes of the configuration in the declaration file. Its error becomes the start
/// error of the server.
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
    let (requests_tx, requests_rx) = mpsc::channel(CALLS_OPEN_MAX);
    let mut host = Host::new(Box::new(build), requests_tx, requests_rx);
    let mut driver = Driver::new(transport, DRIVER_SETTINGS);
    driver.run(&mut host, &CancellationToken::new()).await;
    driver.flush().await;
    // Calls are finished even if the server is gone: they may have effects.
    while host.running.join_next().await.is_some() {}
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
    /// How often each of our functions was sent and not released.
    given: HashMap<String, u64>,
    running: JoinSet<Done>,
    /// Calls back that wait for their answers.
    waiting: HashMap<u64, oneshot::Sender<Result<Value, ErrorObject>>>,
    calls: u64,
    /// Calls back of the handlers; dropped at the end of the input, because they could not be answered.
    requests_rx: Option<mpsc::Receiver<CallbackRequest>>,
}

/// What reaches the host from inside the process.
enum Input {
    Callback(CallbackRequest),
    Done(Done),
}

impl Host {
    fn new(
        build: Build,
        requests_tx: mpsc::Sender<CallbackRequest>,
        requests_rx: mpsc::Receiver<CallbackRequest>,
    ) -> Self {
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
            given: HashMap::new(),
            running: JoinSet::new(),
            waiting: HashMap::new(),
            calls: 0,
            requests_rx: Some(requests_rx),
        }
    }

    fn perform(&mut self, effect: Option<Effect>, out: &mut Outbox) {
        match effect {
            Some(Effect::Send(text)) => out.send(text),
            Some(Effect::Handshake { request, params }) => {
                let result = self.handshake_result(params.metadata.as_ref());
                out.send(self.peer.on_handshake(&request, result.as_ref()));
            }
            Some(Effect::Command(command)) => self.on_session_command(command, out),
            Some(Effect::Close(..) | Effect::Ignored(_)) | None => {}
        }
    }

    fn handshake_result(&mut self, metadata: Option<&Value>) -> Result<Value, ErrorObject> {
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

    fn on_session_command(&mut self, command: SessionCommand, out: &mut Outbox) {
        match command {
            SessionCommand::Eval { request, .. } => {
                let message = "no method \"eval\": only bindings are served here";
                self.answer(request, Err(ErrorObject::new(Kind::UnknownMethod, message)), out);
            }
            SessionCommand::Invoke { request, target, payload } => {
                let started = payload.parse().and_then(|payload| self.start(&request, target, payload));
                if let Err(error) = started {
                    self.answer(request, Err(error), out);
                }
            }
            SessionCommand::Answer { call, outcome } => {
                if let Some(reply_tx) = self.waiting.remove(&call) {
                    // The handler may have been cancelled.
                    let _ = reply_tx.send(outcome.and_then(|text| read_value(&text)));
                }
            }
            SessionCommand::Release { reference, count } => self.give_back(&reference, count),
        }
    }

    /// Begins a call of a binding or of a function that was given away.
    fn start(&mut self, request: &Id, target: Target, payload: Payload) -> Result<(), ErrorObject> {
        tags::check_payload(&payload)?;
        let request = request.clone();
        match (target, payload) {
            (Target::Binding(name), Payload::Input(input)) => {
                let unknown = || ErrorObject::new(Kind::UnknownBinding, format!("no binding {name}"));
                let binding = Arc::clone(self.registry.get(&name).ok_or_else(unknown)?);
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
                let number = native_number(&id).filter(|_| self.given.contains_key(&id));
                let function =
                    number.and_then(|number| self.host_functions.get(number)).ok_or_else(unknown)?;
                let arguments = Value::Array(arguments);
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
            functions: fn_refs::ids(input).into_iter().map(hold).collect(),
        }
    }

    fn answer(&mut self, request: Id, outcome: Result<Value, ErrorObject>, out: &mut Outbox) {
        let outcome: Result<Box<RawValue>, ErrorObject> = outcome.and_then(|value| {
            self.note_given(&value);
            to_raw_value(&ValueResult { value })
                .map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
        });
        let effect = self.peer.on_event(SessionEvent::Answered { request, outcome });
        self.perform(effect, out);
    }

    /// A handler calls the server back.
    fn on_callback(&mut self, request: CallbackRequest, out: &mut Outbox) {
        let CallbackRequest { target, payload, reply_tx, .. } = request;
        match &payload {
            Payload::Input(input) => self.note_given(input),
            Payload::Args(arguments) => arguments.iter().for_each(|argument| self.note_given(argument)),
        }
        self.calls += 1;
        let call = self.calls;
        self.waiting.insert(call, reply_tx);
        let effect = self.peer.on_event(SessionEvent::Call { call, target, payload });
        self.perform(effect, out);
    }

    fn note_given(&mut self, value: &Value) {
        for id in fn_refs::ids(value) {
            if native_number(&id).is_some() {
                *self.given.entry(id).or_default() += 1;
            }
        }
    }

    fn give_back(&mut self, reference: &str, count: u64) {
        let Some(given) = self.given.get_mut(reference) else {
            return;
        };
        *given = given.saturating_sub(count);
        if *given == 0 {
            self.given.remove(reference);
            if let Some(number) = native_number(reference) {
                self.host_functions.remove(number);
            }
        }
    }

    /// Calls back cannot be answered any more; running calls are still finished and answered.
    fn end_input(&mut self) {
        self.requests_rx = None;
        self.waiting.clear();
    }

    /// Releases the functions of the server that no handler holds any more.
    fn release_dropped(&mut self, out: &mut Outbox) {
        for reference in self.link.dropped_refs.take() {
            let effect = self.peer.on_event(SessionEvent::Release { reference, count: 1 });
            self.perform(effect, out);
        }
    }
}

impl Conversation for Host {
    type Command = Input;

    fn on_open(&mut self, _: Instant, _: &mut Outbox) {}

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        let effect = self.peer.on_text(text);
        self.perform(effect, out);
        self.release_dropped(out);
    }

    fn on_command(&mut self, input: Input, _: Instant, out: &mut Outbox) {
        match input {
            Input::Callback(request) => self.on_callback(request, out),
            Input::Done((request, outcome)) => self.answer(request, outcome, out),
        }
        self.release_dropped(out);
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        if let Some(requests_rx) = &mut self.requests_rx
            && let Poll::Ready(Some(request)) = requests_rx.poll_recv(cx)
        {
            return Poll::Ready(Input::Callback(request));
        }
        while let Poll::Ready(Some(joined)) = self.running.poll_join_next(cx) {
            if let Ok(done) = joined {
                return Poll::Ready(Input::Done(done));
            }
        }
        Poll::Pending
    }

    /// What follows a binary frame is not read, as after the end of the input.
    fn on_binary(&mut self, _: &[u8], _: Instant, _: &mut Outbox) {
        self.end_input();
    }

    fn may_read(&mut self) -> bool {
        self.requests_rx.is_some()
    }

    fn on_input_end(&mut self, _: InputEnd, _: Instant, _: &mut Outbox) {
        self.end_input();
    }

    fn is_done(&self) -> bool {
        self.requests_rx.is_none() && self.running.is_empty()
    }

    fn on_end(&mut self, _: Instant) {}
}

async fn run_binding(request: Id, binding: Arc<Binding>, input: Value, call: Call) -> Done {
    let (host_functions, functions) = (call.host_functions.clone(), call.functions.clone());
    let outcome = binding.invoke(input, call, CallContext::Client).await;
    (request, outcome.map(|value| own_all(value, &functions, &host_functions)))
}

/// A function of the peer that goes back to it becomes one of ours: a reference belongs to the side that sends it.
fn own_all(mut value: Value, functions: &[FunctionRef], host_functions: &HostFunctions) -> Value {
    fn_refs::replace(&mut value, &mut |place| {
        let id = fn_refs::id_at(place)?;
        let function = functions.iter().find(|function| function.id() == id)?.clone();
        let name = place.get("name").and_then(Value::as_str).unwrap_or_default();
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
        Some(host_functions.provide(name, pass_on))
    });
    value
}

fn native_number(reference: &str) -> Option<u64> {
    reference.strip_prefix("native:")?.parse().ok()
}

fn read_value(text: &RawValue) -> Result<Value, ErrorObject> {
    let value = serde_json::from_str(text.get());
    tags::check_answer(value.map_err(|error| ErrorObject::new(Kind::InvalidOutput, error.to_string()))?)
}

#[cfg(test)]
mod tests;
