//! A shard: one OS thread with its own event loop, on which sockets and sessions live side by side.
//!
//! Work reaches a shard as jobs; everything else stays on its thread, so that an eval needs no thread hop. A shard
//! records when it enters JavaScript, so that the watchdog can detect one that does not return.
//!
//! A retired shard ends: once its thread is back from native code, each session is asked to end, each suspended turn is
//! resumed with the stop request, and when none is left the tasks are dropped and the thread returns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::poll_counter::PollCounter;
use super::{context_pool, heap, hibernation, slice};
use crate::protocol::client_messages::Closing;
use crate::quota::Account;
use crate::session::boundary::ToSession;

/// Jobs that wait for a shard: connections accepted while it runs a slice.
const JOBS_QUEUED_MAX: usize = 4096;

/// Stack of a shard's thread. Turns have stacks of their own; this one must hold whatever QuickJS recurses into when a
/// context with deep structures is freed.
const STACK_BYTES: usize = 16 << 20;

/// How long the sessions of a retired shard have to end by themselves before their tasks are dropped.
/// They have nothing to wait for: their sockets are shut and their calls are refused.
const RETIRED_SESSIONS_GRACE: Duration = Duration::from_secs(5);

/// How often a retired shard checks whether its sessions have ended.
const RETIRED_LOOK_EVERY: Duration = Duration::from_millis(1);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static CURRENT: RefCell<Option<Shard>> = const { RefCell::new(None) };
}

/// A handle to a shard.
#[derive(Clone)]
pub(crate) struct Shard {
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
    /// The file of the system with the CPU time of the thread.
    thread: OnceLock<PathBuf>,
    /// The session, by its number here, whose JavaScript runs or ran last.
    running: AtomicU64,
    sessions: Mutex<HashMap<u64, Resident>>,
    next_session: AtomicU64,
    retired: AtomicBool,
    /// Cancelled when the shard is retired.
    retirement: CancellationToken,
    has_ended: AtomicBool,
}

/// A session that lives on a shard.
struct Resident {
    account: Arc<Account>,
    /// Weak, so that the shard does not keep a session alive that has no other handle.
    inbox_tx: mpsc::WeakSender<ToSession>,
    poll_counter: Arc<PollCounter>,
}

/// A session's registration with its shard, until dropped.
#[derive(Debug)]
pub(crate) struct Residence {
    shard: Shard,
    number: u64,
}

impl Residence {
    /// Whether the shard was retired, so that the session must end.
    pub(crate) fn is_retired(&self) -> bool {
        self.shard.is_retired()
    }

    /// Sets the poll counter of the session's new context.
    pub(crate) fn replace_poll_counter(&self, poll_counter: &Arc<PollCounter>) {
        if let Some(resident) = self.shard.state.sessions.lock().get_mut(&self.number) {
            resident.poll_counter = Arc::clone(poll_counter);
        }
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.shard.state.sessions.lock().remove(&self.number);
    }
}

/// Marks the thread as ended when dropped, also by a panic.
struct EndMark(Arc<State>);

impl Drop for EndMark {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
    }
}

/// Counts towards a shard's load as long as it lives.
#[derive(Debug)]
pub(crate) struct Weight(Shard);

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
    pub(crate) fn start(number: usize) -> io::Result<Self> {
        let (jobs_tx, jobs_rx) = mpsc::channel(JOBS_QUEUED_MAX);
        let state = Arc::new(State {
            number,
            load: AtomicUsize::new(0),
            epoch: Instant::now(),
            stays: AtomicU64::new(0),
            thread: OnceLock::new(),
            running: AtomicU64::new(0),
            sessions: Mutex::default(),
            next_session: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            retirement: CancellationToken::new(),
            has_ended: AtomicBool::new(false),
        });
        let shard = Self { jobs_tx, state };
        let own = shard.clone();
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .name(format!("shard-{number}"))
            .spawn(move || serve(own, jobs_rx))?;
        Ok(shard)
    }

    /// The shard of this thread.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs a job on the shard, where it may spawn local tasks; `false` when the shard is gone or has too many.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs_tx.try_send(Box::new(job)).is_ok()
    }

    /// Its number, for logs.
    pub(crate) fn number(&self) -> usize {
        self.state.number
    }

    /// How many connections and sessions it has.
    pub(crate) fn load(&self) -> usize {
        self.state.load.load(Ordering::Relaxed)
    }

    /// Adds to its load until dropped.
    pub(crate) fn weigh(&self) -> Weight {
        self.state.load.fetch_add(1, Ordering::Relaxed);
        Weight(self.clone())
    }

    /// A number for the present stay inside JavaScript: the same until it returns.
    pub(crate) fn stay(&self) -> Option<u64> {
        Some(self.state.stays.load(Ordering::Relaxed)).filter(|stay| stay % 2 == 1)
    }

    /// CPU time that its thread has used. By the clock, a shard on a busy machine would look stuck when it only waits.
    pub(crate) fn cpu_time(&self) -> Duration {
        let Some(thread) = self.state.thread.get() else {
            // Where the system does not report it, the clock is used.
            return self.state.epoch.elapsed();
        };
        let used = std::fs::read_to_string(thread).ok();
        let used = used.and_then(|text| text.split(' ').next()?.parse().ok());
        // A thread that is over uses nothing more.
        used.map(Duration::from_nanos).unwrap_or_default()
    }

    /// Takes it out of service. When its thread returns from native code, its sessions are ended and the thread ends.
    pub(crate) fn retire(&self) {
        self.state.retired.store(true, Ordering::Relaxed);
        self.state.retirement.cancel();
        // Wakes the thread if it waits for a job; one whose queue is full does not wait.
        let _ = self.jobs_tx.try_send(Box::new(|| {}));
    }

    /// Whether it was taken out of service.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.retired.load(Ordering::Relaxed)
    }

    /// Waits until it is taken out of service.
    pub(crate) async fn retired(&self) {
        self.state.retirement.cancelled().await;
    }

    /// Whether its thread is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.has_ended.load(Ordering::Acquire)
    }

    /// How many sessions live on it.
    pub(crate) fn session_count(&self) -> usize {
        self.state.sessions.lock().len()
    }

    /// The account of the session whose JavaScript runs, or ran last if that session is still there.
    pub(crate) fn running_account(&self) -> Option<Arc<Account>> {
        let running = self.state.running.load(Ordering::Relaxed);
        self.state.sessions.lock().get(&running).map(|resident| Arc::clone(&resident.account))
    }

    /// Makes the script that runs poll at its next back-edge or call.
    pub(crate) fn poll_soon(&self) {
        let running = self.state.running.load(Ordering::Relaxed);
        if let Some(resident) = self.state.sessions.lock().get(&running) {
            resident.poll_counter.poll_within(1);
        }
    }

    /// Registers a session that lives on it.
    pub(crate) fn register(
        &self,
        account: Arc<Account>,
        inbox_tx: mpsc::WeakSender<ToSession>,
        poll_counter: Arc<PollCounter>,
    ) -> Residence {
        let number = self.state.next_session.fetch_add(1, Ordering::Relaxed) + 1;
        let resident = Resident { account, inbox_tx, poll_counter };
        self.state.sessions.lock().insert(number, resident);
        Residence { shard: self.clone(), number }
    }
}

/// Runs a slice of a session while the watchdog observes the shard.
pub(crate) fn watched<R>(residence: Option<&Residence>, work: impl FnOnce() -> R) -> R {
    let Some(Residence { shard, number }) = residence else { return work() };
    shard.state.running.store(*number, Ordering::Relaxed);
    shard.state.stays.fetch_add(1, Ordering::Relaxed);
    let result = work();
    shard.state.stays.fetch_add(1, Ordering::Relaxed);
    result
}

/// Ends the sessions of a retired shard. Returns when no turn is suspended and the sessions had time to end.
async fn end_sessions(state: &State) {
    let inboxes: Vec<_> = state.sessions.lock().values().map(|resident| resident.inbox_tx.clone()).collect();
    for inbox_tx in inboxes.iter().filter_map(mpsc::WeakSender::upgrade) {
        // A session whose inbox is full is awake, and sees for itself that the shard is retired.
        let _ = inbox_tx.try_send(ToSession::End(Closing::Fault));
    }
    drop(inboxes);
    let deadline = Instant::now() + RETIRED_SESSIONS_GRACE;
    loop {
        let is_empty = state.sessions.lock().is_empty();
        // A suspended turn has C frames on its stack: it is waited for, however long it takes.
        if is_empty || (Instant::now() >= deadline && slice::suspended() == 0) {
            return;
        }
        tokio::time::sleep(RETIRED_LOOK_EVERY).await;
    }
}

fn serve(shard: Shard, mut jobs_rx: mpsc::Receiver<Job>) {
    let number = shard.number();
    let state = Arc::clone(&shard.state);
    let _end_mark = EndMark(Arc::clone(&state));
    if let Ok(thread) = std::fs::canonicalize("/proc/thread-self") {
        // Set only here.
        let _ = state.thread.set(thread.join("schedstat"));
    }
    CURRENT.set(Some(shard));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(shard = number, %error, "cannot start the shard");
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
        drop(jobs_rx);
        end_sessions(&state).await;
    });
    drop(local);
    context_pool::clear();
    hibernation::clear();
    heap::release_freed_memory();
    // Without waiting for blocking work, such as the read of a file, that its tasks have started.
    runtime.shutdown_background();
    tracing::info!(shard = number, "shard ends");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_shard_ends_and_refuses_jobs() {
        let shard = Shard::start(0).unwrap();
        assert!(shard.run(|| {}));
        shard.retire();
        while !shard.has_ended() {
            std::thread::yield_now();
        }
        assert!(!shard.run(|| {}));
        assert_eq!(shard.session_count(), 0);
    }
}
