//! The shards of a server, and the watchdog that replaces one that is stuck.
//!
//! Some builtins of QuickJS never poll the interrupt handler. A shard inside one of them serves no session: after a
//! grace it is retired, its sockets are shut so that its clients notice immediately, and a fresh shard takes its place.
//!
//! A thread inside native code cannot be ended from outside. Until the builtin returns and the retired shard ends, its
//! sessions count towards the quotas of their principals, and the CPU time that the thread burns is charged to the
//! principal whose script it is in.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::sockets::OpenSockets;
use crate::limits::{SettingCheck, SettingsError};
use crate::quota::SessionSlot;
use crate::runtime::{self, shard::Shard};

/// How often the watchdog samples the shards. A loop around a slow operation blocks its shard for twice that at most.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Most threads that run scripts. More than a machine has cores are of no use, and few machines have that many; each takes
/// a stack, descriptors and ready contexts from the start. The server does not start with more.
pub const SHARDS_MAX: usize = 1024;

/// One for each core.
pub(crate) fn default_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(SHARDS_MAX)
}

/// Whether a server can be started with that many shards.
pub(crate) fn check_count(count: usize) -> Result<(), SettingsError> {
    let mut check = SettingCheck::new("");
    check.count("shards", count, SHARDS_MAX);
    check.finish()
}

/// All shards of a server.
pub(crate) struct Shards {
    live: Mutex<Vec<Shard>>,
    /// What lives on a stuck shard cannot be closed there, so its sockets are shut from outside.
    sockets: Arc<OpenSockets>,
    next_shard: AtomicUsize,
    next_choice: AtomicUsize,
    /// Retired shards whose threads have not ended yet.
    retired: Mutex<Vec<RetiredShard>>,
    retired_total: AtomicUsize,
    ended_total: AtomicUsize,
}

/// A shard that was retired.
struct RetiredShard {
    shard: Shard,
    /// CPU time of its thread that has been charged for.
    charged: Duration,
    /// The slots of its sessions in their principals' accounts.
    slots: Vec<SessionSlot>,
}

impl RetiredShard {
    /// Charges the CPU time used since the last sample to the principal whose script the thread is in.
    fn charge(&mut self) {
        let used = self.shard.cpu_time().saturating_sub(self.charged);
        self.charged += used;
        self.shard.poll_soon();
        if let Some(account) = self.shard.running_account() {
            // No turn on a retired shard can be stopped, so an overdraft has no further effect.
            let _ = account.charge_cpu(used, Instant::now);
        }
    }
}

/// Counts of the shards that were stuck, for the metrics.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StuckShards {
    /// Retired ones whose threads have not ended.
    pub(crate) stuck: usize,
    /// Sessions on these.
    pub(crate) sessions: usize,
    /// All that were retired since the start.
    pub(crate) retired_total: usize,
    /// Of these, the ones whose threads have ended.
    pub(crate) ended_total: usize,
}

impl Shards {
    /// Starts `count` shards.
    pub(crate) fn start(count: usize) -> io::Result<Arc<Self>> {
        let live = (0..count.max(1)).map(Shard::start).collect::<io::Result<Vec<_>>>()?;
        Ok(Arc::new(Self {
            next_shard: AtomicUsize::new(live.len()),
            live: Mutex::new(live),
            next_choice: AtomicUsize::new(0),
            sockets: Arc::default(),
            retired: Mutex::default(),
            retired_total: AtomicUsize::new(0),
            ended_total: AtomicUsize::new(0),
        }))
    }

    /// The shard with the least load; of equal ones another each time, so that all their spare contexts are used.
    pub(crate) fn least_loaded(&self) -> Option<Shard> {
        let live = self.live.lock();
        let first = self.next_choice.fetch_add(1, Ordering::Relaxed) % live.len().max(1);
        let (before, after) = live.split_at_checked(first)?;
        after.iter().chain(before).min_by_key(|shard| shard.load()).cloned()
    }

    /// Returns freed memory to the system: that of the process, and that of contexts on every shard.
    pub(crate) fn release_memory(&self) {
        super::capacity::trim();
        for shard in self.live.lock().iter() {
            // A shard whose queue is full keeps its memory until the next time.
            let _ = shard.run(runtime::release_freed_memory);
        }
    }

    /// The table of the sockets on all shards.
    pub(crate) fn sockets(&self) -> &Arc<OpenSockets> {
        &self.sockets
    }

    /// Counts of the shards that were stuck.
    pub(crate) fn stuck(&self) -> StuckShards {
        let retired = self.retired.lock();
        StuckShards {
            stuck: retired.len(),
            sessions: retired.iter().map(|retired| retired.shard.session_count()).sum(),
            retired_total: self.retired_total.load(Ordering::Relaxed),
            ended_total: self.ended_total.load(Ordering::Relaxed),
        }
    }

    /// Watches the shards for as long as the server lives. `on_lost` is called with the number of each that is retired and
    /// returns the slots of its sessions in the accounts, which are kept until its thread has ended.
    pub(crate) fn watch(
        self: &Arc<Self>,
        stuck_after: Duration,
        on_lost: impl Fn(usize) -> Vec<SessionSlot> + Send + 'static,
    ) -> io::Result<()> {
        let shards = Arc::downgrade(self);
        let look = move || {
            let mut samples = HashMap::new();
            while let Some(shards) = shards.upgrade() {
                for mut lost in shards.replace_stuck(stuck_after, &mut samples) {
                    lost.slots = on_lost(lost.shard.number());
                    shards.retired.lock().push(lost);
                }
                shards.reap_retired();
                drop(shards);
                std::thread::sleep(SAMPLE_EVERY);
            }
        };
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(look).map(drop)
    }

    fn replace_stuck(
        &self,
        stuck_after: Duration,
        samples: &mut HashMap<usize, Sample>,
    ) -> Vec<RetiredShard> {
        let mut live = self.live.lock();
        let mut lost = Vec::new();
        for shard in live.iter_mut() {
            let number = shard.number();
            if !is_stuck(shard, stuck_after, samples) {
                continue;
            }
            let charged = samples.remove(&number).map_or(Duration::ZERO, |sample| sample.cpu_time);
            tracing::error!(shard = number, "a shard is stuck in native code and is replaced");
            shard.retire();
            self.retired_total.fetch_add(1, Ordering::Relaxed);
            let mut retired = RetiredShard { shard: shard.clone(), charged, slots: Vec::new() };
            retired.charge();
            self.sockets.shut_down(number);
            match Shard::start(self.next_shard.fetch_add(1, Ordering::Relaxed)) {
                Ok(fresh) => *shard = fresh,
                Err(error) => tracing::error!(%error, "cannot start a new shard"),
            }
            lost.push(retired);
        }
        lost
    }

    /// Charges for the threads that are still stuck, and forgets those that have ended.
    fn reap_retired(&self) {
        let mut ended = Vec::new();
        self.retired.lock().retain_mut(|retired| {
            if retired.shard.has_ended() {
                ended.push(std::mem::take(&mut retired.slots));
                return false;
            }
            retired.charge();
            true
        });
        if ended.is_empty() {
            return;
        }
        let count = ended.len();
        // The slots are dropped before it is counted, so that a reader of the count finds the quotas free.
        drop(ended);
        self.ended_total.fetch_add(count, Ordering::Relaxed);
        super::capacity::trim();
    }
}

/// The first sample of a shard in its present stay inside JavaScript.
struct Sample {
    stay: u64,
    cpu_time: Duration,
}

/// Whether a shard has used `stuck_after` of CPU time since it was first seen in the stay that it is still in.
fn is_stuck(shard: &Shard, stuck_after: Duration, samples: &mut HashMap<usize, Sample>) -> bool {
    let Some(stay) = shard.stay() else {
        samples.remove(&shard.number());
        return false;
    };
    let cpu_time = shard.cpu_time();
    match samples.get_mut(&shard.number()) {
        // A slice takes microseconds: this one loops around a slow operation, or never returns.
        Some(sample) if sample.stay == stay => shard.poll_soon(),
        Some(sample) => *sample = Sample { stay, cpu_time },
        None => {
            samples.insert(shard.number(), Sample { stay, cpu_time });
        }
    }
    let Some(sample) = samples.get(&shard.number()) else { return false };
    cpu_time.saturating_sub(sample.cpu_time) >= stuck_after
}
