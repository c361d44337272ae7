//! The other side of a command package: a program that serves bindings over its stdin and stdout.
//!
//! It speaks the same protocol as the server and uses the same machine, but has no sessions and runs no code: what a
//! session would do is a table of running calls and of exported functions. `eval` is an unknown method here.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding::{
    BindingError, Call, CallContext, CallbackReceiver, CallbackRequest, Callbacks, CancelSignal, FunctionRef,
    HandlerEntry, Handlers, HostFunctions, Principal, SessionScope, handler, tags,
};
use crate::limits::DURATION_MAX;
use crate::package::{Package, PackageError};
use crate::protocol::client_messages::{FromClient, ToClient};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{PROTOCOL, Payload, Target, ValueResult};
use crate::protocol::peer::{Effect, Peer};
use crate::rpc::{ErrorObject, Id, Kind};
use crate::transport::{Conversation, Driver, DriverSettings, InputEnd, Outbox, Timeouts, Transport, stdio};

/// Longest message both ways, the same as the server's.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Running calls; one more is answered with `Busy`. As many as the server keeps waiting on one connection.
const CALLS_OPEN_MAX: usize = 1024;

/// Texts that wait to be written: an answer and a call back for every running call, so that reading never waits for a
/// server that does its part.
const TEXTS_QUEUED_MAX: usize = 4 * CALLS_OPEN_MAX;

/// The connection that the peer's functions belong to: there is only one.
const PEER: u64 = 1;

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
    package.clone().register(&Arc::default())?;
    serve_built(transport, move |_| Ok(package.clone())).await;
    Ok(())
}

async fn serve_built(
    transport: impl Transport,
    build: impl Fn(&Value) -> Result<Package, String> + Send + 'static,
) {
    let mut host = Host::new(Box::new(build));
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
    handlers: Arc<Handlers>,
    peer: Peer,
    scope: Arc<SessionScope>,
    link: Callbacks,
    host_functions: HostFunctions,
    running: JoinSet<Done>,
    /// Calls back that wait for their answers.
    waiting: HashMap<u64, oneshot::Sender<Result<Value, ErrorObject>>>,
    calls: u64,
    /// Calls back of the handlers; dropped at the end of the input, because they could not be answered.
    callbacks: Option<CallbackReceiver>,
}

/// What reaches the host from inside the process.
enum Input {
    Callback(CallbackRequest),
    Done(Done),
}

impl Host {
    fn new(build: Build) -> Self {
        let (link, callbacks) = Callbacks::channel(CALLS_OPEN_MAX);
        let principal = Principal::anonymous();
        Self {
            build,
            handlers: Arc::default(),
            peer: Peer::new(CALLS_OPEN_MAX),
            scope: Arc::new(SessionScope {
                id: format!("sess_{}", uuid::Uuid::new_v4().simple()),
                principal: Arc::new(principal),
                audit: crate::observe::audit::Audit::default(),
            }),
            link,
            host_functions: HostFunctions::default(),
            running: JoinSet::new(),
            waiting: HashMap::new(),
            calls: 0,
            callbacks: Some(callbacks),
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
        let handlers = Arc::default();
        package.register(&handlers).map_err(|error| refused(error.to_string()))?;
        let catalog = handlers.catalog();
        self.handlers = handlers;
        let bindings: Vec<_> = catalog.iter().map(|entry| &entry.declaration).collect();
        Ok(json!({
            "protocol": PROTOCOL,
            "sessionId": self.scope.id,
            "bindings": bindings,
            "metadata": {"server": {"name": name, "version": env!("CARGO_PKG_VERSION")}},
        }))
    }

    fn on_session_command(&mut self, command: FromClient, out: &mut Outbox) {
        match command {
            FromClient::Eval { request, .. } => {
                let message = "no method \"eval\": only bindings are served here";
                self.answer(request, Err(ErrorObject::new(Kind::UnknownMethod, message)), out);
            }
            FromClient::Invoke { request, target, payload } => {
                let started = payload.parse().and_then(|payload| self.start(&request, target, payload));
                if let Err(error) = started {
                    self.answer(request, Err(error), out);
                }
            }
            FromClient::Answer { call, outcome } => {
                if let Some(reply_tx) = self.waiting.remove(&call) {
                    // The handler may have been cancelled.
                    let _ = reply_tx.send(outcome.and_then(|text| read_value(&text)));
                }
            }
            FromClient::Release { reference, count } => {
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
                let binding = self.handlers.get(&name).ok_or_else(unknown)?;
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
            cancel: CancelSignal::default(),
            depth: 0,
            eval_id: None,
            script_call: None,
            link: self.link.clone(),
            host_functions: self.host_functions.clone(),
            functions: fn_values::names(input).into_iter().map(hold).collect(),
        }
    }

    fn answer(&mut self, request: Id, outcome: Result<Value, ErrorObject>, out: &mut Outbox) {
        let outcome: Result<Box<RawValue>, ErrorObject> = outcome.and_then(|value| {
            self.count_sent(&value);
            to_raw_value(&ValueResult { value })
                .map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
        });
        let effect = self.peer.on_event(ToClient::Answered { request, outcome });
        self.perform(effect, out);
    }

    /// A handler calls the server back.
    fn on_callback(&mut self, request: CallbackRequest, out: &mut Outbox) {
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
        let effect = self.peer.on_event(ToClient::Call { call, target, payload });
        self.perform(effect, out);
    }

    /// A value goes out: each of our functions in it is sent once more.
    fn count_sent(&self, value: &Value) {
        fn_values::visit_ids(value, &mut |id| {
            handler_number(id).into_iter().for_each(|number| self.host_functions.count_sent(number));
        });
    }

    /// Calls back cannot be answered any more; running calls are still finished and answered.
    fn end_input(&mut self) {
        self.callbacks = None;
        self.waiting.clear();
    }

    /// Releases the functions of the server that no handler holds any more.
    fn release_dropped(&mut self, out: &mut Outbox) {
        let dropped = self.callbacks.as_ref().map(CallbackReceiver::take_dropped);
        for function in dropped.unwrap_or_default() {
            let Some(reference) = function.client_id(PEER).map(str::to_owned) else { continue };
            let effect = self.peer.on_event(ToClient::Release { reference, count: 1 });
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
        if let Some(callbacks) = &mut self.callbacks
            && let Poll::Ready(Some(request)) = callbacks.requests_rx.poll_recv(cx)
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
        self.callbacks.is_some()
    }

    fn on_input_end(&mut self, _: InputEnd, _: Instant, _: &mut Outbox) {
        self.end_input();
    }

    fn is_done(&self) -> bool {
        self.callbacks.is_none() && self.running.is_empty()
    }

    fn on_end(&mut self, _: Instant) {}
}

async fn run_binding(request: Id, binding: Arc<HandlerEntry>, input: Value, call: Call) -> Done {
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
