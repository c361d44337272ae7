//! A shard: one OS thread with its own event loop, on which sockets and sessions live side by side.
//!
//! Work reaches a shard as jobs; everything else stays on its thread, so that an eval needs no thread hop. A shard
//! says when it enters JavaScript, so that the watchdog can tell one that never came back.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// Jobs that wait for a shard: connections accepted while it runs a slice.
const JOBS_QUEUED_MAX: usize = 4096;

/// Stack of a shard's thread. Turns have stacks of their own; this one must hold whatever QuickJS recurses into when a
/// world with deep structures is freed.
const STACK_BYTES: usize = 16 << 20;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static CURRENT: RefCell<Option<Shard>> = const { RefCell::new(None) };
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
    /// Milliseconds after `epoch` at which JavaScript was entered, plus one; 0 outside.
    entered_ms: AtomicU64,
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
            entered_ms: AtomicU64::new(0),
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

    /// How long it has been inside JavaScript without coming back.
    pub fn inside_for(&self) -> Option<Duration> {
        let entered = self.state.entered_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.state.epoch.elapsed().saturating_sub(Duration::from_millis(entered)))
    }

    /// Takes it out of service: when it comes back, if ever, it drops everything and ends.
    pub fn retire(&self) {
        self.state.retired.store(true, Ordering::Relaxed);
    }

    /// Whether it was taken out of service.
    pub fn is_retired(&self) -> bool {
        self.state.retired.load(Ordering::Relaxed)
    }

    fn note_entry(&self, inside: bool) {
        let stamp =
            if inside { u64::try_from(self.state.epoch.elapsed().as_millis()).unwrap_or(0) + 1 } else { 0 };
        self.state.entered_ms.store(stamp, Ordering::Relaxed);
    }
}

/// Runs a stretch of JavaScript under the watchdog's eyes.
pub(crate) fn watched<R>(work: impl FnOnce() -> R) -> R {
    CURRENT.with_borrow(|shard| shard.iter().for_each(|shard| shard.note_entry(true)));
    let result = work();
    CURRENT.with_borrow(|shard| shard.iter().for_each(|shard| shard.note_entry(false)));
    result
}

fn serve(shard: Shard, mut jobs_rx: mpsc::Receiver<Job>) {
    let number = shard.number();
    let state = Arc::clone(&shard.state);
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
    tracing::info!(shard = number, "shard ends");
}
