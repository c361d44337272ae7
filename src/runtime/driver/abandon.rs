//! What happens to a session whose heap needs more memory than any script gets: its context is dropped as it is.
//!
//! Nothing in such a heap can be trusted: QuickJS was in the middle of a change. So whatever makes QuickJS work runs where
//! it can be abandoned, also between turns.

use std::time::Duration;

use super::super::engine::Engine;
use super::super::kept::keep;
use super::super::slice::Slice;
use super::{Driver, turn};
use crate::session::{ContextFacts, Input, Stop, TurnReport};

impl Driver {
    /// The turn was abandoned.
    pub(super) fn end_abandoned(&mut self, cpu: Duration) {
        self.drop_context();
        let stopped = Some(Stop::Memory);
        self.apply(Input::TurnEnded(TurnReport {
            stopped,
            cpu,
            is_abandoned: true,
            ..TurnReport::default()
        }));
    }

    /// Drops the context. A fresh one follows.
    fn drop_context(&mut self) {
        if let Some(engine) = self.context.engine() {
            let used = engine.used();
            let memory_bytes = used.bytes() as u64;
            let refused_by_total = used.refused_by_total();
            let facts = ContextFacts { memory_bytes, refused_by_total, ..ContextFacts::default() };
            self.session.machine.borrow_mut().set_context(facts);
        }
        self.freed.clear();
        self.context.drop_engine();
    }

    /// Works with the engine between two turns, on a stack of its own; `false` if that was abandoned, or if there is no
    /// stack. The work owns nothing while QuickJS works but what it keeps.
    pub(super) fn run_between_turns(&mut self, work: impl FnOnce(&Engine) + 'static) -> bool {
        let Some(engine) = self.context.engine() else { return false };
        let mut turn = match turn::on_stack(engine, work) {
            Ok(turn) => turn,
            Err(error) => {
                tracing::warn!(%error, "no stack to work on the heap of a session");
                return false;
            }
        };
        match turn.resume() {
            Slice::Done(()) => true,
            // Outside a turn nothing is suspended.
            Slice::Suspended | Slice::Abandoned => {
                drop(turn);
                self.drop_context();
                self.apply(Input::ContextAbandoned);
                false
            }
        }
    }

    /// Frees what is to be freed, if no JavaScript is on the stack. In a heap that is not in memory, or not in
    /// its slot, it waits for the next turn.
    pub(super) fn free_roots(&mut self) {
        let is_in_turn = self.session.machine.borrow().state.in_turn.is_some();
        if is_in_turn || self.freed.is_empty() || self.context.present().is_none() {
            return;
        }
        let freed = std::mem::take(&mut self.freed);
        let is_freed = self.run_between_turns(move |engine| {
            let freed = keep(freed);
            freed.iter().for_each(|root| engine.guest.roots.release(*root));
        });
        if is_freed {
            self.refresh_facts();
        }
    }
}
