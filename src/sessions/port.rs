//! What a host does with the messages of a session, wherever the session runs: it passes them to connections, handlers,
//! quotas, metrics and the audit log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, poll_fn};
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::{Instrument as _, Span};

use super::describe::{self, VisibleBindings};
use super::events::ConnectionEvent;
use super::link::SessionLink;
use super::residency::{Residency, ResidencyCounts};
use crate::binding::{
    BegunCall, BindingError, Call, CallContext, Callbacks, CancelSignal, FunctionRef, Handlers,
    HostFunctions, SessionScope, tags,
};
use crate::limits::{DURATION_MAX, Limits};
use crate::observe;
use crate::protocol::client_messages::{Closing, ToClient};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{Payload, RawPayload};
use crate::protocol::shape::Shape;
use crate::rpc::{ErrorObject, Kind};
use crate::session::boundary::{
    FromSession, HandlerCall, HandlerInput, HandlerTarget, Observation, ToSession,
};

/// When an invoke that found the budget of its connection used up is worth another attempt.
const BUDGET_RETRY_MS: u64 = 100;

/// A handler at work.
type RunningWork = BoxFuture<'static, Result<Value, ErrorObject>>;

/// Handlers at work, by the session's numbers for their calls.
type RunningHandlers = Rc<RefCell<BTreeMap<u64, CancelSignal>>>;

/// See the module. There is one per session, in a `LocalSet`: handlers work as tasks beside it. Dropped, it ends the
/// session for its connections and handlers, if the session has not said so itself.
pub(super) struct SessionPort {
    link: Arc<SessionLink>,
    scope: Arc<SessionScope>,
    handlers: Arc<Handlers>,
    limits: Arc<Limits>,
    host_functions: HostFunctions,
    callbacks: Callbacks,
    running: RunningHandlers,
    levels: RefCell<observe::Levels>,
    residency: RefCell<Residency>,
    /// One permit, for the list of bindings that is being written.
    describe_slot: Arc<Semaphore>,
}

impl SessionPort {
    /// The port of the session behind a link.
    pub(super) fn new(
        link: Arc<SessionLink>,
        scope: Arc<SessionScope>,
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        residency: &Arc<ResidencyCounts>,
    ) -> Self {
        let callbacks = Callbacks::new(Arc::<SessionLink>::clone(&link));
        Self {
            link,
            scope,
            handlers,
            limits,
            host_functions: HostFunctions::default(),
            callbacks,
            running: RunningHandlers::default(),
            levels: RefCell::default(),
            residency: RefCell::new(Residency::new(residency)),
            describe_slot: Arc::new(Semaphore::new(1)),
        }
    }

    /// The same for a fork of another one, which has those functions of handlers that `is_kept` accepts.
    pub(super) fn with_functions_of(mut self, origin: &HostFunctions, is_kept: impl Fn(u64) -> bool) -> Self {
        self.host_functions = origin.fork(is_kept);
        self
    }

    /// The functions of handlers that the session may hold.
    pub(super) fn host_functions(&self) -> &HostFunctions {
        &self.host_functions
    }

    /// Numbers of the host begin after this one.
    pub(super) fn number_from(&self, last_number: u64) {
        self.link.number_from(last_number);
        self.host_functions.number_from(last_number);
    }

    /// Begins a handler's work.
    fn begin(&self, call: HandlerCall, cancel: &CancelSignal) -> BegunCall {
        self.try_begin(call, cancel).unwrap_or_else(|error| BegunCall::Done(Err(error)))
    }

    fn try_begin(&self, call: HandlerCall, cancel: &CancelSignal) -> Result<BegunCall, ErrorObject> {
        let HandlerCall { target, input, depth, eval_id, script_call, .. } = call;
        let caller = match &input {
            HandlerInput::Value { .. } => CallContext::Script,
            HandlerInput::Text { .. } => CallContext::Client,
        };
        let default = Duration::from_millis(self.limits.binding_ms_max);
        let make_call = |functions: Vec<FunctionRef>, timeout: Option<Duration>| Call {
            session: Arc::clone(&self.scope),
            // A declaration may name any number.
            deadline: Instant::now() + timeout.unwrap_or(default).min(DURATION_MAX),
            cancel: cancel.clone(),
            depth,
            eval_id,
            script_call,
            link: self.callbacks.clone(),
            host_functions: self.host_functions.clone(),
            functions,
        };
        // Before anything is refused, so that they are given back in that case too.
        let (input, functions) = self.hold_functions(input);
        match target {
            HandlerTarget::Binding(number) => {
                let Some(binding) = self.handlers.at(number) else {
                    return Err(ErrorObject::new(Kind::UnknownBinding, "the binding was removed"));
                };
                let (input, functions) = self.read_input(input, functions)?;
                let call = make_call(functions, binding.timeout);
                Ok(binding.begin(input, call, caller))
            }
            HandlerTarget::Function(number) => {
                let Some(function) = self.host_functions.get(number) else {
                    return Err(ErrorObject::new(Kind::UnknownRef, "the function is gone"));
                };
                let arguments = self.read_arguments(input)?;
                let mut work = function.call(arguments, make_call(functions, None));
                Ok(match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => BegunCall::Done(outcome.map_err(BindingError::into_object)),
                    // The next poll brings a waker.
                    Poll::Pending => {
                        BegunCall::Running(Box::pin(
                            async move { work.await.map_err(BindingError::into_object) },
                        ))
                    }
                })
            }
            HandlerTarget::DescribeNames { server, client, names, is_brief } => {
                let bindings = VisibleBindings { server, client };
                let account = Arc::clone(&self.scope.principal.account);
                let slot = Arc::clone(&self.describe_slot);
                let question = describe::Question { names, is_brief };
                Ok(BegunCall::Running(Box::pin(describe::explain(bindings, question, account, slot))))
            }
            HandlerTarget::Describe { server, client, query } => {
                let bindings = VisibleBindings { server, client };
                let account = Arc::clone(&self.scope.principal.account);
                let slot = Arc::clone(&self.describe_slot);
                Ok(BegunCall::Running(match query {
                    Some(query) => {
                        Box::pin(async move { Ok(describe::search(bindings, query, account, slot).await) })
                    }
                    None => Box::pin(async move { Ok(describe::write_types(bindings, account, slot).await) }),
                }))
            }
        }
    }

    /// The input of a binding, and the functions in it that the handler holds while it works.
    fn read_input(
        &self,
        input: HandlerInput,
        functions: Vec<FunctionRef>,
    ) -> Result<(Value, Vec<FunctionRef>), ErrorObject> {
        match input {
            HandlerInput::Value { value, .. } => Ok((value, functions)),
            HandlerInput::Text { payload, connection, charge } => {
                let arguments = self.read_text(&payload, charge)?;
                let Ok([input]) = <[Value; 1]>::try_from(arguments) else {
                    return Err(ErrorObject::new(Kind::InvalidParams, "a binding takes `input`"));
                };
                // A handler sees the session's names for functions, and holds them while it works.
                let input = fn_values::scope_to_connection(input, connection);
                let functions = fn_values::names(&input);
                Ok((input, self.function_refs(functions)))
            }
        }
    }

    /// The arguments of a handler's function, as a list.
    fn read_arguments(&self, input: HandlerInput) -> Result<Value, ErrorObject> {
        match input {
            HandlerInput::Value { value, .. } => Ok(value),
            HandlerInput::Text { payload, charge, .. } => Ok(Value::Array(self.read_text(&payload, charge)?)),
        }
    }

    /// Takes over the functions that come with an input.
    fn hold_functions(&self, mut input: HandlerInput) -> (HandlerInput, Vec<FunctionRef>) {
        let functions = match &mut input {
            HandlerInput::Value { functions, .. } => std::mem::take(functions),
            HandlerInput::Text { .. } => Vec::new(),
        };
        (input, self.function_refs(functions))
    }

    fn function_refs(&self, functions: Vec<FnRef>) -> Vec<FunctionRef> {
        functions.into_iter().map(|id| FunctionRef::new(id, self.callbacks.clone())).collect()
    }

    /// Makes values of what the client sent: the client is charged for what they take in memory.
    fn read_text(&self, payload: &RawPayload, charge: u64) -> Result<Vec<Value>, ErrorObject> {
        let (bytes, max) = (Shape::of(payload.text()).tree_bytes, self.limits.connection_bytes_max);
        if bytes > max {
            let message = format!("the input takes more than {max} bytes in memory");
            return Err(ErrorObject::new(Kind::InvalidParams, message));
        }
        if !self.link.try_grow_charge(charge, bytes) {
            return Err(out_of_budget());
        }
        let payload = payload.parse()?;
        tags::check_payload(&payload)?;
        Ok(match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(arguments) => arguments,
        })
    }

    /// Lets a handler work beside the session; its answer comes as a message.
    fn spawn(&self, number: u64, eval: Option<u64>, mut work: RunningWork, cancel: CancelSignal) {
        self.running.borrow_mut().insert(number, cancel);
        let (link, running) = (Arc::clone(&self.link), Rc::clone(&self.running));
        let deliver = async move {
            // Functions that the handler did not keep are released after its answer, which may contain them.
            let (outcome, held) = poll_fn(|cx| {
                let held = link.hold_releases();
                work.poll_unpin(cx).map(|outcome| (outcome, held))
            })
            .await;
            running.borrow_mut().remove(&number);
            // A session that has ended needs no answer.
            let _ = link.send(ToSession::HandlerDone { number, outcome }).await;
            drop(held);
        };
        // What a handler logs is logged for the session, and for the eval that it works for.
        let span = eval.map_or_else(Span::current, |number| tracing::info_span!("eval", number));
        tokio::task::spawn_local(deliver.instrument(span));
    }

    fn cancel(&self, number: u64) {
        if let Some(cancel) = self.running.borrow_mut().remove(&number) {
            cancel.cancel();
        }
    }

    /// Counts CPU time. Returns what the session has to know about its quota.
    fn charge(&self, cpu: Duration, slices: u32) -> Option<ToSession> {
        observe::record_slices(slices);
        let account = &self.scope.principal.account;
        let is_overdrawn = account.charge_cpu(cpu, Instant::now);
        let exceeded = account.check_cpu(Instant::now).err()?;
        Some(ToSession::CpuQuota { exceeded, is_overdrawn })
    }

    fn observe(&self, observation: Observation) {
        match observation {
            Observation::EvalFinished { number, error, took } => {
                observe::record_eval(number, error.as_ref(), took);
            }
            Observation::ClientCalled { error } => observe::record_client_call(error.as_ref()),
            Observation::Refused { reason } => observe::record_refusal(observe::refusal_reason(&reason)),
            Observation::Levels { references, evals_queued } => {
                self.levels.borrow_mut().set(references, evals_queued);
            }
            Observation::Hibernated { bytes } => self.residency.borrow_mut().hibernate(bytes),
            Observation::Woken { took } => self.residency.borrow_mut().wake(took),
        }
    }

    fn send_event(&self, connection: u64, event: ToClient) -> Option<ToSession> {
        let is_last = matches!(event, ToClient::Close(_));
        let is_sent = self.link.send_event(connection, ConnectionEvent::Session(event));
        if is_last {
            self.link.disconnect(connection);
        }
        (!is_sent && !is_last).then_some(ToSession::Stalled { connection })
    }

    fn end(&self, connection: Option<u64>, closing: Closing) {
        // First, so that a connection on another thread that hears of the end finds the session gone.
        self.link.mark_ended();
        match connection {
            Some(connection) => {
                self.link.send_event(connection, ConnectionEvent::Session(ToClient::Close(closing)));
            }
            // A session that was lost cannot say which one holds it.
            None => self.link.close_connections(closing),
        }
        self.link.end();
        for cancel in std::mem::take(&mut *self.running.borrow_mut()).into_values() {
            cancel.cancel();
        }
    }
}

impl SessionPort {
    /// Takes a message of the session. What it returns is for the session, before anything that waits in its inbox.
    pub(super) fn receive(&self, message: FromSession) -> Option<ToSession> {
        self.link.flush();
        match message {
            FromSession::Attached { connection, evals_queued } => {
                self.link.send_event(connection, ConnectionEvent::Attached(evals_queued));
            }
            FromSession::Client { connection, event } => return self.send_event(connection, event),
            FromSession::CallHandler(call) => {
                let number = call.number;
                return self.call(call).map(|outcome| ToSession::HandlerDone { number, outcome });
            }
            FromSession::CancelHandler { number } => self.cancel(number),
            FromSession::HandlerAnswered { request, outcome } => self.link.answer_handler(request, outcome),
            FromSession::ReleaseFunctions(functions) => {
                functions.into_iter().for_each(|number| self.host_functions.remove(number));
            }
            FromSession::Discharge { charge, is_open } => self.link.discharge(charge, is_open),
            FromSession::Dequeued { charge } => self.link.dequeue(charge),
            FromSession::Used { cpu, slices } => return self.charge(cpu, slices),
            FromSession::Observed(observation) => self.observe(observation),
            FromSession::Info { request, info } => self.link.answer_inspection(request, info),
            FromSession::Suspended { connection } => {
                self.link.mark_suspended();
                self.end(connection, Closing::GoingAway);
            }
            FromSession::Ended { connection, closing } => self.end(connection, closing),
        }
        None
    }

    /// Starts a handler for the running script. Returns the outcome if the handler is ready without waiting; otherwise it
    /// comes as a message.
    pub(super) fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        let (number, eval, cancel) = (call.number, call.eval, CancelSignal::default());
        match self.begin(call, &cancel) {
            BegunCall::Done(outcome) => Some(outcome),
            BegunCall::Running(work) => {
                self.spawn(number, eval, work, cancel);
                None
            }
        }
    }
}

impl Drop for SessionPort {
    /// A session whose task is dropped, with its shard or by a panic, has ended too.
    fn drop(&mut self) {
        if !self.link.is_marked_ended() {
            self.end(None, Closing::Fault);
        }
    }
}

/// Counts and refuses a request for which the budget of bytes in flight has no room.
pub(crate) fn out_of_budget() -> ErrorObject {
    observe::record_refusal("bytes-in-flight");
    let message = "the requests in flight take too many bytes";
    ErrorObject::new(Kind::Busy, message).with("retryAfterMs", BUDGET_RETRY_MS)
}
