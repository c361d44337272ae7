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
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::schema::{FunctionSchemas, SchemaBudget};

pub(crate) use calls::{Asked, CallAnswer, CallValue, Calls, Dispatch, Reach, Settlers};
pub(crate) use console::{Console, ConsoleLine};
pub(crate) use exchange::function_number;
pub(crate) use functions::{Callable, Functions, Holder};
pub(crate) use host::{install, kit_function};
pub(crate) use roots::{Root, Roots};
pub(crate) use timers::Timers;

/// For whom JavaScript runs, so that each pays for its own calls and has its own console lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    /// The eval of that number.
    Eval(u64),
    /// A call into a function of the script.
    Invocation(u64),
    /// Jobs and timers whose eval is over.
    Nobody,
}

/// Whose references are meant by `$fn` in a value that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The client of the current connection.
    Client,
    /// A handler, which names functions by the session's own keys.
    Host,
}

/// Unhandled rejections that are kept until they are reported.
const REJECTIONS_KEPT_MAX: usize = 64;

/// The state behind the host functions of one context.
pub(crate) struct Guest {
    pub(crate) limits: Arc<Limits>,
    /// The memory of all sessions.
    pub(crate) memory: Arc<MemoryTotal>,
    pub(crate) meter: Rc<Meter>,
    pub(crate) console: RefCell<Console>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) functions: RefCell<Functions>,
    /// Functions of the client or of handlers that the script holds, with how often each was received.
    pub(crate) imports: RefCell<HashMap<String, u64>>,
    /// What those say they take and give.
    pub(crate) import_schemas: RefCell<HashMap<String, Arc<FunctionSchemas>>>,
    /// What functions of the script that were handed out are to take and give.
    pub(crate) export_schemas: RefCell<HashMap<u64, Arc<FunctionSchemas>>>,
    /// What the schemas of the client's functions are charged to.
    pub(crate) schema_budget: RefCell<SchemaBudget>,
    /// Of these, the ones that the collector dropped, with how often they were received.
    pub(crate) dropped: RefCell<Vec<(String, u64)>>,
    /// The number of the connection, which keeps the references of different ones apart.
    pub(crate) attachment: Cell<u64>,
    /// The server's bindings as the scripts see them, until the next eval begins.
    pub(crate) server_catalog: RefCell<Arc<Catalog>>,
    /// The bindings of the client. One that has the name of a server binding hides that.
    pub(crate) client_catalog: RefCell<Arc<Catalog>>,
    pub(crate) owner: Cell<Owner>,
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
    pub(crate) fn new(limits: Arc<Limits>, memory: Arc<MemoryTotal>) -> Rc<Self> {
        Rc::new(Self {
            meter: Rc::new(Meter::new()),
            console: RefCell::new(Console::new(limits.console_bytes_max)),
            timers: RefCell::new(Timers::new(limits.timers_max)),
            calls: RefCell::new(Calls::default()),
            functions: RefCell::new(Functions::new(limits.references_max)),
            imports: RefCell::default(),
            import_schemas: RefCell::default(),
            export_schemas: RefCell::default(),
            schema_budget: RefCell::new(SchemaBudget::new(0)),
            dropped: RefCell::default(),
            attachment: Cell::new(0),
            server_catalog: RefCell::default(),
            client_catalog: RefCell::default(),
            owner: Cell::new(Owner::Nobody),
            has_shadows: Cell::new(false),
            dispatch: RefCell::new(None),
            roots: Rc::default(),
            rejections: RefCell::default(),
            kit: RefCell::new(None),
            epoch: Instant::now(),
            eval_started: Cell::new(Instant::now()),
            limits,
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

    /// The connection is over: its functions can no longer be called, so that their schemas go. The names of its bindings
    /// stay: scripts have them until the next client comes.
    pub(crate) fn drop_client_schemas(&self) {
        self.import_schemas.take();
        let names_only = self.client_catalog.borrow().names_only();
        self.client_catalog.replace(Arc::new(names_only));
        self.drop_stale_schemas();
    }

    /// Drops the schemas of functions of the script that are not held any more.
    fn drop_stale_schemas(&self) {
        let functions = self.functions.borrow();
        self.export_schemas.borrow_mut().retain(|id, _| functions.holds(*id));
    }

    /// How many functions are known across the border, both ways.
    pub(crate) fn references(&self) -> usize {
        let functions = self.functions.borrow();
        functions.held_by(Holder::Client) + functions.held_by(Holder::Host) + self.imports.borrow().len()
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
