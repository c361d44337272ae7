//! Where heaps have no addresses of their own, no context is ever without its heap.

use std::convert::Infallible;
use std::sync::Arc;

use super::Engine;
use crate::limits::Limits;
use crate::runtime::heap::SlotError;
use crate::runtime::hibernation::StoredImage;
use crate::runtime::total::{Claim, MemoryTotal};

/// Has no values.
#[derive(Debug)]
pub(crate) struct DormantContext(Infallible);

/// Has no values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WakeError {}

impl From<SlotError> for WakeError {
    fn from(error: SlotError) -> Self {
        match error {}
    }
}

/// Has no values.
#[derive(Debug)]
pub(crate) struct ContextCopy(Infallible);

/// Has no values.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) enum EngineData {}

impl EngineData {
    pub(crate) fn restore(
        self,
        _: u32,
        _: &[u8],
        _: &Arc<Limits>,
        _: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        match self {}
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match *self {}
    }
}

impl ContextCopy {
    pub(crate) fn to_dormant(&self, _: &Arc<MemoryTotal>) -> DormantContext {
        match self.0 {}
    }

    pub(crate) fn restore(
        &self,
        _: &[u8],
        _: &Arc<Limits>,
        _: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        match self.0 {}
    }
}

impl DormantContext {
    pub(crate) fn wake(
        &mut self,
        _: &mut StoredImage,
        _: &Arc<Limits>,
        _: &Arc<MemoryTotal>,
    ) -> Result<Engine, WakeError> {
        match self.0 {}
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn claim_mut(&mut self) -> &mut Claim {
        match self.0 {}
    }
}

impl Engine {
    pub(crate) fn enter_slot(&self) -> Result<(), SlotError> {
        Ok(())
    }

    pub(crate) fn is_in_slot(&self) -> bool {
        true
    }

    pub(crate) fn with_pages<R>(&self, work: impl FnOnce(&[u8]) -> R) -> R {
        work(&[])
    }

    pub(crate) fn data(&self) -> Option<EngineData> {
        None
    }

    pub(crate) fn slot(&self) -> u32 {
        0
    }

    pub(crate) fn to_copy(&self) -> Option<ContextCopy> {
        None
    }

    pub(crate) fn into_dormant(self) -> Result<DormantContext, Self> {
        Err(self)
    }
}
