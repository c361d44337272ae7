//! A session as an image that another process can go on with.
//!
//! The image is the pages of the heap with what [`StoredContext`] says about them and the serialised
//! [`SessionState`]. It is sealed and written by a [`Store`](crate::store::Store).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::engine::{Engine, EngineData, WakeError};
use super::total::MemoryTotal;
use crate::image::ImageError;
use crate::limits::Limits;
use crate::session::{SessionState, Time};
use crate::store::{ImageClaim, LoadedImage, StoreError};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use slots::{hold_slots, new_base, release_slots};

/// Raised with every change of [`SessionState`] that reads an older one wrongly. One that cannot be read needs no new
/// number.
const STATE_VERSION: u32 = 1;

/// What has to be known beside the heap and the state.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredContext {
    version: u32,
    engine: EngineData,
    /// Milliseconds from 1970 to the start of the session.
    origin_ms: f64,
    /// When the image was written.
    at: Time,
}

impl StoredContext {
    /// Of the image that is written now.
    pub(super) fn new(engine: &Engine, clock: &Clock) -> Option<Self> {
        let (origin_ms, at) = (clock.origin_ms(), clock.now());
        Some(Self { version: STATE_VERSION, engine: engine.data()?, origin_ms, at })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Numbers only.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A session that was read from its image and goes on here.
pub(crate) struct RestoredSession {
    pub(crate) state: SessionState,
    pub(crate) claim: ImageClaim,
    context: StoredContext,
    heap: Vec<u8>,
}

impl std::fmt::Debug for RestoredSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestoredSession").field("id", &self.state.id).finish_non_exhaustive()
    }
}

impl RestoredSession {
    /// Reads what was verified. An image that this version of the program cannot read is one of another engine.
    pub(crate) fn decode(image: LoadedImage, claim: ImageClaim) -> Result<Self, StoreError> {
        let foreign = |_| StoreError::Image(ImageError::ForeignBuild);
        let context: StoredContext = serde_json::from_slice(&image.roots).map_err(foreign)?;
        if context.version != STATE_VERSION {
            return Err(ImageError::ForeignBuild.into());
        }
        let state = serde_json::from_slice(&image.state).map_err(foreign)?;
        Ok(Self { state, claim, context, heap: image.heap })
    }

    /// What its heap uses in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.context.engine.memory_bytes()
    }

    /// The session at the moment of its image: its state, its context and its clock, which has gone on meanwhile.
    pub(super) fn restore(
        self,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<RestoredParts, WakeError> {
        let Self { state, claim, context, heap } = self;
        let engine = context.engine.restore(claim.slot(), &heap, limits, memory)?;
        let clock = Clock::resume(context.origin_ms, context.at);
        Ok(RestoredParts { state, claim, engine, clock, stored_at: context.at })
    }
}

/// What a driver goes on with.
pub(super) struct RestoredParts {
    pub(super) state: SessionState,
    pub(super) claim: ImageClaim,
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) stored_at: Time,
}

/// The address windows of stored sessions, whose heaps work nowhere else.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod slots {
    use crate::runtime::heap::{SlotError, Slots};

    /// Where the address windows of a new store begin: where those of this process do.
    pub(crate) fn new_base() -> u64 {
        crate::runtime::heap::random_base() as u64
    }

    /// Puts the windows of this process where those of a store are, and keeps those of its sessions for them.
    pub(crate) fn hold_slots(base: u64, slots: impl IntoIterator<Item = u32>) -> Result<(), SlotError> {
        let base = usize::try_from(base).map_err(|_| SlotError::OtherRegion)?;
        let shared = Slots::shared_at(base)?;
        slots.into_iter().for_each(|slot| shared.hold(slot));
        Ok(())
    }

    /// Sessions with these windows are not stored any more.
    pub(crate) fn release_slots(slots: impl IntoIterator<Item = u32>) {
        slots.into_iter().for_each(|slot| Slots::shared().unhold(slot));
    }
}

/// Elsewhere heaps have no windows, and nothing is stored.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) fn new_base() -> u64 {
    0
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) fn hold_slots(_: u64, _: impl IntoIterator<Item = u32>) -> Result<(), super::heap::SlotError> {
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) fn release_slots(_: impl IntoIterator<Item = u32>) {}
