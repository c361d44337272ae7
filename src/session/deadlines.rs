//! When the session has to look again, and what it ends then.

use std::time::Duration;

use super::{ChargedTo, Effect, Session, Stop, Time};
use crate::quota::QuotaExceeded;

/// How long background work waits for a quota that never fills before it is tried again.
const QUOTA_WAIT_MAX: Duration = Duration::from_secs(3_600);

impl Session {
    /// The next time at which something has to be done.
    pub(crate) fn wake_at(&mut self, now: Time) -> Option<Time> {
        self.now = now;
        let background = self.background_wait();
        let is_running = self.state.evals.running.is_some();
        let timers = self.state.timers.next_at().map(|at| match background {
            Some(later) if !is_running => at.max(later),
            Some(_) | None => at,
        });
        let has_background_work = !self.state.deferred.is_empty() || (!is_running && self.has_leftovers());
        let background = background.filter(|_| has_background_work);
        let calls = self.state.client_calls.next_deadline();
        let eval = self.state.evals.running.as_ref().and_then(|running| running.clock.deadline());
        let invocations = self.state.invocations.next_deadline();
        [timers, background, calls, eval, invocations].into_iter().flatten().min()
    }

    /// Ends what took too long. Only with an empty JavaScript stack.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.now;
        self.expire_calls(now);
        for number in self.state.invocations.expired(now) {
            self.stop_invocation(number, Stop::Wall);
        }
        if self.state.evals.running.as_ref().is_some_and(|running| running.clock.is_over(now)) {
            self.stop_eval(Stop::Wall);
        }
    }

    /// Asks the running turn to end if its time is over; calls to the client expire also while it runs.
    pub(super) fn check_running_turn(&mut self) {
        let now = self.now;
        self.expire_calls(now);
        let clock = match self.state.in_turn {
            Some(ChargedTo::Invocation(number)) => {
                self.state.invocations.get(number).map(|invocation| &invocation.clock)
            }
            Some(ChargedTo::Eval(_) | ChargedTo::Background) | None => {
                self.state.evals.running.as_ref().map(|running| &running.clock)
            }
        };
        if clock.is_some_and(|clock| clock.is_over(now)) {
            self.effects.push(Effect::StopTurn(Stop::Wall));
        }
    }

    /// When work that no eval waits for may run next; `None`: now.
    pub(super) fn background_wait(&mut self) -> Option<Time> {
        let now = self.now;
        let background = &mut self.state.background;
        let budget = background.left(now).is_zero().then(|| background.renewed_at());
        let quota = self.cpu_quota_until().map(|until| until.min(now + QUOTA_WAIT_MAX));
        budget.max(quota)
    }

    fn cpu_quota_until(&self) -> Option<Time> {
        self.state.cpu_quota.as_ref().map(|(_, until)| *until).filter(|until| *until > self.now)
    }

    /// The CPU quota of the principal, if it is used up as far as the session knows.
    pub(super) fn cpu_exceeded(&self) -> Option<&QuotaExceeded> {
        self.state.cpu_quota.as_ref().filter(|(_, until)| *until > self.now).map(|(exceeded, _)| exceeded)
    }

    /// The host says that the CPU quota is used up.
    pub(super) fn set_cpu_quota(&mut self, exceeded: QuotaExceeded, is_overdrawn: bool) {
        self.state.cpu_quota = Some((exceeded.clone(), self.now + exceeded.retry_after));
        if !is_overdrawn {
            return;
        }
        match (self.state.in_turn, self.state.last_payer) {
            (Some(_), _) => self.effects.push(Effect::StopTurn(Stop::Quota)),
            (None, Some(last_payer)) => self.stop_payer(last_payer, Stop::Quota),
            (None, None) => {}
        }
    }

    /// Counts the time of a check of values outside of any turn, as time of the script that they are for.
    pub(crate) fn charge_check(&mut self, charged_to: Option<ChargedTo>, used: Duration) {
        self.charge_cpu(used);
        match charged_to.map(|charged_to| self.current_payer(charged_to)) {
            Some(ChargedTo::Eval(_)) => {
                if let Some(running) = &mut self.state.evals.running {
                    running.cpu += used;
                }
            }
            Some(ChargedTo::Invocation(number)) => {
                if let Some(invocation) = self.state.invocations.get_mut(number) {
                    invocation.cpu += used;
                }
            }
            Some(ChargedTo::Background) => self.state.background.charge(used),
            None => {}
        }
    }
}
