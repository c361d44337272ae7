//! The heaps of checkpoints: written beside those of hibernated sessions, and copied back.
//!
//! They are copied, not mapped: a checkpoint outlives every heap that goes on from it.

use std::rc::Rc;
use std::sync::Arc;

use super::super::engine::{ContextCopy, WakeError};
use super::super::hibernation::{ImageStore, StoredImage};
use super::Driver;
use crate::image::ImageError;
use crate::rpc::{ErrorObject, Kind};
use crate::session::Input;
use crate::session::boundary::Observation;

/// A heap as it was at a checkpoint.
pub(super) struct HeapCheckpoint {
    pub(super) context: ContextCopy,
    pub(super) image: StoredImage,
}

impl Driver {
    /// Writes the heap for a checkpoint. Only between turns.
    pub(super) fn take_checkpoint(&mut self, number: u64) {
        let outcome = self.write_checkpoint(number);
        let now = self.now();
        self.session.machine.borrow_mut().apply(Input::CheckpointTaken(outcome), now);
    }

    fn write_checkpoint(&mut self, number: u64) -> Result<u64, ErrorObject> {
        let store = self.hibernation.store.clone().ok_or_else(unsupported)?;
        let copy = self.copy_heap(&store)?;
        let bytes = copy.image.stored_bytes();
        self.checkpoints.insert(number, Rc::new(copy));
        Ok(bytes)
    }

    /// Writes a copy of the heap, which is brought into memory for that. What goes on from the copy draws random numbers of
    /// its own.
    pub(super) fn copy_heap(&mut self, store: &Arc<ImageStore>) -> Result<HeapCheckpoint, ErrorObject> {
        let busy = |error: WakeError| ErrorObject::new(Kind::Busy, error.to_string());
        self.wake().map_err(busy)?;
        let engine = self.context.enter().map_err(busy)?.map(Rc::clone).ok_or_else(unsupported)?;
        self.free_roots();
        engine.forget_random_words();
        let image =
            engine.with_pages(|pages| store.write(pages, &[])).map_err(|error| unavailable(&error))?;
        let context = engine.to_copy().ok_or_else(unsupported)?;
        Ok(HeapCheckpoint { context, image })
    }

    /// Puts the heap of a checkpoint in the place of the present one. Only between turns.
    pub(super) fn rewind(&mut self, number: u64) {
        let outcome = self.restore_checkpoint(number);
        let now = self.now();
        self.session.machine.borrow_mut().apply(Input::Rewound(outcome), now);
    }

    fn restore_checkpoint(&mut self, number: u64) -> Result<(), ErrorObject> {
        let checkpoint = Rc::clone(self.checkpoints.get(&number).ok_or_else(unsupported)?);
        let heap = checkpoint.image.read().map_err(|error| unavailable(&error))?;
        let was_dormant = self.context.dormant().is_some();
        let restored = self.context.restore(&checkpoint.context, &heap, &self.limits, &self.memory);
        if let Err(error) = restored {
            self.lose_context(&error);
            return Err(ErrorObject::new(Kind::SessionLost, error.to_string()).with("sessionLost", true));
        }
        self.freed.clear();
        if let Some(engine) = self.context.engine() {
            engine.attach(&self.session);
            if let Some(residence) = &self.residence {
                residence.replace_poll_counter(&engine.poll_counter);
            }
        }
        self.short_since = None;
        self.refresh_facts();
        if was_dormant {
            self.observe(Observation::Woken { took: None });
        }
        Ok(())
    }
}

pub(super) fn unsupported() -> ErrorObject {
    ErrorObject::new(Kind::ImagesUnavailable, "this server has no place for images of sessions")
}

pub(super) fn unavailable(error: &ImageError) -> ErrorObject {
    ErrorObject::new(Kind::ImagesUnavailable, error.to_string())
}
