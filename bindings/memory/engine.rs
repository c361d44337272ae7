//! The threads on which spaces live. SQLite waits for the disk, and graph queries compute: neither may hold up scripts.
//!
//! A space is always on the same thread, so its requests are done one after another in the order in which they came,
//! and nothing in it is locked.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

use parking_lot::Mutex;

use super::hub::{Hub, Job, StoreSettings, Task};
use super::machine::Connection;

/// Threads; as many spaces can wait for the disk at a time.
const THREADS: usize = 4;

/// Jobs that wait for a thread.
const JOBS_QUEUED_MAX: usize = 65_536;

/// Bytes of requests that wait for a thread. A client that sends faster than the disk writes is refused above it.
pub(super) const JOBS_BYTES_MAX: usize = 64 << 20;

/// The thread has too much to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store has too many requests waiting")]
pub(super) struct Busy;

struct Worker {
    jobs_tx: SyncSender<(Job, usize)>,
    load: Arc<Load>,
}

/// What a thread and those who give it work both look at.
#[derive(Default)]
struct Load {
    queued_bytes: AtomicUsize,
    /// Connections that ended while the queue was full. They count after all that is in it.
    late: Mutex<Vec<Connection>>,
}

/// All spaces. Cheap to clone; the threads end with the last one.
#[derive(Clone)]
pub(super) struct Engine {
    workers: Arc<[Worker]>,
    connections: Arc<AtomicU64>,
}

impl Engine {
    pub(super) fn start(settings: &StoreSettings) -> Result<Self, std::io::Error> {
        if let Some(folder) = &settings.folder {
            std::fs::create_dir_all(folder)?;
        }
        let workers: Result<Vec<Worker>, std::io::Error> =
            (0..THREADS).map(|_| worker(settings.clone())).collect();
        Ok(Self { workers: workers?.into(), connections: Arc::default() })
    }

    /// A number for a new connection.
    pub(super) fn connection(&self) -> Connection {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives a space something to do; `bytes` is how long the request was.
    pub(super) fn submit(&self, job: Job, bytes: usize) -> Result<(), Busy> {
        let mut hasher = DefaultHasher::new();
        job.space.hash(&mut hasher);
        let index = hasher.finish() % self.workers.len().max(1) as u64;
        let worker = usize::try_from(index).ok().and_then(|index| self.workers.get(index)).ok_or(Busy)?;
        worker.submit(job, bytes)
    }

    /// A connection is gone.
    pub(super) fn disconnected(&self, connection: Connection) {
        for worker in self.workers.iter() {
            if worker.jobs_tx.try_send((disconnected(connection), 0)).is_err() {
                worker.load.late.lock().push(connection);
            }
        }
    }
}

impl Worker {
    fn submit(&self, job: Job, bytes: usize) -> Result<(), Busy> {
        let queued_bytes = &self.load.queued_bytes;
        if queued_bytes.fetch_add(bytes, Ordering::Relaxed) > JOBS_BYTES_MAX
            || self.jobs_tx.try_send((job, bytes)).is_err()
        {
            queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Busy);
        }
        Ok(())
    }
}

fn disconnected(connection: Connection) -> Job {
    Job { space: String::new(), task: Task::Disconnected { connection } }
}

fn worker(settings: StoreSettings) -> Result<Worker, std::io::Error> {
    let (jobs_tx, jobs_rx) = sync_channel(JOBS_QUEUED_MAX);
    let load = Arc::new(Load::default());
    let worker = Worker { jobs_tx, load: Arc::clone(&load) };
    std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
        run(&mut Hub::new(settings, Instant::now), &jobs_rx, &load);
    })?;
    Ok(worker)
}

/// Jobs first; what is to be told waits until there are none, or until it is overdue.
fn run(hub: &mut Hub, jobs_rx: &Receiver<(Job, usize)>, load: &Load) {
    loop {
        let job = match jobs_rx.try_recv() {
            Ok(job) => Some(job),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                match jobs_rx.recv_timeout(hub.wake_at().saturating_duration_since(Instant::now())) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let now = Instant::now();
        let is_idle = job.is_none();
        if let Some((job, bytes)) = job {
            hub.handle(job, now);
            load.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        if is_idle {
            let late = std::mem::take(&mut *load.late.lock());
            late.into_iter().for_each(|connection| hub.handle(disconnected(connection), now));
        }
        if is_idle || hub.overdue_at().is_some_and(|at| at <= now) {
            hub.wake(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_worker(capacity: usize) -> (Worker, Receiver<(Job, usize)>) {
        let (jobs_tx, jobs_rx) = sync_channel(capacity);
        (Worker { jobs_tx, load: Arc::default() }, jobs_rx)
    }

    #[test]
    fn work_is_taken_up_to_the_bytes_that_may_wait() {
        let (worker, _jobs_rx) = idle_worker(8);
        assert_eq!(worker.submit(disconnected(1), JOBS_BYTES_MAX), Ok(()));
        assert_eq!(worker.submit(disconnected(1), 1), Ok(()));
        assert_eq!(worker.submit(disconnected(1), 1), Err(Busy));
        assert_eq!(worker.load.queued_bytes.load(Ordering::Relaxed), JOBS_BYTES_MAX + 1);
    }

    #[test]
    fn a_connection_that_ends_while_the_queue_is_full_is_noted_all_the_same() {
        let (worker, _jobs_rx) = idle_worker(1);
        let load = Arc::clone(&worker.load);
        let engine = Engine { workers: Arc::new([worker]), connections: Arc::default() };
        engine.disconnected(1);
        engine.disconnected(2);
        assert_eq!(*load.late.lock(), [2]);
    }
}
