//! One QuickJS runtime with one context: the world of one session.
//!
//! Everything here runs inside a turn, on its coroutine. What comes out are wire values and errors, never JavaScript.

mod compile;
mod heap_runtime;
mod hooks;
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), path = "no_restore.rs")]
mod restore;
mod settle;
mod start;

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::{Ctx, Function, Object, Promise, Value as JsValue};

use super::guest::{Guest, SharedSession, kit_function};
use super::heap::{Arena, HeapMemory, HeapUsage, SlotError};
use super::host;
use super::poll_counter::PollCounter;
use super::prelude;
use super::thrown::SourceMap;
use super::total::Share;
use crate::limits::Limits;
use crate::rpc::{ErrorObject, Kind};
use crate::session::{AwaitedPromise, ContextFacts, RootId, Settled};

pub(crate) use heap_runtime::HeapRuntime;
pub(crate) use restore::{ContextCopy, DormantContext, EngineData, WakeError};
pub(crate) use start::Started;

/// Memory that must be free after the limit was hit for the context to be worth keeping.
const MEMORY_RESERVE_BYTES: usize = 1 << 20;

/// Could not make a context.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The sessions of the server use all the memory that they may.
    #[error("the memory for sessions is used up")]
    Full,
    /// There is no place for its heap.
    #[error("no room for another JavaScript context: {0}")]
    NoSlot(#[from] SlotError),
    /// QuickJS could not make it.
    #[error("no room for another JavaScript context: {0}")]
    Failed(#[from] rquickjs::Error),
}

/// What a look at an awaited promise shows.
pub(crate) enum Look {
    /// It is not over.
    Pending,
    /// It was resolved with a promise, which is awaited now in its place.
    Again,
    /// It is over.
    Over(Settled),
}

/// The context of one session. The fields are dropped in this order.
pub(crate) struct Engine {
    pub(crate) guest: Rc<Guest>,
    runtime: HeapRuntime,
    used: Rc<HeapUsage>,
    pub(crate) poll_counter: Arc<PollCounter>,
}

impl Engine {
    /// A fresh context. It serves no session until one is [attached](Self::attach).
    pub(crate) fn new(limits: Arc<Limits>, share: Share) -> Result<Self, EngineError> {
        let guest = Guest::new(limits, share.total());
        let used = Rc::new(HeapUsage::new(guest.limits.memory_bytes_max, share, Arena::new()?));
        let runtime = HeapRuntime::new(HeapMemory::new(&guest.meter, &used))?;
        runtime.attach_hooks(&guest);
        let poll_counter = runtime.enter(|ctx| PollCounter::new(ctx, used.arena().presence()));
        let poll_counter = Arc::new(poll_counter);
        let engine = Self { guest, runtime, used, poll_counter };
        engine.enter(|ctx| engine.install_prelude(ctx))?;
        engine.used.end_turn();
        Ok(engine)
    }

    fn install_prelude(&self, ctx: &Ctx<'_>) -> rquickjs::Result<()> {
        let roots = &self.guest.roots;
        roots.create(ctx)?;
        keep_shapes(ctx, &self.guest)?;
        let host = Object::new_proto(ctx.clone(), None)?;
        host::install(&host, self.runtime.host_class(), host::CORE)?;
        let kit = prelude::install(ctx, host).inspect_err(|_| {
            tracing::error!(thrown = ?ctx.catch(), "the prelude does not start");
        })?;
        self.guest.kit.set(Some(roots.hold(ctx, kit)?));
        Ok(())
    }

    /// A session takes the context.
    pub(crate) fn attach(&self, session: &Rc<SharedSession>) {
        self.guest.attach(session);
    }

    /// What the session's machine has to know of the context.
    pub(crate) fn facts(&self) -> ContextFacts {
        ContextFacts {
            has_jobs: self.has_jobs(),
            memory_bytes: self.memory_bytes(),
            refused_by_total: self.used.refused_by_total(),
            is_overdrawn: self.used.is_overdrawn(),
        }
    }

    /// Whether it was made for a server with these limits. Bindings are set when a session takes it.
    pub(crate) fn is_of(&self, limits: &Arc<Limits>) -> bool {
        Arc::ptr_eq(&self.guest.limits, limits)
    }

    /// Enters the context from the stack that we are on.
    pub(crate) fn enter<R>(&self, work: impl FnOnce(&Ctx<'_>) -> R) -> R {
        self.runtime.enter(work)
    }

    /// Tells the script which bindings there are now.
    pub(crate) fn set_bindings<'a>(
        &self,
        ctx: &Ctx<'_>,
        names: impl Iterator<Item = &'a str>,
    ) -> rquickjs::Result<()> {
        let list = host::new_list(ctx)?;
        let mut length = 0;
        for name in names {
            list.set(length, name.split('.').count())?;
            length += 1;
            for text in name.split('.').chain([name]) {
                list.set(length, text)?;
                length += 1;
            }
        }
        self.kit(ctx, "setBindings")?.call((list,))
    }

    /// Makes a copy of the heap draw other random numbers than this one.
    pub(crate) fn forget_random_words(&self) {
        self.enter(|ctx| {
            let forgotten = self.kit(ctx, "forgetRandomWords").and_then(|forget| forget.call::<_, ()>(()));
            self.ignore(ctx, forgotten);
        });
    }

    /// Whether jobs are left over.
    pub(crate) fn has_jobs(&self) -> bool {
        self.runtime.is_job_pending()
    }

    /// Frees what it can after the memory limit was hit; `false` when there is still no room to work.
    pub(crate) fn recover_memory(&self, ctx: &Ctx<'_>, declared: &[String]) -> bool {
        let globals: Object<'_> = ctx.globals();
        for name in declared {
            let cleared = globals.set(name.as_str(), JsValue::new_undefined(ctx.clone()));
            self.ignore(ctx, cleared);
        }
        ctx.run_gc();
        let limit = self.guest.limits.memory_bytes_max;
        self.used.end_turn();
        self.used.bytes() + MEMORY_RESERVE_BYTES.min(limit / 8) <= limit && !self.used.is_overdrawn()
    }

    /// The account of its memory.
    pub(crate) fn used(&self) -> &HeapUsage {
        &self.used
    }

    /// Bytes of the JavaScript heap in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::try_from(self.used.bytes()).unwrap_or(u64::MAX)
    }

    pub(super) fn kit<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
        kit_function(&self.guest.kit(ctx)?, name)
    }

    /// Holds a promise for the session, which awaits it between turns.
    fn hold<'js>(&self, ctx: &Ctx<'js>, promise: Promise<'js>) -> Result<RootId, ErrorObject> {
        let held = self.guest.roots.hold(ctx, promise);
        held.map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
    }

    pub(super) fn ignore<T>(&self, ctx: &Ctx<'_>, result: rquickjs::Result<T>) {
        if let Err(error) = result
            && error.is_exception()
        {
            ctx.catch();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.poll_counter.detach();
        if Arena::GOES_WHOLE {
            self.guest.roots.forget();
        } else {
            self.guest.roots.clear();
        }
    }
}

/// Keeps an empty object of each common prototype. QuickJS forgets the shape of empty objects with the last one of them,
/// and would make it anew for nearly every object and function.
fn keep_shapes(ctx: &Ctx<'_>, guest: &Guest) -> rquickjs::Result<()> {
    let functions = Function::prototype(ctx.clone());
    for prototype in [None, Some(&functions)] {
        guest.roots.hold(ctx, Object::new_proto(ctx.clone(), prototype)?)?;
    }
    guest.roots.hold(ctx, Object::new(ctx.clone())?)?;
    Ok(())
}

/// The source of an awaited promise, for the stack traces of its errors.
fn map_of(awaited: &AwaitedPromise) -> SourceMap<'_> {
    SourceMap { name: &awaited.name, positions: &awaited.positions }
}
