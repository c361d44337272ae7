//! What a script and its session share: the state behind the host functions.
//!
//! Host functions run inside JavaScript, where nothing may be awaited and the turn may be suspended at any moment.
//! So they only write down what the script asked for; the session looks when the turn is over. No borrow of these
//! cells is ever held while JavaScript runs.

mod calls;
mod console;
mod exchange;
mod functions;
mod host;
mod outgoing;
mod roots;
mod timers;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rquickjs::{Object, Persistent, Value as JsValue};

use super::meter::Meter;
use super::total::MemoryTotal;
use crate::binding::Registry;
use crate::limits::Limits;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::references::Imports;
use crate::schema::SchemaBudget;
use crate::schema::{FunctionParam, FunctionSchemas};

pub(crate) use calls::{CallAnswer, CallRequest, CallTarget, CallValue, Calls, Dispatch, Settlers};
pub(crate) use console::{Console, ConsoleLine};
pub(crate) use functions::{Callable, Functions, RefHolder};
pub(crate) use host::{install, kit_function};
pub(crate) use roots::{Root, Roots};
pub(crate) use timers::Timers;

/// What JavaScript that runs, a call or a timer is charged to: each has its own budget and its own console lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ChargedTo {
    /// The eval of that number.
    Eval(u64),
    /// A call into a function of the script.
    Invocation(u64),
    /// Jobs and timers whose eval is over.
    Background,
}

/// Whose references are meant by `$fn` in a value that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// The client of the current connection.
    Client,
    /// A handler, which names functions as the session does.
    Handler,
}

/// Unhandled rejections that are kept until they are reported.
const REJECTIONS_KEPT_MAX: usize = 64;

/// The state behind the host functions of one context.
pub(crate) struct Guest {
    pub(crate) limits: Arc<Limits>,
    pub(crate) registry: Arc<Registry>,
    /// The memory of all sessions.
    pub(crate) memory: Arc<MemoryTotal>,
    pub(crate) meter: Rc<Meter>,
    pub(crate) console: RefCell<Console>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) functions: RefCell<Functions>,
    /// Functions of the client or of handlers that the script holds, with what they declare to take and return.
    pub(crate) imports: RefCell<Imports<FnRef, Option<Arc<FunctionSchemas>>>>,
    /// What the schemas of the client's functions are charged to.
    pub(crate) schema_budget: RefCell<SchemaBudget>,
    /// Of these, the ones that the collector dropped, with how often they were received.
    pub(crate) dropped: RefCell<Vec<(FnRef, u64)>>,
    /// The number of the connection, which keeps the references of different ones apart.
    pub(crate) attachment: Cell<u64>,
    /// The client's bindings, and where typed functions stand in their inputs.
    pub(crate) client_bindings: RefCell<HashMap<String, Vec<FunctionParam>>>,
    pub(crate) owner: Cell<ChargedTo>,
    /// Whether a script has put something in the place of a binding.
    pub(crate) has_shadows: Cell<bool>,
    /// Where calls of the script go.
    pub(crate) dispatch: RefCell<Option<Rc<Dispatch>>>,
    /// What the session holds of the context.
    pub(crate) roots: Rc<Roots>,
    pub(crate) rejections: RefCell<Vec<Rejection>>,
    pub(crate) kit: RefCell<Option<Persistent<Object<'static>>>>,
    pub(crate) epoch: Instant,
    pub(crate) eval_started: Cell<Instant>,
}

/// A promise that was rejected with nobody listening.
pub(crate) struct Rejection {
    pub(crate) promise: Persistent<JsValue<'static>>,
    pub(crate) reason: Persistent<JsValue<'static>>,
}

impl Guest {
    /// The state of a fresh context.
    pub(crate) fn new(limits: Arc<Limits>, registry: Arc<Registry>, memory: Arc<MemoryTotal>) -> Rc<Self> {
        Rc::new(Self {
            meter: Rc::new(Meter::new()),
            console: RefCell::new(Console::new(limits.console_bytes_max)),
            timers: RefCell::new(Timers::new(limits.timers_max)),
            calls: RefCell::new(Calls::default()),
            functions: RefCell::new(Functions::new(limits.references_max)),
            imports: RefCell::new(Imports::new(limits.references_max)),
            schema_budget: RefCell::new(SchemaBudget::new(0)),
            dropped: RefCell::default(),
            attachment: Cell::new(0),
            client_bindings: RefCell::default(),
            owner: Cell::new(ChargedTo::Background),
            has_shadows: Cell::new(false),
            dispatch: RefCell::new(None),
            roots: Rc::default(),
            rejections: RefCell::default(),
            kit: RefCell::new(None),
            epoch: Instant::now(),
            eval_started: Cell::new(Instant::now()),
            limits,
            registry,
            memory,
        })
    }

    /// Notes a rejection, or that it was handled after all.
    pub(crate) fn track_rejection<'js>(
        &self,
        ctx: &rquickjs::Ctx<'js>,
        promise: JsValue<'js>,
        reason: JsValue<'js>,
        handled: bool,
    ) {
        let mut rejections = self.rejections.borrow_mut();
        if handled {
            rejections.retain(|known| known.promise.clone().restore(ctx).is_ok_and(|known| known != promise));
        } else if rejections.len() < REJECTIONS_KEPT_MAX {
            rejections.push(Rejection {
                promise: Persistent::save(ctx, promise),
                reason: Persistent::save(ctx, reason),
            });
        }
    }

    /// The connection is over: its functions can no longer be called, so that their schemas go.
    pub(crate) fn drop_client_schemas(&self) {
        self.imports.borrow_mut().payloads_mut().for_each(|schemas| *schemas = None);
        self.client_bindings.take();
    }

    /// How many functions are known across the border, both ways.
    pub(crate) fn references(&self) -> usize {
        let functions = self.functions.borrow();
        functions.held_by(RefHolder::Client)
            + functions.held_by(RefHolder::Handler)
            + self.imports.borrow().len()
    }

    /// Lets go of everything that lives in the context, which is about to be freed.
    pub(crate) fn clear(&self) {
        self.calls.take();
        self.roots.close();
        self.functions.borrow_mut().clear();
        self.rejections.take();
        self.kit.take();
    }
}

#[cfg(test)]
mod tests;
