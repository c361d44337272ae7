//! What a script and its session share: the state behind the host functions.
//!
//! Host functions run inside JavaScript, where nothing may be awaited and the turn may be suspended at any moment.
//! They change the tables of the session and send nothing; the driver does when the turn is over or suspended. No borrow
//! of the session is ever held while JavaScript runs.

mod exchange;
mod host;
mod outgoing;
mod roots;

use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use rquickjs::Value as JsValue;

use super::clock::Clock;
use super::meter::Meter;
use super::port::Port;
use super::total::{Claim, MemoryTotal};
use crate::limits::Limits;
use crate::schema::SchemaBudget;
use crate::session::tables::Rejection;
use crate::session::{RootId, Session, SessionState, Time};

pub(crate) use host::kit_function;
pub(crate) use roots::{Roots, RootsData};

/// Unhandled rejections that are kept until they are reported.
const REJECTIONS_KEPT_MAX: usize = 64;

/// A session and its surroundings, shared by its driver and its context.
pub(crate) struct SharedSession {
    pub(crate) machine: RefCell<Session>,
    pub(crate) clock: Clock,
    /// Absent for a context that serves no session, as in tests.
    pub(crate) port: Option<Rc<dyn Port>>,
}

/// The state behind the host functions of one context.
pub(crate) struct Guest {
    pub(crate) limits: Arc<Limits>,
    pub(crate) meter: Rc<Meter>,
    /// Set when a session takes the context.
    session: OnceCell<Rc<SharedSession>>,
    /// What the schemas of the client's functions are charged to.
    pub(crate) schema_budget: RefCell<SchemaBudget>,
    pub(crate) roots: Roots,
    /// The functions of the prelude.
    pub(crate) kit: Cell<Option<RootId>>,
    /// The part of the memory of all sessions that payloads of calls take.
    pub(crate) claim: RefCell<Claim>,
}

impl Guest {
    /// The state of a fresh context.
    pub(crate) fn new(limits: Arc<Limits>, memory: &Arc<MemoryTotal>) -> Rc<Self> {
        Rc::new(Self {
            meter: Rc::new(Meter::new()),
            session: OnceCell::new(),
            schema_budget: RefCell::new(SchemaBudget::new(0)),
            roots: Roots::default(),
            kit: Cell::new(None),
            claim: RefCell::new(Claim::empty(memory)),
            limits,
        })
    }

    /// A session takes the context; only once.
    pub(crate) fn attach(&self, session: &Rc<SharedSession>) {
        let is_first = self.session.set(Rc::clone(session)).is_ok();
        debug_assert!(is_first, "a context serves one session");
    }

    /// The session; one of its own where none took the context.
    pub(crate) fn shared(&self) -> &SharedSession {
        self.session.get_or_init(|| {
            let state = SessionState::new(
                String::new(),
                String::new(),
                Arc::default(),
                &self.limits,
                Time::default(),
            );
            let machine = RefCell::new(Session::new(state, Arc::clone(&self.limits)));
            Rc::new(SharedSession { machine, clock: Clock::start(), port: None })
        })
    }

    pub(crate) fn machine(&self) -> Ref<'_, Session> {
        self.shared().machine.borrow()
    }

    pub(crate) fn machine_mut(&self) -> RefMut<'_, Session> {
        self.shared().machine.borrow_mut()
    }

    /// Notes a rejection, or that it was handled after all.
    pub(crate) fn track_rejection<'js>(
        &self,
        ctx: &rquickjs::Ctx<'js>,
        promise: JsValue<'js>,
        reason: JsValue<'js>,
        handled: bool,
    ) {
        if handled {
            return self.forget_rejection(ctx, &promise);
        }
        if self.machine().state.rejections.len() >= REJECTIONS_KEPT_MAX {
            return;
        }
        let Ok(promise) = self.roots.hold(ctx, promise) else { return };
        match self.roots.hold(ctx, reason) {
            Ok(reason) => self.machine_mut().state.rejections.push(Rejection { promise, reason }),
            Err(_) => self.roots.release(promise),
        }
    }

    /// A rejection was handled.
    pub(crate) fn forget_rejection<'js>(&self, ctx: &rquickjs::Ctx<'js>, promise: &JsValue<'js>) {
        let is_it = |known: &Rejection| {
            self.roots.get::<JsValue<'js>>(ctx, known.promise).is_ok_and(|known| known == *promise)
        };
        let known = std::mem::take(&mut self.machine_mut().state.rejections);
        let (handled, kept): (Vec<Rejection>, Vec<Rejection>) = known.into_iter().partition(is_it);
        self.machine_mut().state.rejections = kept;
        for Rejection { promise, reason } in handled {
            self.roots.release(promise);
            self.roots.release(reason);
        }
    }
}

#[cfg(test)]
mod tests;
