//! The context of a session, in memory or not.

use std::rc::Rc;
use std::sync::Arc;

use super::super::engine::{ContextCopy, DormantContext, Engine, WakeError};
use super::super::hibernation::{ImageStore, StoredImage};
use super::super::total::MemoryTotal;
use crate::image::ImageError;
use crate::image::delta::PageRun;
use crate::limits::Limits;

/// Where the heap is.
enum Place {
    Memory(Rc<Engine>),
    Image(Box<DormantContext>),
    /// Between the two, or nowhere after a copy could not be restored: then a fresh context follows.
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

    /// A context whose heap is in an image.
    pub(super) fn from_image(context: DormantContext, image: StoredImage) -> Self {
        Self { place: Place::Image(Box::new(context)), image: Some(image) }
    }

    /// The engine, if the heap is in memory, in its slot or away from it. What is done with it before
    /// [`Engine::enter_slot`] must not touch the heap.
    pub(super) fn resident(&self) -> Option<&Rc<Engine>> {
        match &self.place {
            Place::Memory(engine) => Some(engine),
            Place::Image(_) | Place::Moving => None,
        }
    }

    /// The engine, if the heap is in its slot already.
    pub(super) fn present(&self) -> Option<&Rc<Engine>> {
        self.resident().filter(|engine| engine.is_in_slot())
    }

    /// The engine with its heap in its slot, if it is in memory. Good until something is awaited: then a fork may take the
    /// slot.
    pub(super) fn engine(&self) -> Option<&Rc<Engine>> {
        let entered = self.enter();
        entered
            .inspect_err(|error| tracing::warn!(%error, "a session and its fork cannot take turns"))
            .ok()?
    }

    /// The same, or why its heap cannot be put in its slot.
    pub(super) fn enter(&self) -> Result<Option<&Rc<Engine>>, WakeError> {
        let engine = self.resident();
        engine.map_or(Ok(()), |engine| engine.enter_slot())?;
        Ok(engine)
    }

    /// The context, if its heap is not in memory.
    pub(super) fn dormant(&self) -> Option<&DormantContext> {
        match &self.place {
            Place::Image(context) => Some(context),
            Place::Memory(_) | Place::Moving => None,
        }
    }

    /// What its image takes on disk, if its heap is not in memory.
    pub(super) fn stored_bytes(&self) -> Option<u64> {
        self.dormant().and(self.image.as_ref()).map(StoredImage::stored_bytes)
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
        let Some(engine) = self.engine().filter(|engine| Rc::strong_count(engine) == 1).map(Rc::clone) else {
            return Ok(None);
        };
        engine.with_pages(|pages| match &mut self.image {
            Some(image) => image.update(pages, &[]).map(drop),
            None => {
                self.image = Some(store.write(pages, &[])?);
                Ok(())
            }
        })?;
        drop(engine);
        self.give_up_memory();
        let image = self.image.as_mut().filter(|_| matches!(self.place, Place::Image(_)));
        Ok(image.map(|image| {
            image.set_unmapped();
            image.stored_bytes()
        }))
    }

    /// Brings the image up to date with a heap that stays in memory. Returns the pages that have changed since the image
    /// before, if there was one, and the engine.
    pub(super) fn update_image(
        &mut self,
        store: Option<&Arc<ImageStore>>,
    ) -> (Option<Vec<PageRun>>, Option<Rc<Engine>>) {
        let Some(engine) = self.engine().map(Rc::clone) else { return (None, None) };
        let runs = engine.with_pages(|pages| match (&mut self.image, store) {
            (Some(image), _) => image.update(pages, &[]).ok().flatten(),
            (None, Some(store)) => {
                self.image = store.write(pages, &[]).ok();
                None
            }
            (None, None) => None,
        });
        (runs, Some(engine))
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
        self.enter()
    }
}
