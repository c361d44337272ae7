//! The threads that execute requests. SQLite waits for the disk and graph queries need CPU time;
//! neither may block scripts.
//!
//! All requests of a space run on the same thread, in the order in which they arrived, so a space
//! needs no locks.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

use parking_lot::Mutex;

use super::machine::ConnectionId;
use super::space_table::{Job, SpaceTable, StoreSettings, Task};

/// Number of threads, and so of spaces that can wait for the disk concurrently.
const THREADS: usize = 4;

/// Most jobs queued for a thread.
const JOBS_QUEUED_MAX: usize = 65_536;

/// Most bytes of requests queued for a thread. Beyond it, requests fail with `RateLimitError`.
pub(super) const QUEUED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests are queued for the store")]
pub(super) struct QueueFull;

struct Worker {
    jobs_tx: SyncSender<(Job, usize)>,
    queue_state: Arc<QueueState>,
}

/// State that a thread shares with the senders of its jobs.
#[derive(Default)]
struct QueueState {
    queued_bytes: AtomicUsize,
    /// Connections that ended while the queue was full. They are handled after the queued jobs.
    late_disconnects: Mutex<Vec<ConnectionId>>,
}

/// Handle to all spaces. Cheap to clone; the threads end when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Engine {
    workers: Arc<[Worker]>,
    last_connection_id: Arc<AtomicU64>,
}

impl Engine {
    pub(super) fn start(settings: &StoreSettings) -> Result<Self, std::io::Error> {
        if let Some(folder) = &settings.folder {
            std::fs::create_dir_all(folder)?;
        }
        let workers: Result<Vec<Worker>, std::io::Error> =
            (0..THREADS).map(|_| spawn_worker(settings.clone())).collect();
        Ok(Self { workers: workers?.into(), last_connection_id: Arc::default() })
    }

    pub(super) fn next_connection_id(&self) -> ConnectionId {
        self.last_connection_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Queues a job for the thread of its space; `bytes` is the length of the request.
    pub(super) fn submit(&self, job: Job, bytes: usize) -> Result<(), QueueFull> {
        let mut hasher = DefaultHasher::new();
        job.space.hash(&mut hasher);
        let index = hasher.finish() % self.workers.len().max(1) as u64;
        let worker =
            usize::try_from(index).ok().and_then(|index| self.workers.get(index)).ok_or(QueueFull)?;
        worker.submit(job, bytes)
    }

    pub(super) fn disconnect(&self, connection_id: ConnectionId) {
        for worker in self.workers.iter() {
            if worker.jobs_tx.try_send((disconnect_job(connection_id), 0)).is_err() {
                worker.queue_state.late_disconnects.lock().push(connection_id);
            }
        }
    }
}

impl Worker {
    fn submit(&self, job: Job, bytes: usize) -> Result<(), QueueFull> {
        let queued_bytes = &self.queue_state.queued_bytes;
        if queued_bytes.fetch_add(bytes, Ordering::Relaxed) > QUEUED_BYTES_MAX
            || self.jobs_tx.try_send((job, bytes)).is_err()
        {
            queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(QueueFull);
        }
        Ok(())
    }
}

fn disconnect_job(connection_id: ConnectionId) -> Job {
    Job { space: String::new(), task: Task::Disconnect { connection_id } }
}

fn spawn_worker(settings: StoreSettings) -> Result<Worker, std::io::Error> {
    let (jobs_tx, jobs_rx) = sync_channel(JOBS_QUEUED_MAX);
    let queue_state = Arc::new(QueueState::default());
    let worker = Worker { jobs_tx, queue_state: Arc::clone(&queue_state) };
    std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
        run_worker(&mut SpaceTable::new(settings, Instant::now), &jobs_rx, &queue_state);
    })?;
    Ok(worker)
}

/// Runs jobs first. Syncs are sent when the queue is empty, or when they are overdue.
fn run_worker(spaces: &mut SpaceTable, jobs_rx: &Receiver<(Job, usize)>, queue_state: &QueueState) {
    loop {
        let job = match jobs_rx.try_recv() {
            Ok(job) => Some(job),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                match jobs_rx.recv_timeout(spaces.wake_at().saturating_duration_since(Instant::now())) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let now = Instant::now();
        let is_idle = job.is_none();
        if let Some((job, bytes)) = job {
            spaces.handle_job(job, now);
            queue_state.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        if is_idle {
            let late_disconnects = std::mem::take(&mut *queue_state.late_disconnects.lock());
            late_disconnects
                .into_iter()
                .for_each(|connection_id| spaces.handle_job(disconnect_job(connection_id), now));
        }
        if is_idle || spaces.overdue_at().is_some_and(|at| at <= now) {
            spaces.wake(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_worker(capacity: usize) -> (Worker, Receiver<(Job, usize)>) {
        let (jobs_tx, jobs_rx) = sync_channel(capacity);
        (Worker { jobs_tx, queue_state: Arc::default() }, jobs_rx)
    }

    #[test]
    fn job_past_the_queued_bytes_limit_is_rejected() {
        let (worker, _jobs_rx) = idle_worker(8);
        assert_eq!(worker.submit(disconnect_job(1), QUEUED_BYTES_MAX), Ok(()));
        assert_eq!(worker.submit(disconnect_job(1), 1), Ok(()));
        assert_eq!(worker.submit(disconnect_job(1), 1), Err(QueueFull));
        assert_eq!(worker.queue_state.queued_bytes.load(Ordering::Relaxed), QUEUED_BYTES_MAX + 1);
    }

    #[test]
    fn disconnect_with_a_full_queue_is_recorded() {
        let (worker, _jobs_rx) = idle_worker(1);
        let queue_state = Arc::clone(&worker.queue_state);
        let engine = Engine { workers: Arc::new([worker]), last_connection_id: Arc::default() };
        engine.disconnect(1);
        engine.disconnect(2);
        assert_eq!(*queue_state.late_disconnects.lock(), [2]);
    }
}
