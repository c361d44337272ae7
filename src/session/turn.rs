//! Which turn is next, and what follows from one that is over.

use std::time::Duration;

use super::state::Recovery;
use super::{ChargedTo, Effect, RootId, Session, Time, Turn, TurnReport, Work};

/// What a background turn gets of a budget that is nearly used up, so that it can get anywhere.
const BACKGROUND_TURN_MIN: Duration = Duration::from_millis(5);

/// A turn that begins, with the CPU time that was used before it and the most that may be used.
#[derive(Debug)]
pub(crate) struct BeginTurn {
    /// What it does.
    pub turn: Turn,
    /// CPU time used before.
    pub spent: Duration,
    /// CPU time that may be used, `spent` included.
    pub budget: Duration,
}

impl Session {
    /// What to run next with an empty JavaScript stack. The caller runs it and applies its
    /// [report](super::Input::TurnEnded).
    pub(crate) fn next_turn(&mut self, now: Time) -> Option<BeginTurn> {
        self.now = now;
        let Turn { charged_to, depth, mut work } = self.choose_turn()?;
        let charged_to = self.current_payer(charged_to);
        if let Work::Settle(settlements) = &mut work {
            let charges = settlements.iter_mut().map(|settlement| std::mem::take(&mut settlement.charge));
            self.state.turn_charges.extend(charges.filter(|charge| *charge > 0));
        }
        let (spent, budget) = self.cpu_budget(charged_to);
        self.state.in_turn = Some(charged_to);
        self.state.depth = depth;
        Some(BeginTurn { turn: Turn { charged_to, depth, work }, spent, budget })
    }

    /// Whether a turn would begin now.
    pub(crate) fn has_turn_due(&self, now: Time) -> bool {
        let state = &self.state;
        !state.ready.is_empty()
            || !matches!(state.recovery, Recovery::Idle)
            || state.timers.next_at().is_some_and(|at| at <= now)
            || (state.evals.running.is_none() && (state.evals.queued() > 0 || self.has_leftovers()))
    }

    fn choose_turn(&mut self) -> Option<Turn> {
        if let Some(turn) = self.recovery_turn() {
            return Some(turn);
        }
        while let Some(turn) = self.state.ready.pop_front() {
            if self.is_call_over(&turn) {
                continue;
            }
            if !self.is_over_quota(&turn) {
                return Some(turn);
            }
            self.state.deferred.push_back(turn);
        }
        let may_run_background = self.background_wait().is_none();
        if may_run_background && let Some(turn) = self.state.deferred.pop_front() {
            return Some(turn);
        }
        if (may_run_background || self.state.evals.running.is_some())
            && let Some(turn) = self.due_timer(may_run_background)
        {
            return Some(turn);
        }
        if self.state.evals.running.is_some() {
            return None;
        }
        if may_run_background && self.has_leftovers() {
            return Some(Turn { charged_to: ChargedTo::Background, depth: 0, work: Work::Jobs });
        }
        if let Some(turn) = self.bindings_for_eval() {
            return Some(turn);
        }
        self.start_next_eval()
    }

    /// Whether an eval left something to be run or reported.
    pub(super) fn has_leftovers(&self) -> bool {
        self.context.has_jobs || !self.state.rejections.is_empty()
    }

    fn due_timer(&mut self, may_run_background: bool) -> Option<Turn> {
        let (timer, charged_to) = self.state.timers.take_due(self.now)?;
        let charged_to = self.current_payer(charged_to);
        if charged_to == ChargedTo::Background && !may_run_background {
            // Its eval is over and the budget or the quota is used up: it waits until there is some again.
            let later = self.background_wait().unwrap_or(self.now);
            self.state.timers.set(timer, later, ChargedTo::Background);
            return None;
        }
        Some(Turn { charged_to, depth: 0, work: Work::Timer(timer) })
    }

    /// Whether something is a call into the script that was stopped before it began.
    fn is_call_over(&self, turn: &Turn) -> bool {
        matches!(turn.work, Work::Call { .. }) && self.current_payer(turn.charged_to) == ChargedTo::Background
    }

    /// Whether something is work that no eval waits for, and has to wait for the quota.
    fn is_over_quota(&self, turn: &Turn) -> bool {
        matches!(turn.work, Work::Settle(_))
            && self.cpu_exceeded().is_some()
            && self.current_payer(turn.charged_to) == ChargedTo::Background
    }

    /// What is over pays for nothing any more.
    pub(super) fn current_payer(&self, charged_to: ChargedTo) -> ChargedTo {
        let is_current = match charged_to {
            ChargedTo::Eval(number) => {
                self.state.evals.running.as_ref().is_some_and(|running| running.number == number)
            }
            ChargedTo::Invocation(number) => self.state.invocations.contains(number),
            ChargedTo::Background => true,
        };
        if is_current { charged_to } else { ChargedTo::Background }
    }

    /// CPU time that was used, and the most that may be used.
    fn cpu_budget(&mut self, charged_to: ChargedTo) -> (Duration, Duration) {
        match charged_to {
            ChargedTo::Eval(_) => {
                let spent = self.state.evals.running.as_ref().map(|running| running.cpu);
                (spent.unwrap_or_default(), self.limits.cpu_max())
            }
            ChargedTo::Invocation(number) => {
                let spent = self.state.invocations.get(number).map(|invocation| invocation.cpu);
                (spent.unwrap_or_default(), self.limits.cpu_max())
            }
            ChargedTo::Background => {
                (Duration::ZERO, self.state.background.left(self.now).max(BACKGROUND_TURN_MIN))
            }
        }
    }

    fn record_cpu(&mut self, charged_to: ChargedTo, total: Duration) {
        match charged_to {
            ChargedTo::Eval(_) => {
                if let Some(running) = &mut self.state.evals.running {
                    running.cpu = total;
                }
            }
            ChargedTo::Invocation(number) => {
                if let Some(invocation) = self.state.invocations.get_mut(number) {
                    invocation.cpu = total;
                }
            }
            ChargedTo::Background => self.state.background.charge(total),
        }
    }

    /// A turn is over.
    pub(super) fn end_turn(&mut self, report: TurnReport) {
        let Some(charged_to) = self.state.in_turn.take() else { return };
        let TurnReport { settled, stopped, stopped_at, cpu, recovered } = report;
        self.record_cpu(charged_to, cpu);
        if let Some(running) = &mut self.state.evals.running {
            running.stopped_at = stopped_at;
        }
        self.state.last_payer = Some(charged_to);
        self.discharge_turn();
        // Before the eval is over, so that its last lines still name it.
        self.stream_console();
        for settled in settled {
            // An eval that was asked to end in this turn is stopped below, even if it came to its end all the same.
            let is_stopped = stopped.is_some() && settled.charged_to == charged_to;
            if matches!(settled.charged_to, ChargedTo::Eval(_)) && (is_stopped || self.is_eval_cancelled()) {
                self.take_back_exports(super::RefHolder::Client, &settled.exported);
                continue;
            }
            match settled.charged_to {
                ChargedTo::Eval(_) => self.finish_eval(settled.outcome, &settled.exported),
                ChargedTo::Invocation(number) => self.finish_invocation(number, settled),
                ChargedTo::Background => {}
            }
        }
        if let Some(reason) = stopped {
            self.stop_payer(charged_to, reason);
        }
        if let Some(reason) = self.state.evals.running.as_ref().and_then(|running| running.stop_requested) {
            self.stop_eval(reason);
        }
        self.stream_console();
        self.finish_recovery_turn(recovered);
        if self.state.reset_requested {
            self.reset_now();
        } else if self.context.is_overdrawn
            && recovered.is_none()
            && matches!(self.state.recovery, Recovery::Idle)
        {
            self.recover(None);
        }
        if !matches!(self.state.recovery, Recovery::Replacing(_)) {
            self.send_calls();
        }
        self.send_dropped_imports();
        self.serve_waiting_requests();
    }

    /// Whether the client has heard that the running eval is ended.
    fn is_eval_cancelled(&self) -> bool {
        self.state.evals.running.as_ref().is_some_and(|running| running.stop_requested.is_some())
    }

    pub(super) fn discharge_turn(&mut self) {
        for charge in std::mem::take(&mut self.state.turn_charges) {
            self.discharge(charge);
        }
    }

    /// The promise of an eval or invocation is not awaited any more.
    pub(super) fn drop_promise(&mut self, charged_to: ChargedTo) {
        let promises = self.state.promises.extract_if(.., |promise| promise.charged_to == charged_to);
        let roots: Vec<RootId> = promises.map(|promise| promise.promise).collect();
        if !roots.is_empty() {
            self.effects.push(Effect::FreeRoots(roots));
        }
    }
}
