//! When the heap of a session leaves memory, and how it comes back.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::engine::{Engine, WakeError};
use super::super::hibernation::{HibernateWhen, idle};
use super::Driver;
use crate::session::Input;
use crate::session::boundary::{FromSession, Observation};

/// How often a session that finds no room in memory tries again.
const ROOM_RETRY: Duration = Duration::from_millis(20);

/// How long a session waits for room under the total of all sessions. Then it goes on past the total: new sessions and
/// growing heaps are refused until there is room again, but a session is not lost because it was idle.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(5);

impl Driver {
    /// Since when the session waits, for the task that looks for idle ones. Only a heap in memory counts.
    pub(super) fn begin_idle(&self, now: Instant) {
        if let Some(mark) = &self.idle
            && self.context.resident().is_some()
        {
            mark.begin(now);
        }
    }

    /// Writes the heap out after a turn, where every state between two turns is to be tested.
    pub(super) fn hibernate_after_turn(&mut self) {
        if self.hibernation.when == HibernateWhen::EveryTurn && !self.is_ending() {
            self.write_out();
        }
    }

    /// Hibernates an idle session, unless the collection of its garbage has given it something to do.
    pub(super) fn hibernate(&mut self) {
        let Some(engine) = self.context.engine() else { return };
        engine.enter(|ctx| ctx.run_gc());
        engine.used().end_turn();
        self.refresh_facts();
        if !self.has_turn_due() {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        self.store_idle();
        let Some(store) = self.hibernation.store.clone() else { return };
        self.free_roots();
        match self.context.hibernate(&store) {
            Ok(Some(bytes)) => {
                self.freed.shrink_to_fit();
                self.observe(Observation::Hibernated { bytes });
            }
            Ok(None) => {}
            Err(error) => {
                if store.may_warn(self.session.clock.process_seconds()) {
                    tracing::warn!(%error, kind = error.kind(), "a session was not hibernated and stays in memory");
                }
            }
        }
    }

    /// Brings the heap back for a turn that is due; `false` when there is no room yet, after messages were taken in.
    pub(super) async fn wake_for_turn(&mut self) -> bool {
        let Some(context) = self.context.dormant() else { return true };
        if !self.has_turn_due() {
            return true;
        }
        let has_room = self.memory.has_room_for(context.memory_bytes());
        let since = *self.short_since.get_or_insert_with(Instant::now);
        if has_room || since.elapsed() >= ROOM_WAIT_MAX {
            match self.wake() {
                Ok(()) => return true,
                Err(WakeError::NoRoom(error)) => tracing::debug!(%error, "a session waits for memory"),
                Err(error) => {
                    self.lose_context(&error);
                    return false;
                }
            }
        }
        idle::press();
        let message = tokio::select! {
            biased;
            Some(message) = self.inbox_rx.recv() => Some(message),
            () = tokio::time::sleep(ROOM_RETRY) => None,
        };
        if let Some(message) = message {
            self.apply(Input::Message(message));
        }
        false
    }

    /// Brings the heap back now.
    pub(super) fn wake(&mut self) -> Result<(), WakeError> {
        if self.context.dormant().is_none() {
            return Ok(());
        }
        let start = Instant::now();
        let Some(engine) = self.context.wake(&self.limits, &self.memory)? else { return Ok(()) };
        engine.attach(&self.session);
        if let Some(residence) = &self.residence {
            residence.replace_poll_counter(&engine.poll_counter);
        }
        self.short_since = None;
        self.refresh_facts();
        self.observe(Observation::Woken { took: Some(start.elapsed()) });
        Ok(())
    }

    /// Puts the heap of a suspended turn back in its slot before it goes on. There is nothing else to be done with such a
    /// turn, so it waits until the kernel has maps for that.
    pub(super) async fn return_to_slot(&self, engine: &Engine) {
        let mut is_logged = false;
        while let Err(error) = engine.enter_slot() {
            if !std::mem::replace(&mut is_logged, true) {
                tracing::error!(%error, "a suspended script waits for its place in memory");
            }
            idle::press();
            tokio::time::sleep(ROOM_RETRY).await;
        }
    }

    /// The engine, for a turn that was begun.
    pub(super) fn engine_for_turn(&mut self) -> Option<Rc<Engine>> {
        let woken = self.wake();
        match woken.and_then(|()| self.context.enter().map(|engine| engine.map(Rc::clone))) {
            Ok(engine) => return engine,
            Err(WakeError::NoRoom(error)) => {
                let message = format!("no room for the heap of the session: {error}");
                self.session.machine.borrow_mut().fail_turn(&message);
                self.perform_effects();
            }
            Err(error) => self.lose_context(&error),
        }
        None
    }

    /// The image of the session cannot be read: it starts over.
    pub(super) fn lose_context(&mut self, error: &WakeError) {
        tracing::error!(%error, "the heap of a session is lost");
        let now = self.now();
        self.session.machine.borrow_mut().lose_context(now);
        self.perform_effects();
    }

    pub(super) fn observe(&self, observation: Observation) {
        self.port.send(FromSession::Observed(observation));
    }
}
