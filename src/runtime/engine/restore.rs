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
use crate::limits::Limits;
use crate::runtime::guest::{Guest, RootsData};
use crate::runtime::heap::{Arena, HeapMemory, HeapUsage};
use crate::runtime::poll_counter::PollCounter;
use crate::runtime::total::Share;
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

// Used by heap images only.
#[allow(dead_code)]
impl Engine {
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
        let poll_counter = Arc::new(runtime.enter(PollCounter::new));
        Ok(Self { guest, runtime, used, poll_counter })
    }
}
