//! The context of a session, in memory or not.

use std::rc::Rc;
use std::sync::Arc;

use super::super::engine::{ContextCopy, DormantContext, Engine, WakeError};
use super::super::hibernation::{ImageStore, StoredImage};
use super::super::total::MemoryTotal;
use crate::image::ImageError;
use crate::limits::Limits;

/// Where the heap is.
enum Place {
    Memory(Rc<Engine>),
    Image(Box<DormantContext>),
    /// Between the two, or nowhere after a copy could not be restored or a turn was abandoned: then a fresh context
    /// follows.
    Moving,
}

/// See the module. The fields are dropped in this order: a heap may be mapped from the image.
pub(super) struct Context {
    place: Place,
    /// The newest image of this heap. It is kept when the heap is in memory, so that the next one is a matter of what
    /// has changed.
    image: Option<StoredImage>,
}

impl Context {
    pub(super) fn new(engine: Engine) -> Self {
        Self { place: Place::Memory(Rc::new(engine)), image: None }
    }

    /// The engine, if the heap is in memory.
    pub(super) fn engine(&self) -> Option<&Rc<Engine>> {
        match &self.place {
            Place::Memory(engine) => Some(engine),
            Place::Image(_) | Place::Moving => None,
        }
    }

    /// The context, if its heap is not in memory.
    pub(super) fn dormant(&self) -> Option<&DormantContext> {
        match &self.place {
            Place::Image(context) => Some(context),
            Place::Memory(_) | Place::Moving => None,
        }
    }

    /// Drops the engine with its heap as it is. A fresh context has to follow.
    pub(super) fn drop_engine(&mut self) {
        self.place = Place::Moving;
        self.image = None;
    }

    /// Puts a fresh context in its place.
    pub(super) fn replace(&mut self, engine: Engine) {
        // The old heap goes before the image that it may be mapped from.
        self.place = Place::Memory(Rc::new(engine));
        self.image = None;
    }

    /// Puts a copy of a heap in its place. After an error there is no context, until a fresh one is put there.
    pub(super) fn restore(
        &mut self,
        copy: &ContextCopy,
        heap: &[u8],
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<(), WakeError> {
        // A slot has room for one heap.
        self.place = Place::Moving;
        self.image = None;
        self.place = Place::Memory(Rc::new(copy.restore(heap, limits, memory)?));
        Ok(())
    }

    /// Releases what exceeds that much of what payloads of calls claim.
    pub(super) fn shrink_claim(&mut self, bytes: usize) {
        match &mut self.place {
            Place::Memory(engine) => engine.guest.claim.borrow_mut().shrink_to(bytes),
            Place::Image(context) => context.claim_mut().shrink_to(bytes),
            Place::Moving => {}
        }
    }

    /// Writes the heap out and gives up its memory. Returns what the image takes on disk; after an error the context goes
    /// on as it was. Only between turns.
    pub(super) fn hibernate(&mut self, store: &Arc<ImageStore>) -> Result<Option<u64>, ImageError> {
        let Place::Memory(engine) = &self.place else { return Ok(None) };
        if Rc::strong_count(engine) > 1 {
            return Ok(None);
        }
        engine.with_pages(|pages| match &mut self.image {
            Some(image) => image.update(pages, &[]),
            None => {
                self.image = Some(store.write(pages, &[])?);
                Ok(())
            }
        })?;
        self.give_up_memory();
        let image = self.image.as_mut().filter(|_| matches!(self.place, Place::Image(_)));
        Ok(image.map(|image| {
            image.set_unmapped();
            image.stored_bytes()
        }))
    }

    fn give_up_memory(&mut self) {
        let Place::Memory(engine) = std::mem::replace(&mut self.place, Place::Moving) else { return };
        self.place = match Rc::try_unwrap(engine).map(Engine::into_dormant) {
            Ok(Ok(context)) => Place::Image(Box::new(context)),
            Ok(Err(engine)) => Place::Memory(Rc::new(engine)),
            Err(engine) => Place::Memory(engine),
        };
    }

    /// Brings the heap back into memory, if it is not there. After an error it can be tried again.
    pub(super) fn wake(
        &mut self,
        limits: &Arc<Limits>,
        memory: &Arc<MemoryTotal>,
    ) -> Result<Option<&Rc<Engine>>, WakeError> {
        if let (Place::Image(context), Some(image)) = (&mut self.place, &mut self.image) {
            let engine = context.wake(image, limits, memory)?;
            self.place = Place::Memory(Rc::new(engine));
        }
        Ok(self.engine())
    }
}
