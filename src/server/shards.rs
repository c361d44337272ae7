//! The shards of a server, and the watchdog that replaces one that is stuck.
//!
//! Some builtins of QuickJS never ask whether to go on. A shard inside one of them serves nobody: after a grace it is
//! taken out of service, its sockets are shut so that its clients know at once, and a fresh shard takes its place.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::sockets::OpenSockets;
use crate::runtime::{self, shard::Shard};

/// How often the watchdog looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// All shards of a server.
pub(crate) struct Shards {
    live: Mutex<Vec<Shard>>,
    /// What lives on a stuck shard cannot be closed there, so its sockets are shut from outside.
    sockets: Arc<OpenSockets>,
    next_shard: AtomicUsize,
    next_choice: AtomicUsize,
    stuck: AtomicUsize,
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
            stuck: AtomicUsize::new(0),
        }))
    }

    /// The shard with the least on it; of several, another each time, so that all keep worlds ready for those who come.
    pub(crate) fn least_loaded(&self) -> Option<Shard> {
        let live = self.live.lock();
        let first = self.next_choice.fetch_add(1, Ordering::Relaxed) % live.len().max(1);
        let (before, after) = live.split_at_checked(first)?;
        after.iter().chain(before).min_by_key(|shard| shard.load()).cloned()
    }

    /// Gives memory back to the system: that of the process, and that of worlds on every shard.
    pub(crate) fn give_memory_back(&self) {
        super::capacity::trim();
        for shard in self.live.lock().iter() {
            // One that has too much to do keeps its memory until the next time.
            let _ = shard.run(runtime::give_back);
        }
    }

    /// The table of the sockets on all shards.
    pub(crate) fn sockets(&self) -> &Arc<OpenSockets> {
        &self.sockets
    }

    /// How many shards were lost.
    pub(crate) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Looks after the shards for as long as the server lives; `on_lost` hears of each that is lost.
    pub(crate) fn watch(
        self: &Arc<Self>,
        stuck_after: Duration,
        on_lost: impl Fn(usize) + Send + 'static,
    ) -> io::Result<()> {
        let shards = Arc::downgrade(self);
        let look = move || {
            let mut sights = HashMap::new();
            while let Some(shards) = shards.upgrade() {
                for number in shards.replace_stuck(stuck_after, &mut sights) {
                    on_lost(number);
                }
                drop(shards);
                std::thread::sleep(LOOK_EVERY);
            }
        };
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(look).map(drop)
    }

    fn replace_stuck(&self, stuck_after: Duration, sights: &mut HashMap<usize, Sight>) -> Vec<usize> {
        let mut live = self.live.lock();
        let mut lost = Vec::new();
        for shard in live.iter_mut() {
            let number = shard.number();
            if !is_stuck(shard, stuck_after, sights) {
                continue;
            }
            sights.remove(&number);
            tracing::error!(shard = number, "a shard is stuck in native code and is replaced");
            shard.retire();
            self.stuck.fetch_add(1, Ordering::Relaxed);
            self.sockets.shut_down(number);
            match Shard::start(self.next_shard.fetch_add(1, Ordering::Relaxed)) {
                Ok(fresh) => *shard = fresh,
                Err(error) => tracing::error!(%error, "no fresh shard can be started"),
            }
            lost.push(number);
        }
        lost
    }
}

/// What the watchdog saw of a shard when it first found it in the present stay inside JavaScript.
struct Sight {
    stay: u64,
    cpu_time: Duration,
}

/// Whether a shard has used `stuck_after` of CPU time since it was first seen in the stay that it is still in.
fn is_stuck(shard: &Shard, stuck_after: Duration, sights: &mut HashMap<usize, Sight>) -> bool {
    let Some(stay) = shard.stay() else {
        sights.remove(&shard.number());
        return false;
    };
    let cpu_time = shard.cpu_time();
    let sight = sights.entry(shard.number()).or_insert(Sight { stay, cpu_time });
    if sight.stay != stay {
        *sight = Sight { stay, cpu_time };
    }
    cpu_time.saturating_sub(sight.cpu_time) >= stuck_after
}
