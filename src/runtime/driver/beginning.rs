//! What a session begins with: nothing, the image of another process, or the heap of another session.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::super::clock::Clock;
use super::super::context_pool::{self, ContextPurpose};
use super::super::engine::{EngineError, WakeError};
use super::super::poll_counter::PollCounter;
use super::super::stored::{RestoredParts, RestoredSession};
use super::super::total::MemoryTotal;
use super::checkpoint::HeapCheckpoint;
use super::context::Context;
use super::fork::Fork;
use crate::catalog::Catalog;
use crate::limits::Limits;
use crate::session::{RootId, Session, SessionState};
use crate::store::ImageClaim;

/// See the module.
pub(crate) enum SessionStart {
    /// A context of its own.
    Fresh(Box<SessionState>),
    /// An image of another process, with the bindings that the server has now.
    Restored(Box<RestoredSession>, Arc<Catalog>),
    /// The heap of another session.
    Fork(Box<Fork>),
}

/// The parts of a driver that depend on what its session begins with.
pub(super) struct Beginning {
    pub(super) machine: Session,
    pub(super) clock: Clock,
    pub(super) context: Context,
    pub(super) poll_counter: Arc<PollCounter>,
    pub(super) freed: Vec<RootId>,
    pub(super) checkpoints: BTreeMap<u64, Rc<HeapCheckpoint>>,
    pub(super) family: Rc<()>,
    pub(super) claim: Option<ImageClaim>,
}

impl Beginning {
    pub(super) fn new(
        start: SessionStart,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Self, EngineError> {
        match start {
            SessionStart::Fresh(state) => Self::fresh(*state, limits, memory),
            SessionStart::Restored(restored, catalog) => Self::restored(*restored, catalog, limits, memory),
            SessionStart::Fork(fork) => Ok(Self::forked(*fork, limits)),
        }
    }

    fn fresh(
        state: SessionState,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Self, EngineError> {
        let engine = context_pool::take(limits, memory, ContextPurpose::NewSession)?;
        Ok(Self {
            machine: Session::new(state, Arc::clone(limits)),
            clock: Clock::start(),
            poll_counter: Arc::clone(&engine.poll_counter),
            context: Context::new(engine),
            freed: Vec::new(),
            checkpoints: BTreeMap::new(),
            family: Rc::default(),
            claim: None,
        })
    }

    fn restored(
        restored: RestoredSession,
        catalog: Arc<Catalog>,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Self, EngineError> {
        let parts = restored.restore(limits, memory).map_err(to_engine_error)?;
        let RestoredParts { state, claim, engine, clock, stored_at } = parts;
        let mut machine = Session::new(state, Arc::clone(limits));
        machine.set_context(engine.facts());
        machine.rehost(catalog, stored_at, clock.now());
        Ok(Self {
            machine,
            clock,
            poll_counter: Arc::clone(&engine.poll_counter),
            context: Context::new(engine),
            freed: Vec::new(),
            checkpoints: BTreeMap::new(),
            family: Rc::default(),
            claim: Some(claim),
        })
    }

    fn forked(fork: Fork, limits: &Arc<Limits>) -> Self {
        let Fork { state, facts, freed, context, image, clock, checkpoints, family } = fork;
        let mut machine = Session::new(state, Arc::clone(limits));
        machine.set_context(facts);
        let (context, poll_counter) =
            (Context::from_image(context, image), Arc::new(PollCounter::detached()));
        Self { machine, clock, context, poll_counter, freed, checkpoints, family, claim: None }
    }
}

fn to_engine_error(error: WakeError) -> EngineError {
    match error {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        WakeError::NoRoom(error) => EngineError::NoSlot(error),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        WakeError::Engine(error) => error,
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        WakeError::Image(_) => EngineError::Failed(rquickjs::Error::Unknown),
    }
}
