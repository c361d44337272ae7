//! A second session that goes on from the heap of this one.
//!
//! The heap is written out as that of a hibernated session is, so a fork begins without memory, and comes in when it has
//! something to do. It shares the slot of its origin: they live on one shard and take turns there
//! (`runtime/heap/arena/turns.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::super::clock::Clock;
use super::super::engine::DormantContext;
use super::super::hibernation::{ImageStore, StoredImage};
use super::Driver;
use super::checkpoint::{HeapCheckpoint, unavailable, unsupported};
use crate::protocol::fn_ref::FnRef;
use crate::rpc::{ErrorObject, Kind};
use crate::session::boundary::ToSession;
use crate::session::{ContextFacts, Input, RootId, SessionState};

/// Sessions that descend from one by forks and live at a time, itself included. They share a shard, so more of them would
/// only wait for each other.
pub(crate) const FAMILY_MAX: usize = 64;

/// All that a fork begins with.
pub(crate) struct Fork {
    pub(super) state: SessionState,
    pub(super) facts: ContextFacts,
    /// Values that only the origin's surroundings held.
    pub(super) freed: Vec<RootId>,
    pub(super) context: DormantContext,
    pub(super) image: StoredImage,
    pub(super) clock: Clock,
    pub(super) checkpoints: BTreeMap<u64, Rc<HeapCheckpoint>>,
    pub(super) family: Rc<()>,
}

impl Fork {
    /// Whether the fork holds the function of a handler of that number.
    pub(crate) fn holds_handler_function(&self, number: u64) -> bool {
        self.state.references.is_known(&FnRef::Handler(number))
    }

    /// The number of the last connection that its origin had; those of the fork are higher.
    pub(crate) fn last_connection(&self) -> u64 {
        self.state.last_connection
    }
}

impl Driver {
    /// Forks the session: as it is, or as it was at a checkpoint. Only between turns. The host says when it is done.
    pub(super) fn fork(&mut self, request: u64, checkpoint: Option<u64>) {
        if let Err(error) = self.try_fork(request, checkpoint) {
            let now = self.now();
            let message = ToSession::Forked { request, outcome: Err(error) };
            self.session.machine.borrow_mut().apply(Input::Message(message), now);
        }
    }

    fn try_fork(&mut self, request: u64, checkpoint: Option<u64>) -> Result<(), ErrorObject> {
        let store = self.hibernation.store.clone().ok_or_else(unsupported)?;
        if Rc::strong_count(&self.family) >= FAMILY_MAX {
            let message = format!("{FAMILY_MAX} sessions that were forked from one another are live");
            return Err(ErrorObject::new(Kind::Busy, message));
        }
        let admission = self.port.admit_fork()?;
        let (context, image) = match checkpoint {
            Some(number) => self.copy_checkpoint(number, &store)?,
            None => self.copy_present(&store)?,
        };
        let forked = self.session.machine.borrow().fork(admission.session_id(), checkpoint);
        let kept = |number: &u64| forked.state.checkpoints.get(*number).is_some();
        let checkpoints = self.checkpoints.iter().filter(|(number, _)| kept(number));
        let checkpoints = checkpoints.map(|(number, heap)| (*number, Rc::clone(heap))).collect();
        let fork = Fork {
            state: forked.state,
            facts: forked.facts,
            freed: forked.freed,
            context,
            image,
            clock: self.session.clock.fork(),
            checkpoints,
            family: Rc::clone(&self.family),
        };
        admission.start(request, Box::new(fork));
        Ok(())
    }

    fn copy_present(
        &mut self,
        store: &Arc<ImageStore>,
    ) -> Result<(DormantContext, StoredImage), ErrorObject> {
        let HeapCheckpoint { context, image } = self.copy_heap(store)?;
        Ok((context.to_dormant(&self.memory), image))
    }

    fn copy_checkpoint(
        &self,
        number: u64,
        store: &Arc<ImageStore>,
    ) -> Result<(DormantContext, StoredImage), ErrorObject> {
        let checkpoint = self.checkpoints.get(&number).ok_or_else(unsupported)?;
        let heap = checkpoint.image.read().map_err(|error| unavailable(&error))?;
        let image = store.write(&heap, &[]).map_err(|error| unavailable(&error))?;
        Ok((checkpoint.context.to_dormant(&self.memory), image))
    }
}
