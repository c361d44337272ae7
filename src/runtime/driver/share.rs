//! The session's share of its shard: when its turns begin, and what happens between their slices.

use super::super::slices::{self, Contender};
use super::Driver;
use crate::session::boundary::{FromSession, Observation};
use crate::session::{Input, Stop};

impl Driver {
    /// Waits until the principal is no longer ahead of others that wait for a slice. Only with an empty JavaScript stack
    /// and only if there is a turn to run; messages that arrive meanwhile are taken in.
    pub(super) async fn wait_for_share(&mut self) -> Option<Contender> {
        if !slices::is_ahead(self.principal) || !self.has_turn_due() {
            return None;
        }
        let contender = Contender::new(self.principal);
        contender.next_slice().await;
        self.drain_inbox();
        Some(contender)
    }

    pub(super) fn has_turn_due(&self) -> bool {
        self.session.machine.borrow().has_turn_due(self.now())
    }

    /// The shard serves the others; then the session takes in what came for it.
    pub(super) async fn between_slices(&mut self, contender: Option<Contender>) -> Contender {
        let contender = contender.unwrap_or_else(|| Contender::new(self.principal));
        if !self.is_retired() {
            self.apply(Input::Suspended);
        }
        contender.next_slice().await;
        if self.is_retired() {
            if let Some(engine) = self.context.resident() {
                engine.guest.meter.request_stop(Stop::Closed);
                engine.poll_counter.poll_within(1);
            }
            return contender;
        }
        self.drain_inbox();
        self.report_levels();
        self.apply(Input::Resuming);
        contender
    }

    /// Reports the numbers of references and of evals that wait, if they changed since the last report.
    pub(super) fn report_levels(&mut self) {
        let levels = {
            let state = &self.session.machine.borrow().state;
            (state.references.len(), state.evals.queued())
        };
        if levels != self.levels {
            self.levels = levels;
            let (references, evals_queued) = levels;
            self.port.send(FromSession::Observed(Observation::Levels { references, evals_queued }));
        }
    }
}
