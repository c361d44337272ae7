//! The threads that execute requests. SQLite waits for the disk and graph queries need CPU time;
//! neither may block scripts.
//!
//! All requests of a space run on the same thread, in the order in which they arrived, so a space
//! needs no locks.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::machine::ConnectionId;
use super::space_table::{Job, SpaceTable, StoreSettings, Task};
use crate::concurrency::{JobThread, Worker};

/// Number of threads, and so of spaces that can wait for the disk concurrently.
const THREADS: usize = 4;

/// Most jobs queued for a thread.
const JOBS_QUEUED_MAX: usize = 65_536;

/// Most bytes of requests queued for a thread. A request behind more fails with `RateLimitError`.
const QUEUED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests are queued for the store")]
pub(super) struct QueueFull;

/// Connections that ended while the queue of a thread was full. They are handled after the queued
/// jobs.
type LateDisconnects = Arc<Mutex<Vec<ConnectionId>>>;

struct StoreThread {
    thread: JobThread<Job>,
    late_disconnects: LateDisconnects,
}

/// Handle to all spaces. Cheap to clone; the threads end when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Engine {
    threads: Arc<[StoreThread]>,
    last_connection_id: Arc<AtomicU64>,
}

impl Engine {
    pub(super) fn start(settings: &StoreSettings) -> Result<Self, std::io::Error> {
        if let Some(folder) = &settings.folder {
            std::fs::create_dir_all(folder)?;
        }
        let threads: Result<Vec<StoreThread>, std::io::Error> =
            (0..THREADS).map(|_| StoreThread::start(settings.clone())).collect();
        Ok(Self { threads: threads?.into(), last_connection_id: Arc::default() })
    }

    pub(super) fn next_connection_id(&self) -> ConnectionId {
        self.last_connection_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Queues a job for the thread of its space; `bytes` is the length of the request.
    pub(super) fn submit(&self, job: Job, bytes: usize) -> Result<(), QueueFull> {
        let mut hasher = DefaultHasher::new();
        job.space.hash(&mut hasher);
        let index = hasher.finish() % self.threads.len().max(1) as u64;
        let thread =
            usize::try_from(index).ok().and_then(|index| self.threads.get(index)).ok_or(QueueFull)?;
        thread.submit(job, bytes)
    }

    pub(super) fn disconnect(&self, connection_id: ConnectionId) {
        for StoreThread { thread, late_disconnects } in self.threads.iter() {
            if thread.try_send(disconnect_job(connection_id)).is_err() {
                late_disconnects.lock().push(connection_id);
            }
        }
    }
}

impl StoreThread {
    fn start(settings: StoreSettings) -> Result<Self, std::io::Error> {
        let late_disconnects = LateDisconnects::default();
        let spaces = SpaceTable::new(settings, Instant::now);
        let worker = StoreWorker { spaces, late_disconnects: Arc::clone(&late_disconnects) };
        Self::start_worker(worker, late_disconnects, JOBS_QUEUED_MAX)
    }

    fn start_worker(
        worker: impl Worker<Job = Job>,
        late_disconnects: LateDisconnects,
        jobs_queued_max: usize,
    ) -> Result<Self, std::io::Error> {
        let thread = JobThread::start_with_byte_limit("memory", jobs_queued_max, QUEUED_BYTES_MAX, worker)?;
        Ok(Self { thread, late_disconnects })
    }

    fn submit(&self, job: Job, bytes: usize) -> Result<(), QueueFull> {
        self.thread.try_send_bytes(job, bytes).map_err(|_| QueueFull)
    }
}

fn disconnect_job(connection_id: ConnectionId) -> Job {
    Job { space: String::new(), task: Task::Disconnect { connection_id } }
}

/// Runs jobs first. Syncs are sent when the queue is empty, or when they are overdue.
struct StoreWorker {
    spaces: SpaceTable,
    late_disconnects: LateDisconnects,
}

impl Worker for StoreWorker {
    type Job = Job;

    fn on_job(&mut self, job: Job) {
        self.spaces.handle_job(job, Instant::now());
    }

    fn wake_at(&self) -> Option<Instant> {
        Some(self.spaces.wake_at())
    }

    fn on_round_end(&mut self, jobs: usize) {
        let now = Instant::now();
        let is_idle = jobs == 0;
        if is_idle {
            let late_disconnects = std::mem::take(&mut *self.late_disconnects.lock());
            for connection_id in late_disconnects {
                self.spaces.handle_job(disconnect_job(connection_id), now);
            }
        }
        if is_idle || self.spaces.overdue_at().is_some_and(|at| at <= now) {
            self.spaces.wake(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Reports that it is blocked, from its first job on.
    struct BlockedWorker {
        started_tx: Sender<()>,
        resume_rx: Receiver<()>,
    }

    impl Worker for BlockedWorker {
        type Job = Job;

        fn on_job(&mut self, _: Job) {
            // The test may be over.
            let _ = self.started_tx.send(());
            let _ = self.resume_rx.recv();
        }
    }

    /// A thread that takes no further job until the sender is dropped.
    fn blocked_thread(jobs_queued_max: usize) -> (StoreThread, Sender<()>) {
        let ((started_tx, started_rx), (resume_tx, resume_rx)) = (channel(), channel());
        let worker = BlockedWorker { started_tx, resume_rx };
        let thread = StoreThread::start_worker(worker, LateDisconnects::default(), jobs_queued_max).unwrap();
        assert_eq!(thread.submit(disconnect_job(0), 1), Ok(()));
        started_rx.recv().unwrap();
        (thread, resume_tx)
    }

    #[test]
    fn job_past_the_queued_bytes_limit_is_rejected() {
        let (thread, _resume_tx) = blocked_thread(8);
        assert_eq!(thread.submit(disconnect_job(1), QUEUED_BYTES_MAX), Ok(()));
        assert_eq!(thread.submit(disconnect_job(1), 1), Ok(()));
        assert_eq!(thread.submit(disconnect_job(1), 1), Err(QueueFull));
    }

    #[test]
    fn disconnect_behind_more_than_the_byte_limit_is_queued() {
        let (thread, _resume_tx) = blocked_thread(8);
        assert_eq!(thread.submit(disconnect_job(1), QUEUED_BYTES_MAX + 1), Ok(()));
        let late_disconnects = Arc::clone(&thread.late_disconnects);
        let engine = Engine { threads: Arc::new([thread]), last_connection_id: Arc::default() };
        engine.disconnect(1);
        assert!(late_disconnects.lock().is_empty());
    }

    #[test]
    fn disconnect_with_a_full_queue_is_recorded() {
        let (thread, _resume_tx) = blocked_thread(1);
        let late_disconnects = Arc::clone(&thread.late_disconnects);
        let engine = Engine { threads: Arc::new([thread]), last_connection_id: Arc::default() };
        engine.disconnect(1);
        engine.disconnect(2);
        assert_eq!(*late_disconnects.lock(), [2]);
    }

    #[test]
    fn late_disconnects_are_handled_after_the_queued_jobs() {
        let spaces = SpaceTable::new(StoreSettings::default(), Instant::now);
        let late_disconnects = LateDisconnects::default();
        late_disconnects.lock().push(1);
        let mut worker = StoreWorker { spaces, late_disconnects: Arc::clone(&late_disconnects) };
        worker.on_round_end(1);
        assert_eq!(*late_disconnects.lock(), [1]);
        worker.on_round_end(0);
        assert!(late_disconnects.lock().is_empty());
    }
}
