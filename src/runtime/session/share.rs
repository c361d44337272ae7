//! What a session may use: its share of the shard, its CPU budgets, and the CPU quota of its principal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::guest::Owner;
use super::super::meter::Stop;
use super::super::shard::Residence;
use super::super::slices::{self, Contender};
use super::turn::Action;
use super::{Ready, Session};
use crate::quota::{Account, QuotaExceeded};
use crate::rpc::ErrorObject;

/// How long background work waits for a quota that never fills before it looks again.
const QUOTA_LOOK_MAX: Duration = Duration::from_secs(3_600);

/// What a background turn gets of a budget that is nearly used up, so that it can get anywhere.
const BACKGROUND_TURN_MIN: Duration = Duration::from_millis(5);

impl Session {
    fn account(&self) -> &Arc<Account> {
        &self.parts.scope.principal.account
    }

    /// Names the principal to the scheduler.
    fn principal_key(&self) -> usize {
        Arc::as_ptr(self.account()).addr()
    }

    /// Whether the shard was taken out of service: then the session makes no further call and ends.
    pub(crate) fn is_retired(&self) -> bool {
        self.residence.as_ref().is_some_and(Residence::is_retired)
    }

    /// Waits until the principal is no longer ahead of others that wait for a slice. Only with an empty JavaScript stack
    /// and only if there is a turn to run; messages that arrive meanwhile are taken in.
    pub(crate) async fn wait_for_share(&mut self) -> Option<Contender> {
        let principal = self.principal_key();
        if !slices::is_ahead(principal) || !self.has_turn_due() {
            return None;
        }
        let contender = Contender::new(principal);
        contender.next_slice().await;
        self.drain_inbox().await;
        Some(contender)
    }

    fn has_turn_due(&mut self) -> bool {
        let timer = self.engine.guest.timers.borrow_mut().next_at();
        !self.ready.is_empty()
            || timer.is_some_and(|at| at <= Instant::now())
            || (self.evals.running.is_none() && (self.evals.queued() > 0 || self.engine.has_leftovers()))
    }

    /// The shard serves the others; then the session takes in what came for it.
    pub(crate) async fn between_slices(&mut self, contender: Option<Contender>) -> Contender {
        let contender = contender.unwrap_or_else(|| Contender::new(self.principal_key()));
        if !self.is_retired() {
            self.start_pending().await;
            self.stream_console().await;
            if self.awaits_changes() {
                self.announce_changes().await;
            }
        }
        contender.next_slice().await;
        if self.is_retired() {
            self.engine.guest.meter.request_stop(Stop::Closed);
            self.engine.poll_counter.poll_within(1);
            return contender;
        }
        self.drain_inbox().await;
        if self.ending.is_some() {
            self.engine.guest.meter.request_stop(Stop::Closed);
            self.engine.poll_counter.poll_within(1);
        }
        let now = Instant::now();
        self.expire_calls(now).await;
        let deadline = match self.in_turn {
            Some(Owner::Invocation(number)) => {
                self.invocations.get(&number).and_then(|call| call.clock.deadline())
            }
            Some(Owner::Eval(_) | Owner::Nobody) | None => {
                self.evals.running.as_ref().and_then(|running| running.clock.deadline())
            }
        };
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.engine.guest.meter.request_stop(Stop::Wall);
        }
        contender
    }

    /// What an owner has spent, and what it may spend in all.
    pub(crate) fn budget_of(&mut self, owner: Owner) -> (Duration, Duration) {
        match owner {
            Owner::Eval(_) => {
                let spent = self.evals.running.as_ref().map(|running| running.cpu).unwrap_or_default();
                (spent, self.parts.limits.cpu_max())
            }
            Owner::Invocation(number) => {
                let spent = self.invocations.get(&number).map(|call| call.cpu).unwrap_or_default();
                (spent, self.parts.limits.cpu_max())
            }
            Owner::Nobody => (Duration::ZERO, self.background.left(Instant::now()).max(BACKGROUND_TURN_MIN)),
        }
    }

    /// Records what an owner has spent in all.
    pub(crate) fn set_spent(&mut self, owner: Owner, total: Duration) {
        match owner {
            Owner::Eval(_) => {
                if let Some(running) = &mut self.evals.running {
                    running.cpu = total;
                }
            }
            Owner::Invocation(number) => {
                if let Some(call) = self.invocations.get_mut(&number) {
                    call.cpu = total;
                }
            }
            Owner::Nobody => self.background.charge(total),
        }
    }

    /// Charges the CPU time of a slice to the principal. Returns whether its quota is overdrawn so far that the turn is
    /// to stop.
    pub(crate) fn count_cpu(&mut self, used: Duration) -> bool {
        self.cpu_total += used;
        slices::charge(self.principal_key(), used);
        // On a retired shard the watchdog charges.
        !self.is_retired() && self.account().charge_cpu(used, Instant::now)
    }

    /// Ends an eval or a call into the script, if it is still at work. Only with an empty JavaScript stack.
    pub(crate) async fn stop_owner(&mut self, owner: Owner, reason: Stop) {
        match self.current_owner(owner) {
            Owner::Eval(_) => self.stop_eval(reason).await,
            Owner::Invocation(number) => self.stop_invocation(number, reason).await,
            Owner::Nobody => {}
        }
    }

    /// The error for what was stopped; one for the quota says when to come back.
    pub(crate) fn stop_error(&self, reason: Stop, message: impl Into<String>) -> ErrorObject {
        let error = ErrorObject::new(reason.kind(), message);
        match self.account().check_cpu(Instant::now) {
            Err(exceeded) if reason == Stop::Quota => {
                error.with("quota", exceeded.resource.name()).with("retryAfterMs", exceeded.retry_after_ms())
            }
            Err(_) | Ok(()) => error,
        }
    }

    /// Whether the principal has CPU time left for a call into the script.
    pub(crate) fn admit_invocation(&self) -> Result<(), QuotaExceeded> {
        let admitted = self.account().check_cpu(Instant::now);
        admitted.inspect_err(|exceeded| crate::observe::refused(exceeded.resource.name()))
    }

    /// Whether something is work that no eval waits for, and has to wait for the quota.
    pub(crate) fn is_over_quota(&self, ready: &Ready) -> bool {
        matches!(ready.action, Action::Settle(_))
            && self.account().check_cpu(Instant::now).is_err()
            && self.current_owner(ready.owner) == Owner::Nobody
    }

    /// When work that no eval waits for may run next; `None`: now.
    pub(crate) fn background_wait(&mut self, now: Instant) -> Option<Instant> {
        let budget = self.background.left(now).is_zero().then(|| self.background.renewed_at());
        let quota = self.account().check_cpu(|| now).err();
        let quota = quota.map(|exceeded| now + exceeded.retry_after.min(QUOTA_LOOK_MAX));
        budget.max(quota)
    }

    /// Whether there is such work beside timers.
    pub(crate) fn has_background_work(&self) -> bool {
        !self.deferred.is_empty() || (self.evals.running.is_none() && self.engine.has_leftovers())
    }
}
