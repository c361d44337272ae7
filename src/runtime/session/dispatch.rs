//! Where the calls of a script go.
//!
//! A handler that is ready at once answers inside the turn, with no way round through the session. Everything else
//! is put down here and started by the session when the turn is over or suspended.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::context_pool::{self, ContextPurpose};
use super::super::engine::{Engine, EngineError};
use super::super::guest::{Asked, CallAnswer, CallValue, Origin, Owner, Reach};
use super::super::shard::Shard;
use super::super::total::MemoryTotal;
use crate::binding::{
    Binding, Call, CallContext, Callbacks, FunctionRef, HostFunctions, Registry, SessionScope,
};
use crate::limits::{DURATION_MAX, Limits};
use crate::protocol::methods::Payload;
use crate::rpc::{ErrorObject, Kind};

/// A handler at work.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Value, ErrorObject>> + Send>>;

/// A call that was not answered at once.
pub(crate) enum Pending {
    /// A handler is at work.
    Server { call: u64, owner: Owner, work: Work, cancel: CancellationToken },
    /// It goes to the client.
    Client { asked: Asked, depth: u32 },
}

/// Sends the calls of a script on their way.
pub(crate) struct Dispatcher {
    /// Where the session lives; absent elsewhere than on a shard.
    pub(crate) shard: Option<Shard>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) scope: Arc<SessionScope>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) memory: Arc<MemoryTotal>,
    pub(crate) link: Callbacks,
    pub(crate) host_functions: HostFunctions,
    /// How many invokes the running turn is inside of.
    pub(crate) depth: Cell<u32>,
    /// The JSON-RPC id of the running eval.
    pub(crate) eval_id: RefCell<Option<Value>>,
    pub(crate) pending: RefCell<Vec<Pending>>,
}

impl Dispatcher {
    /// A world whose calls come here.
    pub(crate) fn make_engine(self: &Rc<Self>, need: ContextPurpose) -> Result<Engine, EngineError> {
        let engine = context_pool::take(&self.limits, &self.registry, &self.memory, need)?;
        let dispatcher = Rc::clone(self);
        engine.dispatch_to(Rc::new(move |asked| dispatcher.dispatch(asked)));
        Ok(engine)
    }

    /// Takes a call; an answer that is there at once is returned.
    pub(crate) fn dispatch(&self, asked: Asked) -> Option<CallAnswer> {
        if self.shard.as_ref().is_some_and(Shard::is_retired) {
            // The client is gone and the session lost: a call would act for a session that does not exist any more.
            return Some((Err(ErrorObject::new(Kind::SessionClosed, "the session is lost")), Origin::Host));
        }
        let depth = self.depth.get() + 1;
        if depth > self.limits.invoke_depth_max {
            let message = format!("invokes are nested deeper than {}", self.limits.invoke_depth_max);
            return Some((Err(ErrorObject::new(Kind::TooDeep, message)), Origin::Host));
        }
        match &asked.reach {
            Reach::Server(number) => {
                let Some(binding) = self.registry.at(*number).cloned() else {
                    let message = format!("the server has no binding {number}");
                    return Some((Err(ErrorObject::new(Kind::UnknownBinding, message)), Origin::Host));
                };
                let Payload::Input(input) = asked.payload else {
                    return None;
                };
                let mut call = self.call(&binding, depth, asked.functions);
                call.script_call = Some(asked.call);
                let cancel = call.cancel.clone();
                let work = Box::pin(binding.invoke(input, call, CallContext::Script));
                self.start(asked.call, asked.owner, work, cancel)
            }
            Reach::Import(key) => match key.strip_prefix("native:").and_then(|number| number.parse().ok()) {
                Some(number) => self.call_native(number, asked, depth),
                None => {
                    self.pending.borrow_mut().push(Pending::Client { asked, depth });
                    None
                }
            },
            Reach::Client(_) => {
                self.pending.borrow_mut().push(Pending::Client { asked, depth });
                None
            }
        }
    }

    fn call_native(&self, number: u64, asked: Asked, depth: u32) -> Option<CallAnswer> {
        let Some(function) = self.host_functions.get(number) else {
            return Some((Err(ErrorObject::new(Kind::UnknownRef, "the function is gone")), Origin::Host));
        };
        let mut call = self.native_call(depth, asked.functions);
        call.script_call = Some(asked.call);
        let cancel = call.cancel.clone();
        let arguments = match asked.payload {
            Payload::Args(arguments) => Value::Array(arguments),
            Payload::Input(input) => Value::Array(vec![input]),
        };
        let work = function.call(arguments, call);
        let work = Box::pin(async move { work.await.map_err(crate::binding::BindingError::into_object) });
        self.start(asked.call, asked.owner, work, cancel)
    }

    fn start(
        &self,
        call: u64,
        owner: Owner,
        mut work: Work,
        cancel: CancellationToken,
    ) -> Option<CallAnswer> {
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some((outcome.map(CallValue::Tree), Origin::Host)),
            // Whoever polls it next brings a waker; the first poll of a fresh task always happens.
            Poll::Pending => {
                self.pending.borrow_mut().push(Pending::Server { call, owner, work, cancel });
                None
            }
        }
    }

    /// What a handler of `binding` is told of a call.
    pub(crate) fn call(&self, binding: &Binding, depth: u32, functions: Vec<String>) -> Call {
        let timeout = binding.timeout.unwrap_or(Duration::from_millis(self.limits.binding_ms_max));
        // A declaration may name any number.
        let timeout = timeout.min(DURATION_MAX);
        self.new_call(timeout, depth, functions)
    }

    /// What a function that a handler gave away is told of a call.
    pub(crate) fn native_call(&self, depth: u32, functions: Vec<String>) -> Call {
        self.new_call(Duration::from_millis(self.limits.binding_ms_max), depth, functions)
    }

    fn new_call(&self, timeout: Duration, depth: u32, functions: Vec<String>) -> Call {
        let hold = |id| FunctionRef::new(id, self.link.clone());
        Call {
            session: Arc::clone(&self.scope),
            deadline: Instant::now() + timeout,
            cancel: CancellationToken::new(),
            depth,
            eval_id: self.eval_id.borrow().clone(),
            script_call: None,
            link: self.link.clone(),
            host_functions: self.host_functions.clone(),
            functions: functions.into_iter().map(hold).collect(),
        }
    }
}
