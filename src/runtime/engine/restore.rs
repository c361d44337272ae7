//! A context that goes on where it was: what is kept of one beside its heap, and the engine over a heap that is back at
//! its addresses.
//!
//! Only between turns: a script that is on a stack has frames there.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::heap_runtime::{HeapRuntime, RuntimeData};
use super::{Engine, EngineError};
use crate::image::ImageError;
use crate::limits::Limits;
use crate::runtime::guest::{Guest, RootsData};
use crate::runtime::heap::{Arena, HeapMemory, HeapUsage, Slot, SlotError, Slots, Window};
use crate::runtime::hibernation::StoredImage;
use crate::runtime::poll_counter::PollCounter;
use crate::runtime::total::{Claim, MemoryTotal, Share};
use crate::schema::SchemaBudget;
use crate::session::RootId;

/// What has to be known of a context to go on with its heap: addresses in the heap, and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineData {
    runtime: RuntimeData,
    roots: RootsData,
    /// The root of the prelude's functions.
    kit: u32,
    /// What the heap uses.
    memory_bytes: usize,
}

/// A context whose heap is not in memory: all that is kept of it beside its image.
#[derive(Debug)]
pub(crate) struct DormantContext {
    data: EngineData,
    slot: Arc<Slot>,
    schema_budget: SchemaBudget,
    claim: Claim,
}

impl EngineData {
    /// Goes on with a heap that this program wrote, in another process: its pages are copied to the slot of that number.
    /// The caller has verified that pages and data are of one image of this build, and that the slots of this process
    /// are where they were.
    #[allow(unsafe_code)]
    pub(crate) fn restore(
        self,
        slot: u32,
        heap: &[u8],
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        let slot = Arc::new(Slots::shared().take_number(slot)?);
        let window = Window::copy_from(slot, heap)?;
        let (limits, share) = (Arc::clone(limits), Share::resume(memory, self.memory_bytes));
        // SAFETY: the seal of the image says that this build wrote pages and data together, for this slot. No other heap
        // is in the slot, which was free.
        Ok(unsafe { Engine::from_restored(self, limits, share, Arena::continued(window)) }?)
    }

    /// What its heap uses in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// What is kept of a context beside a copy of its heap, from which it can go on any number of times.
#[derive(Debug)]
pub(crate) struct ContextCopy {
    data: EngineData,
    slot: Arc<Slot>,
    schema_budget: SchemaBudget,
}

impl ContextCopy {
    /// A context that goes on from the copy, when its heap is mapped from an image of it.
    pub(crate) fn to_dormant(&self, memory: &Arc<MemoryTotal>) -> DormantContext {
        DormantContext {
            data: self.data,
            slot: Arc::clone(&self.slot),
            schema_budget: self.schema_budget.clone(),
            claim: Claim::empty(memory),
        }
    }

    /// Copies the heap back to its addresses and goes on. The heap of a fork that is in its slot makes room.
    #[allow(unsafe_code)]
    pub(crate) fn restore(
        &self,
        heap: &[u8],
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        let window = Window::copy_from(Arc::clone(&self.slot), heap)?;
        let (limits, share) = (Arc::clone(limits), Share::resume(memory, self.data.memory_bytes));
        // SAFETY: the pages are of the same moment as the data, and in a window of their own in the same slot.
        let engine = unsafe { Engine::from_restored(self.data, limits, share, Arena::continued(window)) }?;
        engine.guest.schema_budget.replace(self.schema_budget.clone());
        Ok(engine)
    }
}

/// Why a context does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WakeError {
    /// Its image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// There is no room for it in memory now.
    #[error(transparent)]
    NoRoom(#[from] SlotError),
    /// It cannot be entered.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl DormantContext {
    /// Maps the heap back from its image and goes on. After an error nothing has changed, and it may be tried again.
    #[allow(unsafe_code)]
    pub(crate) fn wake(
        &mut self,
        image: &mut StoredImage,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        // SAFETY: the slot is of this context, and no other heap is in it by then. The image is of the same moment as the data,
        // and is updated only from this heap.
        let engine = unsafe {
            let window = Window::map_with(Arc::clone(&self.slot), image.heap_bytes(), |start| {
                image.map_over(start).map_err(WakeError::Image)
            })?;
            let (limits, share) = (Arc::clone(limits), Share::resume(memory, self.data.memory_bytes));
            Engine::from_restored(self.data, limits, share, Arena::continued(window))?
        };
        engine.guest.schema_budget.replace(self.schema_budget.clone());
        engine.guest.claim.replace(self.claim.take());
        Ok(engine)
    }

    /// What its heap uses in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.data.memory_bytes
    }

    /// What it claims of the server's memory for calls in flight.
    pub(crate) fn claim_mut(&mut self) -> &mut Claim {
        &mut self.claim
    }
}

impl Engine {
    /// Puts the heap in its slot, in the place of that of a fork. Before anything else is done with the context, whenever
    /// others may have run.
    #[inline]
    pub(crate) fn enter_slot(&self) -> Result<(), SlotError> {
        self.used.arena().window().enter()
    }

    /// Whether the heap is in its slot.
    pub(crate) fn is_in_slot(&self) -> bool {
        self.used.arena().window().is_present()
    }

    /// Runs `work` on the pages of the heap as they are, which are the whole context with [`Self::data`]. Only between
    /// turns.
    #[allow(unsafe_code)]
    pub(crate) fn with_pages<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        let arena = self.used.arena();
        arena.trim();
        // SAFETY: no script runs until `work` has returned: it has no access to the engine.
        work(unsafe { arena.window().pages(arena.image_bytes()) })
    }

    /// The number of the address window that its heap is in.
    pub(crate) fn slot(&self) -> u32 {
        self.used.arena().window().slot().number()
    }

    /// What is to be kept beside the pages, which were copied before.
    pub(crate) fn to_copy(&self) -> Option<ContextCopy> {
        let slot = Arc::clone(self.used.arena().window().slot());
        Some(ContextCopy {
            data: self.data()?,
            slot,
            schema_budget: self.guest.schema_budget.borrow().clone(),
        })
    }

    /// Gives up the heap, whose pages were written out before; the engine comes back where that is not possible.
    pub(crate) fn into_dormant(self) -> Result<DormantContext, Self> {
        let Some(data) = self.data() else { return Err(self) };
        let slot = Arc::clone(self.used.arena().window().slot());
        let schema_budget = self.guest.schema_budget.borrow().clone();
        let claim = self.guest.claim.borrow_mut().take();
        Ok(DormantContext { data, slot, schema_budget, claim })
    }

    /// What [`Self::from_restored`] needs beside the heap. It changes with every turn.
    pub(crate) fn data(&self) -> Option<EngineData> {
        let (roots, kit) = (self.guest.roots.data()?, self.guest.kit.get()?);
        Some(EngineData { runtime: self.runtime.data(), roots, kit: kit.0, memory_bytes: self.used.bytes() })
    }

    /// The engine of a context whose heap is back in memory. It serves no session until one is
    /// [attached](Self::attach).
    ///
    /// # Safety
    ///
    /// [`Self::data`] returned this data in this very program, between turns, and the arena has the contents that it had
    /// then, at the same addresses. No other engine owns it.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn from_restored(
        data: EngineData,
        limits: Arc<Limits>,
        share: Share,
        arena: Arena,
    ) -> Result<Self, EngineError> {
        let guest = Guest::new(limits, share.total());
        let used = Rc::new(HeapUsage::new(guest.limits.memory_bytes_max, share, arena));
        used.resume(data.memory_bytes);
        let memory = HeapMemory::new(&guest.meter, &used);
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { HeapRuntime::from_restored(data.runtime, memory) }?;
        // SAFETY: the same.
        unsafe { guest.roots.restore(runtime.context(), data.roots) };
        guest.kit.set(Some(RootId(data.kit)));
        runtime.attach_hooks(&guest);
        let poll_counter = runtime.enter(|ctx| PollCounter::new(ctx, used.arena().presence()));
        let poll_counter = Arc::new(poll_counter);
        Ok(Self { guest, runtime, used, poll_counter })
    }
}
