//! When a session is written to the store, and how it leaves the process with its server.

use std::sync::Arc;

use super::super::stored::StoredContext;
use super::Driver;
use crate::image::ImageError;
use crate::image::record::Snapshot;
use crate::runtime::engine::Engine;
use crate::runtime::stored::hold_slots;
use crate::session::boundary::ToSession;
use crate::session::{SessionState, Time};
use crate::store::{ImageClaim, Store, StoreError};

/// The session's part of a store.
pub(super) struct Durable {
    store: Arc<dyn Store>,
    /// Absent until the first image.
    claim: Option<ImageClaim>,
    /// Whether the session has changed since its newest image.
    is_dirty: bool,
    /// Whether the pages that changed are counted from an image that the store does not have.
    needs_full: bool,
}

impl Durable {
    pub(super) fn new(store: Arc<dyn Store>, claim: Option<ImageClaim>) -> Self {
        Self { store, claim, is_dirty: true, needs_full: true }
    }

    /// Something happens to the session. To look at it changes nothing.
    pub(super) fn note_message(&mut self, message: &ToSession) {
        self.is_dirty |= !matches!(message, ToSession::Inspect { .. } | ToSession::Suspend);
    }

    pub(super) fn note_change(&mut self) {
        self.is_dirty = true;
    }
}

impl Driver {
    /// Brings the image in the store up to date. Only between turns. After an error the session goes on as it was, and
    /// its image is that of an earlier moment.
    pub(super) fn store_image(&mut self) -> Result<(), StoreError> {
        if !self.durable.as_ref().is_some_and(|durable| durable.is_dirty) {
            return Ok(());
        }
        self.wake().map_err(|_| ImageError::Unavailable("there is no room for the heap"))?;
        self.free_roots();
        let (runs, engine) = self.context.update_image(self.hibernation.store.as_ref());
        let (Some(durable), Some(engine)) = (&mut self.durable, engine) else {
            return Err(ImageError::Unavailable("the session has no heap").into());
        };
        let runs = runs.filter(|_| !std::mem::replace(&mut durable.needs_full, true));
        let context = StoredContext::new(&engine, &self.session.clock)
            .ok_or(ImageError::Unavailable("the context has no roots"))?;
        let (roots, state) = (context.to_bytes(), to_stored(&mut self.session.machine.borrow_mut().state)?);
        let store = Arc::clone(&durable.store);
        let claim = match &mut durable.claim {
            Some(claim) => claim,
            None => {
                durable.claim.insert(create_claim(&*store, &engine, &self.session.machine.borrow().state)?)
            }
        };
        engine.with_pages(|heap| {
            let snapshot = Snapshot { heap, roots: &roots, state: &state };
            store.append(claim, &snapshot, runs.as_deref())
        })?;
        (durable.is_dirty, durable.needs_full) = (false, false);
        Ok(())
    }

    /// Stores an idle session, as it leaves memory. One that cannot be stored stays as it is.
    pub(super) fn store_idle(&mut self) {
        if self.durable.is_none() || !self.session.machine.borrow().is_worth_storing() {
            return;
        }
        match self.store_image() {
            Ok(()) => self.note_image(),
            Err(error) => self.report_unstored(&error),
        }
    }

    /// Stores the session and says so; `false` where it has to end instead.
    pub(super) fn suspend(&mut self) -> bool {
        let is_worth_it = self.durable.is_some() && self.session.machine.borrow().is_worth_storing();
        let stored = if is_worth_it { self.store_image() } else { Err(StoreError::NotStored) };
        if let Err(error) = stored {
            if is_worth_it {
                self.report_unstored(&error);
            }
            self.session.machine.borrow_mut().refuse_suspension();
            self.perform_effects();
            return false;
        }
        self.note_image();
        self.session.machine.borrow_mut().finish_suspension();
        // First, so that the session is known as stored when it is found to be gone.
        self.perform_effects();
        self.inbox_rx.close();
        true
    }

    /// Lets the store know how far the image goes, and when the session has something to do.
    fn note_image(&mut self) {
        let now = self.now();
        let wake_at = self.session.machine.borrow_mut().wake_at(now);
        let origin_ms = self.session.clock.origin_ms();
        let to_wall = |at: Time| (origin_ms + at.since_start().as_secs_f64() * 1e3) as u64;
        if let Some(Durable { store, claim: Some(claim), .. }) = &self.durable {
            store.note(claim, wake_at.map(to_wall));
        }
    }

    fn report_unstored(&self, error: &StoreError) {
        crate::observe::record_store_failure(error.kind());
        let may_warn = self.hibernation.store.as_ref();
        if may_warn.is_none_or(|store| store.may_warn(self.session.clock.process_seconds())) {
            tracing::error!(%error, kind = error.kind(), "a session was not stored");
        }
    }
}

fn to_stored(state: &mut SessionState) -> Result<Vec<u8>, ImageError> {
    state.write_stored().map_err(|_| ImageError::Unavailable("the state of the session has no form"))
}

/// The claim of a session that has no image yet. Its slot is kept for it from now on.
fn create_claim(store: &dyn Store, engine: &Engine, state: &SessionState) -> Result<ImageClaim, StoreError> {
    let slot = engine.slot();
    let claim = store.create(&Arc::from(&*state.id), &Arc::from(&*state.principal), slot)?;
    let held = hold_slots(store.base(), [slot]);
    held.map_err(|_| ImageError::Unavailable("the address windows of this process are elsewhere"))?;
    Ok(claim)
}
