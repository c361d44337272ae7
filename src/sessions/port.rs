//! What a session in this process sends: to its connections, to handlers, to quotas, metrics and the audit log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::describe::{self, VisibleBindings};
use super::events::ConnectionEvent;
use super::link::SessionLink;
use crate::binding::{
    BindingError, Call, CallContext, Callbacks, FunctionRef, Handlers, HostFunctions, SessionScope, tags,
};
use crate::limits::{DURATION_MAX, Limits};
use crate::observe;
use crate::protocol::boundary::{Closing, SessionEvent};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{Payload, RawPayload};
use crate::protocol::shape::Shape;
use crate::rpc::{ErrorObject, Kind};
use crate::runtime::Port;
use crate::runtime::shard::Shard;
use crate::session::boundary::{
    FromSession, HandlerCall, HandlerInput, HandlerTarget, Observation, ToSession,
};

/// When an invoke that found the budget of its connection used up is worth another attempt.
const BUDGET_RETRY_MS: u64 = 100;

/// A handler at work.
type Work = Pin<Box<dyn Future<Output = Result<Value, ErrorObject>>>>;

/// Handlers at work, by the session's numbers for their calls.
type RunningHandlers = Rc<RefCell<BTreeMap<u64, CancellationToken>>>;

/// See the module. It lives on the session's shard.
pub(super) struct LocalPort {
    pub(super) link: Arc<SessionLink>,
    pub(super) scope: Arc<SessionScope>,
    pub(super) handlers: Arc<Handlers>,
    pub(super) limits: Arc<Limits>,
    pub(super) host_functions: HostFunctions,
    pub(super) callbacks: Callbacks,
    pub(super) shard: Shard,
    running: RunningHandlers,
    levels: RefCell<observe::Levels>,
    /// One permit, for the list of bindings that is being written.
    describe_slot: Arc<Semaphore>,
}

impl LocalPort {
    pub(super) fn new(
        link: Arc<SessionLink>,
        scope: Arc<SessionScope>,
        handlers: Arc<Handlers>,
        limits: Arc<Limits>,
        shard: Shard,
    ) -> Self {
        let callbacks = Callbacks::new(Arc::<SessionLink>::clone(&link));
        Self {
            link,
            scope,
            handlers,
            limits,
            host_functions: HostFunctions::default(),
            callbacks,
            shard,
            running: RunningHandlers::default(),
            levels: RefCell::default(),
            describe_slot: Arc::new(Semaphore::new(1)),
        }
    }

    /// Prepares a handler's work.
    fn prepare(&self, call: HandlerCall, cancel: &CancellationToken) -> Result<Work, ErrorObject> {
        let HandlerCall { target, input, depth, eval_id, script_call, .. } = call;
        let caller = match &input {
            HandlerInput::Value { .. } => CallContext::Script,
            HandlerInput::Text { .. } => CallContext::Client,
        };
        let default = Duration::from_millis(self.limits.binding_ms_max);
        let make_call = |functions: Vec<FnRef>, timeout: Option<Duration>| Call {
            session: Arc::clone(&self.scope),
            // A declaration may name any number.
            deadline: Instant::now() + timeout.unwrap_or(default).min(DURATION_MAX),
            cancel: cancel.clone(),
            depth,
            eval_id,
            script_call,
            link: self.callbacks.clone(),
            host_functions: self.host_functions.clone(),
            functions: functions.into_iter().map(|id| FunctionRef::new(id, self.callbacks.clone())).collect(),
        };
        match target {
            HandlerTarget::Binding(number) => {
                let Some(binding) = self.handlers.at(number) else {
                    return Err(ErrorObject::new(Kind::UnknownBinding, "the binding was removed"));
                };
                let (input, functions) = self.read_input(input)?;
                let call = make_call(functions, binding.timeout);
                Ok(Box::pin(binding.invoke(input, call, caller)))
            }
            HandlerTarget::Function(number) => {
                let Some(function) = self.host_functions.get(number) else {
                    return Err(ErrorObject::new(Kind::UnknownRef, "the function is gone"));
                };
                let (arguments, functions) = self.read_arguments(input)?;
                let work = function.call(arguments, make_call(functions, None));
                Ok(Box::pin(async move { work.await.map_err(BindingError::into_object) }))
            }
            HandlerTarget::Describe { server, client, query } => {
                let bindings = VisibleBindings { server, client };
                let account = Arc::clone(&self.scope.principal.account);
                let slot = Arc::clone(&self.describe_slot);
                Ok(match query {
                    Some(query) => {
                        Box::pin(async move { Ok(describe::search(bindings, query, account, slot).await) })
                    }
                    None => Box::pin(async move { Ok(describe::write_types(bindings, account, slot).await) }),
                })
            }
        }
    }

    /// The input of a binding, and the functions in it that the handler holds while it works.
    fn read_input(&self, input: HandlerInput) -> Result<(Value, Vec<FnRef>), ErrorObject> {
        match input {
            HandlerInput::Value { value, functions } => Ok((value, functions)),
            HandlerInput::Text { payload, connection, charge } => {
                let arguments = self.read_text(&payload, charge)?;
                let Ok([input]) = <[Value; 1]>::try_from(arguments) else {
                    return Err(ErrorObject::new(Kind::InvalidParams, "a binding takes `input`"));
                };
                // A handler sees the session's names for functions, and holds them while it works.
                let input = fn_values::scope_to_connection(input, connection);
                let functions = fn_values::names(&input);
                Ok((input, functions))
            }
        }
    }

    /// The arguments of a handler's function, as a list.
    fn read_arguments(&self, input: HandlerInput) -> Result<(Value, Vec<FnRef>), ErrorObject> {
        match input {
            HandlerInput::Value { value, functions } => Ok((value, functions)),
            HandlerInput::Text { payload, charge, .. } => {
                Ok((Value::Array(self.read_text(&payload, charge)?), Vec::new()))
            }
        }
    }

    /// Makes values of what the client sent: the client is charged for what they take in memory.
    fn read_text(&self, payload: &RawPayload, charge: u64) -> Result<Vec<Value>, ErrorObject> {
        let (bytes, max) = (Shape::of(payload.text()).tree_bytes, self.limits.connection_bytes_max);
        if bytes > max {
            let message = format!("the input takes more than {max} bytes in memory");
            return Err(ErrorObject::new(Kind::InvalidParams, message));
        }
        if !self.link.try_grow_charge(charge, bytes) {
            observe::record_refusal("bytes-in-flight");
            let message = "the requests in flight take too many bytes";
            return Err(ErrorObject::new(Kind::Busy, message).with("retryAfterMs", BUDGET_RETRY_MS));
        }
        let payload = payload.parse()?;
        tags::check_payload(&payload)?;
        Ok(match payload {
            Payload::Input(input) => vec![input],
            Payload::Args(arguments) => arguments,
        })
    }

    /// Lets a handler work beside the session; its answer comes as a message.
    fn spawn(&self, number: u64, eval: Option<u64>, work: Work, cancel: CancellationToken) {
        self.running.borrow_mut().insert(number, cancel);
        let (link, running) = (Arc::clone(&self.link), Rc::clone(&self.running));
        let deliver = async move {
            let outcome = work.await;
            running.borrow_mut().remove(&number);
            // A session that has ended needs no answer.
            let _ = link.send(ToSession::HandlerDone { number, outcome }).await;
            // Functions that the handler did not keep.
            link.flush();
        };
        // What a handler logs is logged for the session, and for the eval that it works for.
        let span = eval.map_or_else(Span::current, |number| tracing::info_span!("eval", number));
        tokio::task::spawn_local(deliver.instrument(span));
    }

    fn start(&self, call: HandlerCall) {
        let (number, eval, cancel) = (call.number, call.eval, CancellationToken::new());
        let work = match self.prepare(call, &cancel) {
            Ok(work) => work,
            Err(error) => Box::pin(async move { Err(error) }),
        };
        self.spawn(number, eval, work, cancel);
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
        }
    }

    fn send_event(&self, connection: u64, event: SessionEvent) -> Option<ToSession> {
        let is_last = matches!(event, SessionEvent::Close(_));
        let is_sent = self.link.send_event(connection, ConnectionEvent::Session(event));
        if is_last {
            self.link.disconnect(connection);
        }
        (!is_sent && !is_last).then_some(ToSession::Stalled { connection })
    }

    fn end(&self, connection: Option<u64>, closing: Closing) {
        // First, so that a connection on another thread that hears of the end finds the session gone.
        self.link.mark_ended();
        if let Some(connection) = connection {
            self.link.send_event(connection, ConnectionEvent::Session(SessionEvent::Close(closing)));
        }
        self.link.end();
        for cancel in std::mem::take(&mut *self.running.borrow_mut()).into_values() {
            cancel.cancel();
        }
    }
}

impl Drop for LocalPort {
    /// A session whose task is dropped, with its shard or by a panic, has ended too.
    fn drop(&mut self) {
        self.link.mark_ended();
        self.link.end();
    }
}

impl Port for LocalPort {
    fn send(&self, message: FromSession) -> Option<ToSession> {
        self.link.flush();
        match message {
            FromSession::Attached { connection, evals_queued } => {
                self.link.send_event(connection, ConnectionEvent::Attached(evals_queued));
            }
            FromSession::Client { connection, event } => return self.send_event(connection, event),
            FromSession::CallHandler(call) => self.start(call),
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
            FromSession::Ended { connection, closing } => self.end(connection, closing),
        }
        None
    }

    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>> {
        let (number, eval, cancel) = (call.number, call.eval, CancellationToken::new());
        let mut work = match self.prepare(call, &cancel) {
            Ok(work) => work,
            Err(error) => return Some(Err(error)),
        };
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            // The next poll brings a waker; the first poll of a fresh task always happens.
            Poll::Pending => {
                self.spawn(number, eval, work, cancel);
                None
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.shard.is_retired()
    }
}
