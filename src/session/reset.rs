//! A fresh context in the same session: what the client asks for with `session.reset`, and what is left to do when a
//! memory limit was hit and nothing can be freed.
//!
//! All of it needs an empty JavaScript stack. Freeing memory is a turn of its own. When that is not enough, the driver
//! puts a fresh context in place, and what belonged to the old one is dropped here.

use super::state::{Recovery, StoppedEval};
use super::tables::{Console, Timers};
use super::{ChargedTo, Effect, RefHolder, Session, Settled, Stop, Turn, Work};
use crate::protocol::client_messages::Closing;
use crate::rpc::{ErrorObject, Kind};

impl Session {
    /// Starts over for the client, now or as soon as the JavaScript stack is empty. What the client sends after this is
    /// for the new context, so the queue and the keys are emptied here and not when the context is replaced.
    pub(super) fn reset(&mut self) {
        self.drop_queued(|_| true, was_reset);
        let running = self.state.evals.running.as_mut();
        for eval in running.into_iter().chain(self.state.recovery.stopped_eval()) {
            eval.params.key = None;
        }
        let released = self.state.keys.clear();
        self.release_callables(&released);
        if self.state.in_turn.is_some() {
            self.state.reset_requested = true;
            self.effects.push(Effect::StopTurn(Stop::Cancelled));
        } else {
            self.reset_now();
        }
    }

    /// Starts over. Only with an empty JavaScript stack.
    pub(super) fn reset_now(&mut self) {
        self.state.reset_requested = false;
        // First, so that the client hears that it need not answer.
        self.abandon_script_calls();
        self.cancel_work(Stop::Cancelled, was_reset);
        self.replace_context();
    }

    /// Frees memory after a limit was hit, and answers the eval that hit it afterwards.
    pub(super) fn recover(&mut self, stopped: Option<Box<StoppedEval>>) {
        self.state.recovery = Recovery::Freeing(stopped);
    }

    /// The turn that frees memory, if one is to be run.
    pub(super) fn recovery_turn(&mut self) -> Option<Turn> {
        let Recovery::Freeing(stopped) = &self.state.recovery else { return None };
        let source = stopped.as_ref().map(|stopped| std::sync::Arc::clone(&stopped.eval.source));
        Some(Turn { charged_to: ChargedTo::Background, depth: 0, work: Work::Recover(source) })
    }

    /// Goes on after the turn that freed memory; `recovered` is `None` for other turns.
    pub(super) fn finish_recovery_turn(&mut self, recovered: Option<bool>) {
        let (Recovery::Freeing(stopped), Some(has_room)) = (&mut self.state.recovery, recovered) else {
            return;
        };
        let stopped = stopped.take();
        self.state.recovery = Recovery::Idle;
        match (stopped, has_room) {
            (None, true) => {}
            (Some(stopped), true) => self.answer_stopped(*stopped),
            (None, false) => {
                self.cancel_everything(Stop::Memory);
                self.replace_context();
            }
            (Some(stopped), false) => {
                self.fail_invocations();
                self.state.recovery = Recovery::Freeing(Some(stopped));
                self.replace_context();
            }
        }
    }

    fn fail_invocations(&mut self) {
        let error = ErrorObject::new(Kind::MemoryLimit, "the session ran out of memory and started over")
            .with("sessionLost", true);
        for number in self.state.invocations.numbers() {
            let charged_to = ChargedTo::Invocation(number);
            self.abandon_calls_of(charged_to);
            let settled = Settled { charged_to, outcome: Err(error.clone()), exported: Vec::new() };
            self.finish_invocation(number, settled);
        }
    }

    fn answer_stopped(&mut self, StoppedEval { eval, error }: StoppedEval) {
        self.answer_eval(eval, &Err(error), &[]);
    }

    /// The session ends while memory was to be freed: the eval that waits for it is answered.
    pub(super) fn answer_recovering(&mut self) {
        if let Recovery::Freeing(Some(stopped)) | Recovery::Replacing(Some(stopped)) =
            std::mem::take(&mut self.state.recovery)
        {
            self.answer_stopped(*stopped);
        }
    }

    pub(super) fn replace_context(&mut self) {
        self.state.recovery = match std::mem::take(&mut self.state.recovery) {
            replacing @ Recovery::Replacing(_) => replacing,
            Recovery::Freeing(stopped) => self.request_context(stopped),
            Recovery::Idle => self.request_context(None),
        };
    }

    fn request_context(&mut self, stopped: Option<Box<StoppedEval>>) -> Recovery {
        self.effects.push(Effect::ReplaceContext);
        Recovery::Replacing(stopped)
    }

    /// A fresh context is in place, or there is no room even for that.
    pub(super) fn finish_replacement(&mut self, is_replaced: bool) {
        let Recovery::Replacing(stopped) = std::mem::take(&mut self.state.recovery) else { return };
        if is_replaced {
            self.abandon_script_calls();
            self.release_imports();
            self.drop_context_values(stopped.is_some());
            self.send_held();
        } else {
            self.end(Closing::Fault);
        }
        if let Some(stopped) = stopped {
            let StoppedEval { eval, error } = *stopped;
            let error = if is_replaced { error.with("sessionLost", true) } else { error };
            self.answer_stopped(StoppedEval { eval, error });
        }
        if is_replaced {
            self.introduce_client();
        }
    }

    /// Drops what waits for an empty JavaScript stack; answers of the client take no more memory.
    pub(super) fn drop_turns(&mut self) {
        for turn in self.state.ready.drain(..).chain(self.state.deferred.drain(..)).collect::<Vec<_>>() {
            if let Work::Settle(settlements) = turn.work {
                settlements.iter().for_each(|settlement| self.discharge(settlement.charge));
            }
        }
    }

    /// Drops everything that belonged to the old context. What an eval printed that is still to be answered stays.
    fn drop_context_values(&mut self, keeps_console: bool) {
        self.drop_turns();
        self.state.promises.clear();
        self.state.rejections.clear();
        self.state.pending.clear();
        let kept = self.state.keys.drop_functions();
        self.state.script_calls.clear();
        self.state.timers = Timers::new(self.limits.timers_max);
        self.state.has_shadows = false;
        if !keeps_console {
            self.state.console = Console::new(self.limits.console_bytes_max);
        }
        let mut freed = self.state.references.release_all(RefHolder::Client);
        freed.extend(self.state.references.release_all(RefHolder::Handler));
        freed.extend(kept.iter().filter_map(|callable| self.state.references.release_use(callable)));
        // Roots ended with their context.
        freed.retain(|freed| matches!(freed, super::tables::Freed::Handler(_)));
        self.free(freed);
    }
}

fn was_reset() -> ErrorObject {
    ErrorObject::new(Kind::Cancelled, "the session was reset")
}
