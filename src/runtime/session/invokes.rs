//! Calls from outside: the client's `invoke`, and what handlers ask of the session that called them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::engine::{Arguments, Settled};
use super::super::guest::{Callable, ChargedTo, RefHolder, ValueSource};
use super::super::meter::Stop;
use super::arguments::{Given, check_result};
use super::client_calls::Waiter;
use super::clock::WallClock;
use super::evals::Requester;
use super::turn::Action;
use super::{Inbox, Ready, Session};
use crate::binding::{CallContext, CallbackRequest};
use crate::budget::Charge;
use crate::protocol::boundary::SessionCommand;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{Payload, RawPayload, Target, ValueResult};
use crate::protocol::shape::Shape;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::FunctionSchemas;

/// Who called.
pub(crate) enum InvokedBy {
    /// The client, with this request.
    Client(Requester),
    /// A handler.
    Handler(HandlerReply),
}

/// Where the answer to a handler goes.
pub(crate) struct HandlerReply {
    pub(crate) reply_tx: oneshot::Sender<Result<Value, ErrorObject>>,
    /// The script's call that the handler serves, if it serves one.
    pub(crate) script_call: Option<u64>,
}

/// A function of the script at work.
pub(crate) struct Invocation {
    by: InvokedBy,
    /// What it is to give.
    schemas: Option<Arc<FunctionSchemas>>,
    pub(crate) cpu: Duration,
    pub(crate) clock: WallClock,
    pub(crate) depth: u32,
}

/// A server binding at work for the client or another handler.
pub(crate) struct ServerInvoke {
    by: InvokedBy,
    cancel: CancellationToken,
}

impl Session {
    /// The connection of that number passes a message of its client on, and is charged for it.
    pub(crate) async fn accept_command(&mut self, connection: u64, command: SessionCommand, charge: Charge) {
        match command {
            SessionCommand::Eval { request, params } => {
                self.accept_eval(Requester { connection, id: request, charge }, params).await;
            }
            SessionCommand::Invoke { request, target, payload } => {
                let by = InvokedBy::Client(Requester { connection, id: request, charge });
                // Malformed tags are found where the text is read, so that it is read once.
                if let Some(error) = self.too_deep(&payload) {
                    return self.reply(by, Err(error)).await;
                }
                // A client does not say what it calls for; the deepest call it has to answer is the likely one.
                let depth = self.client_calls.values().map(|call| call.depth).max().unwrap_or(0) + 1;
                self.invoke(by, target, Arguments::Text(payload), depth).await;
            }
            SessionCommand::Answer { call, outcome } => self.accept_answer(call, outcome, charge).await,
            SessionCommand::Release { reference, count } => {
                let id = reference.parse().ok().and_then(|function: FnRef| function.script_number());
                let gone = id.and_then(|id| {
                    self.engine.guest.functions.borrow_mut().release(RefHolder::Client, id, count)
                });
                self.forget(gone.into_iter().collect());
            }
        }
    }

    fn too_deep(&self, payload: &RawPayload) -> Option<ErrorObject> {
        let max = self.parts.limits.value_depth_max;
        let depth = Shape::of(payload.text()).depth;
        let depth = if matches!(payload, RawPayload::Args(_)) { depth.saturating_sub(1) } else { depth };
        (depth > max)
            .then(|| ErrorObject::new(Kind::InvalidParams, format!("the value is nested deeper than {max}")))
    }

    /// A handler calls back.
    pub(crate) async fn accept_host(&mut self, request: CallbackRequest) {
        let CallbackRequest { target, payload, depth, script_call, reply_tx } = request;
        let reply = HandlerReply { reply_tx, script_call };
        let arguments = match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(arguments) => arguments,
        };
        self.invoke(InvokedBy::Handler(reply), target, Arguments::Trees(arguments), depth).await;
    }

    async fn invoke(&mut self, by: InvokedBy, target: Target, arguments: Arguments, depth: u32) {
        if depth > self.parts.limits.invoke_depth_max {
            let message = format!("invokes are nested deeper than {}", self.parts.limits.invoke_depth_max);
            return self.reply(by, Err(ErrorObject::new(Kind::TooDeep, message))).await;
        }
        match target {
            Target::Binding(name) => self.invoke_binding(by, name, arguments, depth).await,
            Target::Reference(reference) => self.invoke_reference(by, &reference, arguments, depth).await,
        }
    }

    async fn invoke_binding(&mut self, mut by: InvokedBy, name: String, arguments: Arguments, depth: u32) {
        if let (InvokedBy::Client(requester), Arguments::Text(payload)) = (&by, &arguments) {
            match self.control(requester.connection, &name, payload.text()).await {
                Some(outcome) => return self.reply(by, outcome).await,
                None if self.ending.is_some() => return,
                None => {}
            }
        }
        let input = match self.read_arguments(&mut by, arguments) {
            Ok(arguments) => <[Value; 1]>::try_from(arguments)
                .map_err(|_| ErrorObject::new(Kind::InvalidParams, "a binding takes `input`")),
            Err(error) => Err(error),
        };
        let input = match input {
            Ok([input]) => input,
            Err(error) => return self.reply(by, Err(error)).await,
        };
        if let Some(binding) = self.parts.registry.get(&name).cloned() {
            let (input, caller, functions) = self.input_for_handler(&by, input);
            let mut call = self.dispatcher.call(&binding, depth, functions);
            if let InvokedBy::Handler(reply) = &by {
                call.script_call = reply.script_call;
            }
            let cancel = call.cancel.clone();
            let number = self.number();
            self.server_invokes.insert(number, ServerInvoke { by, cancel });
            let inbox_tx = self.inbox_tx.clone();
            tokio::task::spawn_local(async move {
                let outcome = binding.invoke(input, call, caller).await;
                // A session that is gone does not want to know.
                let _ = inbox_tx.send(Inbox::InvokeDone(number, outcome)).await;
            });
            return;
        }
        match by {
            InvokedBy::Handler(reply) => {
                self.call_client(Waiter::Handler(reply), Target::Binding(name), Payload::Input(input), depth)
                    .await;
            }
            InvokedBy::Client(_) => {
                let error = ErrorObject::new(Kind::UnknownBinding, format!("no binding {name}"));
                self.reply(by, Err(error)).await;
            }
        }
    }

    /// A handler sees the session's names for functions, of the client as of the script, and holds them while it works.
    fn input_for_handler(&self, by: &InvokedBy, input: Value) -> (Value, CallContext, Vec<FnRef>) {
        match by {
            InvokedBy::Handler(_) => (input, CallContext::Script, Vec::new()),
            InvokedBy::Client(requester) => {
                let input = fn_values::scope_to_connection(input, requester.connection);
                let functions = fn_values::names(&input);
                (input, CallContext::Client, functions)
            }
        }
    }

    async fn invoke_reference(&mut self, by: InvokedBy, reference: &str, arguments: Arguments, depth: u32) {
        let function = FnRef::parse_or_unknown(reference);
        let (source, holder) = match &by {
            InvokedBy::Client(_) => (ValueSource::Client, RefHolder::Client),
            InvokedBy::Handler(_) => (ValueSource::Handler, RefHolder::Handler),
        };
        let found = self.held_by(holder, &function);
        match (found, by) {
            (Some(Callable::Script(_, root)), by) => {
                if let Err(exceeded) = self.admit_invocation() {
                    return self.reply(by, Err(exceeded.into())).await;
                }
                let number = self.number();
                let owner = ChargedTo::Invocation(number);
                let clock = WallClock::start(Instant::now(), self.parts.limits.wall_max(), None);
                let schemas = self.schemas_of_function(holder, &function);
                let started = Instant::now();
                let refused = self.refuse_arguments(schemas.as_deref(), reference, &arguments);
                self.charge_check(None, started.elapsed());
                if let Some(error) = refused {
                    return self.reply(by, Err(error)).await;
                }
                self.invocations
                    .insert(number, Invocation { by, schemas, cpu: Duration::ZERO, clock, depth });
                let action = Action::Call { owner, function: root, arguments, source, holder };
                self.ready.push_back(Ready { owner, depth, action });
            }
            (Some(Callable::Handler(native)), by) => self.invoke_native(by, native, arguments, depth).await,
            (found @ (Some(Callable::Import(_)) | None), InvokedBy::Handler(reply)) => {
                let key = match &found {
                    Some(Callable::Import(key)) => key,
                    _ => &function,
                };
                // A handler passes trees.
                let Arguments::Trees(arguments) = arguments else { return };
                self.call_import(reply, key, arguments, depth).await;
            }
            (Some(Callable::Import(_)) | None, by @ InvokedBy::Client(_)) => {
                let error = ErrorObject::new(Kind::UnknownRef, format!("no function {reference}"));
                self.reply(by, Err(error)).await;
            }
        }
    }

    fn schemas_of_function(&self, holder: RefHolder, function: &FnRef) -> Option<Arc<FunctionSchemas>> {
        self.engine.guest.functions.borrow().schemas(holder, function.script_number()?)
    }

    fn held_by(&self, holder: RefHolder, function: &FnRef) -> Option<Callable> {
        self.engine.guest.functions.borrow().get(holder, function.script_number()?)
    }

    async fn invoke_native(&mut self, mut by: InvokedBy, native: u64, arguments: Arguments, depth: u32) {
        let arguments = match self.read_arguments(&mut by, arguments) {
            Ok(arguments) => arguments,
            Err(error) => return self.reply(by, Err(error)).await,
        };
        let Some(function) = self.dispatcher.host_functions.get(native) else {
            return self.reply(by, Err(ErrorObject::new(Kind::UnknownRef, "the function is gone"))).await;
        };
        let call = self.dispatcher.native_call(depth, Vec::new());
        let number = self.number();
        self.server_invokes.insert(number, ServerInvoke { by, cancel: call.cancel.clone() });
        let inbox_tx = self.inbox_tx.clone();
        let work = function.call(Value::Array(arguments), call);
        tokio::task::spawn_local(async move {
            let outcome = work.await.map_err(crate::binding::BindingError::into_object);
            // A session that is gone does not want to know.
            let _ = inbox_tx.send(Inbox::InvokeDone(number, outcome)).await;
        });
    }

    /// A handler calls a function of the client.
    async fn call_import(&mut self, reply: HandlerReply, key: &FnRef, arguments: Vec<Value>, depth: u32) {
        let waiter = Waiter::Handler(reply);
        match self.own_reference(key) {
            Some(id) => {
                self.call_client(waiter, Target::Reference(id), Payload::Args(arguments), depth).await
            }
            None => self.fail_call(waiter, ErrorObject::new(Kind::UnknownRef, "the function is gone")),
        }
    }

    /// A function of the script is done.
    pub(crate) async fn finish_invocation(&mut self, number: u64, settled: Settled) {
        let Some(invocation) = self.invocations.remove(&number) else {
            return;
        };
        self.engine.guest.calls.borrow_mut().close_account(ChargedTo::Invocation(number));
        let started = Instant::now();
        let outcome = settled.outcome.and_then(|encoded| {
            check_result(invocation.schemas.as_deref(), &encoded)?;
            Ok(encoded)
        });
        self.charge_check(None, started.elapsed());
        let internal = |error: serde_json::Error| ErrorObject::new(Kind::Internal, error.to_string());
        match invocation.by {
            InvokedBy::Client(requester) => {
                let answer = outcome.and_then(|value| to_raw_value(&Given { value }).map_err(internal));
                self.answer(&requester, answer).await;
            }
            InvokedBy::Handler(reply) => {
                // A handler that was cancelled does not want to know.
                let _ = reply.reply_tx.send(outcome.and_then(|value| value.into_tree().map_err(internal)));
            }
        }
    }

    /// Ends a call into the script for a reason of ours.
    pub(crate) async fn stop_invocation(&mut self, number: u64, reason: Stop) {
        let owner = ChargedTo::Invocation(number);
        self.watches.borrow_mut().retain(|watched| watched.owner != owner);
        self.abandon_calls_of(owner).await;
        let error = self.stop_error(reason, "the function was stopped");
        self.finish_invocation(number, Settled { owner, outcome: Err(error), exported: Vec::new() }).await;
    }

    /// Ends calls into the script whose time is over. Only with an empty JavaScript stack.
    pub(crate) async fn expire_invocations(&mut self, now: Instant) {
        let over = self.invocations.iter().filter(|(_, call)| call.clock.is_over(now));
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        for number in over {
            self.stop_invocation(number, Stop::Wall).await;
        }
    }

    /// A server binding that the client or a handler called is done.
    pub(crate) async fn finish_server_invoke(&mut self, number: u64, outcome: Result<Value, ErrorObject>) {
        let Some(ServerInvoke { by, .. }) = self.server_invokes.remove(&number) else {
            return;
        };
        let outcome = match &by {
            InvokedBy::Client(_) => outcome.and_then(|value| self.export_functions(value)),
            InvokedBy::Handler(_) => outcome,
        };
        self.reply(by, outcome).await;
    }

    /// Functions that a handler returns to the client become references on the wire.
    fn export_functions(&mut self, mut value: Value) -> Result<Value, ErrorObject> {
        let mut failure = None;
        fn_values::rename(&mut value, |id| {
            let exported = self.export_key(FnRef::parse_or_unknown(id));
            exported.map_err(|error| failure = Some(error)).ok().map(|id| id.to_string())
        });
        failure.map_or(Ok(value), Err)
    }

    fn export_key(&mut self, function: FnRef) -> Result<FnRef, ErrorObject> {
        let callable = match (self.held_by(RefHolder::Handler, &function), function) {
            (Some(callable), _) => callable,
            (None, FnRef::Handler(number)) => Callable::Handler(number),
            (None, function @ (FnRef::Script(_) | FnRef::Client { .. })) => Callable::Import(function),
        };
        match self.engine.guest.functions.borrow_mut().export(RefHolder::Client, callable) {
            Some(id) => Ok(FnRef::Script(id)),
            None => Err(ErrorObject::new(Kind::TooManyRefs, "too many live function references")),
        }
    }

    async fn reply(&mut self, by: InvokedBy, outcome: Result<Value, ErrorObject>) {
        match by {
            InvokedBy::Client(requester) => {
                let answer = outcome.and_then(|value| {
                    to_raw_value(&ValueResult { value })
                        .map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
                });
                self.answer(&requester, answer).await;
            }
            InvokedBy::Handler(reply) => {
                // A handler that was cancelled does not want to know.
                let _ = reply.reply_tx.send(outcome);
            }
        }
    }

    /// How many invokes an owner is inside of.
    pub(crate) fn depth_of(&self, owner: ChargedTo) -> u32 {
        match owner {
            ChargedTo::Invocation(number) => self.invocations.get(&number).map_or(0, |call| call.depth),
            ChargedTo::Eval(_) | ChargedTo::Background => 0,
        }
    }

    /// Ends everything at work or queued, and answers every request.
    pub(crate) async fn cancel_everything(&mut self, reason: Stop) {
        self.stop_eval(reason).await;
        let error = ErrorObject::new(reason.kind(), "the session was closed");
        self.drop_queued(|_| true, &error).await;
        self.cancel_work(reason, &error).await;
    }

    /// Ends everything at work, and answers the requests for it; what is queued stays.
    pub(crate) async fn cancel_work(&mut self, reason: Stop, error: &ErrorObject) {
        self.stop_eval(reason).await;
        let numbers: Vec<u64> = self.invocations.keys().copied().collect();
        for number in numbers {
            self.stop_invocation(number, reason).await;
        }
        for (_, invoke) in std::mem::take(&mut self.server_invokes) {
            invoke.cancel.cancel();
            self.reply(invoke.by, Err(error.clone())).await;
        }
        self.give_up_client_calls(error).await;
    }
}
