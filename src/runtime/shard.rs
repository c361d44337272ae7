//! A shard: one OS thread with its own event loop, on which sockets and sessions live side by side.
//!
//! Work reaches a shard as jobs; everything else stays on its thread, so that an eval needs no thread hop. A shard
//! says when it enters JavaScript, so that the watchdog can tell one that never came back.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::spare;

/// Jobs that wait for a shard: connections accepted while it runs a slice.
const JOBS_QUEUED_MAX: usize = 4096;

/// Stack of a shard's thread. Turns have stacks of their own; this one must hold whatever QuickJS recurses into when a
/// world with deep structures is freed.
const STACK_BYTES: usize = 16 << 20;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static CURRENT: RefCell<Option<Shard>> = const { RefCell::new(None) };
    /// One place: of the scripts that used up a slice, one runs at a time, so that what is quick waits for one of them
    /// and not for all.
    static LONG_RUNNERS: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// A handle to a shard.
#[derive(Clone)]
pub struct Shard {
    jobs_tx: mpsc::Sender<Job>,
    state: Arc<State>,
}

struct State {
    number: usize,
    /// Connections and sessions here.
    load: AtomicUsize,
    epoch: Instant,
    /// Counts entries into JavaScript and returns from it: odd inside.
    stays: AtomicU64,
    /// Where the system says how much CPU time the thread has used.
    thread: OnceLock<PathBuf>,
    retired: AtomicBool,
}

/// Counts towards a shard's load as long as it lives.
#[derive(Debug)]
pub struct Weight(Shard);

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("number", &self.state.number).finish_non_exhaustive()
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.0.state.load.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shard {
    /// Starts a shard.
    pub fn start(number: usize) -> io::Result<Self> {
        let (jobs_tx, jobs_rx) = mpsc::channel(JOBS_QUEUED_MAX);
        let state = Arc::new(State {
            number,
            load: AtomicUsize::new(0),
            epoch: Instant::now(),
            stays: AtomicU64::new(0),
            thread: OnceLock::new(),
            retired: AtomicBool::new(false),
        });
        let shard = Self { jobs_tx, state };
        let own = shard.clone();
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .name(format!("shard-{number}"))
            .spawn(move || serve(own, jobs_rx))?;
        Ok(shard)
    }

    /// The shard that this thread is.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs a job on the shard, where it may spawn local tasks; `false` when the shard is gone or has too many.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs_tx.try_send(Box::new(job)).is_ok()
    }

    /// Its number, for logs.
    pub fn number(&self) -> usize {
        self.state.number
    }

    /// How much is on it.
    pub fn load(&self) -> usize {
        self.state.load.load(Ordering::Relaxed)
    }

    /// Adds to its load until dropped.
    pub fn weigh(&self) -> Weight {
        self.state.load.fetch_add(1, Ordering::Relaxed);
        Weight(self.clone())
    }

    /// Names the present stay inside JavaScript: the same as long as it has not come back.
    pub fn stay(&self) -> Option<u64> {
        Some(self.state.stays.load(Ordering::Relaxed)).filter(|stay| stay % 2 == 1)
    }

    /// CPU time that its thread has used. By the clock, a shard on a busy machine would look stuck when it only waits.
    pub fn cpu_time(&self) -> Duration {
        let used = self.state.thread.get().and_then(|thread| std::fs::read_to_string(thread).ok());
        let used = used.and_then(|text| text.split(' ').next()?.parse().ok());
        // Where the system does not say, the clock has to do.
        used.map_or_else(|| self.state.epoch.elapsed(), Duration::from_nanos)
    }

    /// Takes it out of service: when it comes back, if ever, it drops everything and ends.
    pub fn retire(&self) {
        self.state.retired.store(true, Ordering::Relaxed);
    }

    /// Whether it was taken out of service.
    pub fn is_retired(&self) -> bool {
        self.state.retired.load(Ordering::Relaxed)
    }
}

/// Runs a stretch of JavaScript under the watchdog's eyes.
pub(crate) fn watched<R>(work: impl FnOnce() -> R) -> R {
    let note = || {
        CURRENT.with_borrow(|shard| {
            shard.iter().for_each(|shard| {
                shard.state.stays.fetch_add(1, Ordering::Relaxed);
            });
        });
    };
    note();
    let result = work();
    note();
    result
}

/// Waits until a script that used up its slice may have another, which it may as long as it holds the result.
pub(crate) async fn next_slice() -> Option<OwnedSemaphorePermit> {
    let go_ahead = LONG_RUNNERS.with(Arc::clone).acquire_owned().await.ok();
    // At the first, the sockets are read; by the second, what they brought is answered.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    go_ahead
}

fn serve(shard: Shard, mut jobs_rx: mpsc::Receiver<Job>) {
    let number = shard.number();
    let state = Arc::clone(&shard.state);
    if let Ok(thread) = std::fs::canonicalize("/proc/thread-self") {
        // Nobody else sets it.
        let _ = state.thread.set(thread.join("schedstat"));
    }
    CURRENT.set(Some(shard));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(shard = number, %error, "the shard cannot start");
            return;
        }
    };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        while let Some(job) = jobs_rx.recv().await {
            if state.retired.load(Ordering::Relaxed) {
                break;
            }
            job();
        }
    });
    spare::clear();
    tracing::info!(shard = number, "shard ends");
}
