//! How much a principal may use: the settings, and the account that keeps count.
//!
//! An account is shared by all connections and sessions of its principal, on all shards. What is held (sessions,
//! memory, queued evals) is released by dropping a slot, so that no early return can leak it; what flows (CPU time,
//! messages) comes from token buckets. Time is a parameter throughout.

mod check;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::rpc::{ErrorObject, Kind};

/// When to retry for something that becomes free only when a slot is dropped.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// Overdraft of CPU time that running scripts have even where a minute's worth is less.
/// A quota of a few milliseconds per minute would otherwise end evals that were admitted while there was some left.
const CPU_OVERDRAFT_SECONDS_MIN: f64 = 1.0;

/// What a principal may hold concurrently or use over time; what is absent is not limited. Past any of them: `Busy`.
///
/// ```
/// use scomp::quota::Quotas;
///
/// let quotas = Quotas { sessions_max: Some(4), cpu_seconds_per_minute: Some(20.0), ..Quotas::default() };
/// # assert_eq!(quotas.queued_evals_max, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Sessions, detached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 100))]
    pub sessions_max: Option<usize>,
    /// Evals that wait for their turn, over all sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 1_000))]
    pub queued_evals_max: Option<usize>,
    /// CPU time of scripts. A whole minute's worth may be used in one go; an overdraft delays later evals. Running scripts
    /// may overdraw it by another minute's worth, or by a second if that is more; then they are stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 30.0))]
    pub cpu_seconds_per_minute: Option<f64>,
    /// JavaScript heap, over all sessions. Each session counts with its limit, used or not, so that an admitted
    /// session never fails for what its neighbours do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 1_073_741_824))]
    pub memory_bytes_max: Option<usize>,
    /// Messages of the client, over all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 200.0))]
    pub messages_per_second: Option<f64>,
    /// Messages that may arrive in a burst; absent: those of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-example" = 1_000.0))]
    pub messages_burst: Option<f64>,
}

/// A resource that a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Live sessions.
    Sessions,
    /// Waiting evals.
    QueuedEvals,
    /// CPU time.
    Cpu,
    /// Heap.
    Memory,
    /// Messages.
    Messages,
}

impl Resource {
    /// Its name in `data.quota` and in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::QueuedEvals => "queuedEvals",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Messages => "messages",
        }
    }
}

/// A quota is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("quota exceeded: {}", resource.name())]
pub struct QuotaExceeded {
    /// The resource that is used up.
    pub resource: Resource,
    /// When a retry may succeed.
    pub retry_after: Duration,
}

impl QuotaExceeded {
    /// As `data.retryAfterMs`. Rounded up: a client that waits exactly that long is not refused again.
    pub fn retry_after_ms(&self) -> u64 {
        let retry_after_ms = self.retry_after.as_nanos().div_ceil(1_000_000);
        u64::try_from(retry_after_ms).unwrap_or(u64::MAX).max(1)
    }
}

impl From<QuotaExceeded> for ErrorObject {
    fn from(exceeded: QuotaExceeded) -> Self {
        Self::new(Kind::Busy, exceeded.to_string())
            .with("quota", exceeded.resource.name())
            .with("retryAfterMs", exceeded.retry_after_ms())
    }
}

/// What a principal holds and has used. See the module.
#[derive(Debug)]
pub struct Account {
    quotas: Quotas,
    held: Mutex<Usage>,
    cpu: Option<Mutex<Bucket>>,
    messages: Option<Mutex<Bucket>>,
}

#[derive(Debug, Default)]
struct Usage {
    sessions: usize,
    memory_bytes: usize,
    queued_evals: usize,
}

/// One session's slot in the account, until dropped.
#[derive(Debug)]
pub struct SessionSlot {
    account: Arc<Account>,
    memory_bytes: usize,
}

/// One waiting eval's slot in the account, until dropped; the default is for an eval that need not wait.
#[derive(Debug, Default)]
pub struct EvalSlot(Option<Arc<Account>>);

impl EvalSlot {
    /// Whether the eval counts towards a quota.
    pub fn is_counted(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut held = self.account.held.lock();
        held.sessions -= 1;
        held.memory_bytes -= self.memory_bytes;
    }
}

impl Drop for EvalSlot {
    fn drop(&mut self) {
        if let Some(account) = &self.0 {
            account.held.lock().queued_evals -= 1;
        }
    }
}

impl Account {
    /// What the principal may use.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// An unused account.
    pub fn new(quotas: Quotas, now: Instant) -> Self {
        let cpu = quotas
            .cpu_seconds_per_minute
            .map(|seconds| Mutex::new(Bucket::new(seconds, seconds / 60.0, now)));
        let messages = quotas.messages_per_second.map(|per_second| {
            let burst = quotas.messages_burst.unwrap_or(per_second).max(1.0);
            Mutex::new(Bucket::new(burst, per_second, now))
        });
        Self { quotas, held: Mutex::default(), cpu, messages }
    }

    /// Takes a slot for one more session with that much memory.
    pub fn open_session(self: &Arc<Self>, memory_bytes: usize) -> Result<SessionSlot, QuotaExceeded> {
        let mut held = self.held.lock();
        let full = |resource| QuotaExceeded { resource, retry_after: SLOT_RETRY };
        if self.quotas.sessions_max.is_some_and(|max| held.sessions >= max) {
            return Err(full(Resource::Sessions));
        }
        let memory_after = held.memory_bytes.saturating_add(memory_bytes);
        if self.quotas.memory_bytes_max.is_some_and(|max| memory_after > max) {
            return Err(full(Resource::Memory));
        }
        held.sessions += 1;
        held.memory_bytes = memory_after;
        Ok(SessionSlot { account: Arc::clone(self), memory_bytes })
    }

    /// Whether CPU time is left for one more eval.
    pub fn check_cpu(&self, now: impl FnOnce() -> Instant) -> Result<(), QuotaExceeded> {
        let Some(cpu) = &self.cpu else { return Ok(()) };
        cpu.lock()
            .positive(now())
            .map_err(|retry_after| QuotaExceeded { resource: Resource::Cpu, retry_after })
    }

    /// Takes a slot for one more waiting eval.
    pub fn queue_eval(self: &Arc<Self>) -> Result<EvalSlot, QuotaExceeded> {
        let Some(max) = self.quotas.queued_evals_max else {
            return Ok(EvalSlot(None));
        };
        let mut held = self.held.lock();
        if held.queued_evals >= max {
            return Err(QuotaExceeded { resource: Resource::QueuedEvals, retry_after: SLOT_RETRY });
        }
        held.queued_evals += 1;
        Ok(EvalSlot(Some(Arc::clone(self))))
    }

    /// Counts CPU time that was used. Returns whether the account is overdrawn so far that running scripts must stop.
    pub fn charge_cpu(&self, used: Duration, now: impl FnOnce() -> Instant) -> bool {
        let Some(cpu) = &self.cpu else { return false };
        let mut cpu = cpu.lock();
        cpu.spend(now(), used.as_secs_f64());
        cpu.level < -cpu.capacity.max(CPU_OVERDRAFT_SECONDS_MIN)
    }

    /// Counts a message; fails when there were too many.
    pub fn count_message(&self, now: impl FnOnce() -> Instant) -> Result<(), QuotaExceeded> {
        let Some(messages) = &self.messages else {
            return Ok(());
        };
        messages
            .lock()
            .take(now())
            .map_err(|retry_after| QuotaExceeded { resource: Resource::Messages, retry_after })
    }
}

/// Fills steadily up to its capacity; may be overdrawn.
#[derive(Debug)]
struct Bucket {
    capacity: f64,
    per_second: f64,
    level: f64,
    filled_at: Instant,
}

impl Bucket {
    fn new(capacity: f64, per_second: f64, now: Instant) -> Self {
        Self { capacity, per_second, level: capacity, filled_at: now }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.capacity);
        self.filled_at = self.filled_at.max(now);
    }

    /// Takes one token, or returns how long until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        if self.level < 1.0 {
            return Err(self.time_for(1.0 - self.level));
        }
        self.level -= 1.0;
        Ok(())
    }

    /// Whether anything is left, or how long until there is.
    fn positive(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        if self.level > 0.0 {
            return Ok(());
        }
        Err(self.time_for(-self.level).max(Duration::from_millis(1)))
    }

    /// Takes `amount` even if that overdraws the bucket.
    fn spend(&mut self, now: Instant, amount: f64) {
        self.fill(now);
        self.level -= amount;
    }

    fn time_for(&self, amount: f64) -> Duration {
        // For a bucket that never fills the time is infinite, which no `Duration` can hold.
        Duration::try_from_secs_f64(amount / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(quotas: Quotas) -> (Arc<Account>, Instant) {
        let now = Instant::now();
        (Arc::new(Account::new(quotas, now)), now)
    }

    #[test]
    fn sessions_past_the_quota_are_refused_until_one_ends() {
        let (account, _) = account(Quotas { sessions_max: Some(2), ..Quotas::default() });
        let first = account.open_session(1).unwrap();
        let _second = account.open_session(1).unwrap();
        assert_eq!(account.open_session(1).unwrap_err().resource, Resource::Sessions);
        drop(first);
        assert!(account.open_session(1).is_ok());
    }

    #[test]
    fn memory_is_counted_by_session_limits() {
        let (account, _) = account(Quotas { memory_bytes_max: Some(100), ..Quotas::default() });
        let slot = account.open_session(60).unwrap();
        assert!(account.open_session(40).is_ok());
        assert_eq!(account.open_session(41).unwrap_err().resource, Resource::Memory);
        drop(slot);
        assert!(account.open_session(100).is_ok());
    }

    #[test]
    fn waiting_evals_past_the_quota_are_refused_until_one_runs() {
        let (account, _) = account(Quotas { queued_evals_max: Some(1), ..Quotas::default() });
        let slot = account.queue_eval().unwrap();
        assert_eq!(account.queue_eval().unwrap_err().resource, Resource::QueuedEvals);
        drop(slot);
        assert!(account.queue_eval().is_ok());
    }

    #[test]
    fn overdrawn_cpu_time_delays_evals() {
        let (account, now) = account(Quotas { cpu_seconds_per_minute: Some(6.0), ..Quotas::default() });
        account.charge_cpu(Duration::from_secs(5), || now);
        assert!(account.check_cpu(|| now).is_ok());
        account.charge_cpu(Duration::from_secs(2), || now);
        let refusal = account.check_cpu(|| now).unwrap_err();
        assert_eq!((refusal.resource, refusal.retry_after.as_secs()), (Resource::Cpu, 10));
        assert!(account.check_cpu(|| now + Duration::from_secs(9)).is_err());
        assert!(account.check_cpu(|| now + Duration::from_millis(10_001)).is_ok());
    }

    #[test]
    fn running_scripts_may_overdraw_by_a_minutes_worth() {
        let (account, now) = account(Quotas { cpu_seconds_per_minute: Some(6.0), ..Quotas::default() });
        assert!(!account.charge_cpu(Duration::from_secs(12), || now));
        assert!(account.charge_cpu(Duration::from_millis(1), || now));
        assert!(!account.charge_cpu(Duration::ZERO, || now + Duration::from_secs(1)));
    }

    #[test]
    fn running_scripts_may_overdraw_small_quota_by_a_second() {
        let (account, now) = account(Quotas { cpu_seconds_per_minute: Some(0.5), ..Quotas::default() });
        assert!(!account.charge_cpu(Duration::from_millis(1_500), || now));
        assert!(account.charge_cpu(Duration::from_millis(1), || now));
    }

    #[test]
    fn messages_are_limited_to_a_burst_and_a_rate() {
        let (account, now) = account(Quotas {
            messages_per_second: Some(10.0),
            messages_burst: Some(3.0),
            ..Quotas::default()
        });
        assert!((0..3).all(|_| account.count_message(|| now).is_ok()));
        let refusal = account.count_message(|| now).unwrap_err();
        assert_eq!(refusal.retry_after, Duration::from_millis(100));
        assert!(account.count_message(|| now + refusal.retry_after).is_ok());
        assert!(account.count_message(|| now + refusal.retry_after).is_err());
        let later = now + Duration::from_secs(60);
        assert_eq!((0..9).filter(|_| account.count_message(|| later).is_ok()).count(), 3);
    }

    #[test]
    fn refusal_is_busy_with_a_retry_time() {
        let refusal = QuotaExceeded { resource: Resource::Cpu, retry_after: Duration::from_micros(1_200) };
        let error = ErrorObject::from(refusal);
        assert!(error.is(Kind::Busy));
        assert_eq!(
            error.data.unwrap(),
            serde_json::json!({"kind": "Busy", "quota": "cpu", "retryAfterMs": 2})
        );
    }

    #[test]
    fn account_without_quotas_refuses_nothing() {
        let (account, now) = account(Quotas::default());
        account.charge_cpu(Duration::from_secs(1_000), || now);
        assert!(account.check_cpu(|| now).is_ok());
        let slots: Vec<_> = (0..100).map(|_| (account.open_session(1 << 30), account.queue_eval())).collect();
        assert!(slots.iter().all(|(session, eval)| session.is_ok() && eval.is_ok()));
        assert!((0..1_000).all(|_| account.count_message(|| now).is_ok()));
    }
}
