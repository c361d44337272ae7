//! A thread that owns a resource, such as a database or a log file, and works through a bounded queue of jobs.
//!
//! One owner means no lock and one order of jobs, and a disk that stalls takes the time of no thread that runs scripts.
//! The thread ends when the last [`JobThread`] that leads to it is dropped. A job that panics ends the thread; senders
//! then see it as stopped.
//!
//! The queue is a [`byte_channel`], so that jobs whose length a peer chooses can be bounded by their bytes as well.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use tokio::sync::oneshot;

use super::byte_channel::{ByteReceiver, ByteSendError, ByteSender, byte_channel};

/// What a [`JobThread`] runs. Everything here is called on its thread.
pub(crate) trait Worker: Send + 'static {
    /// What the queue carries.
    type Job: Send + 'static;

    /// Jobs of one round: those that are ready together are followed by one [`Self::on_round_end`], so that they can
    /// share one write.
    const JOBS_PER_ROUND_MAX: usize = 1;

    /// Does a job.
    fn on_job(&mut self, job: Self::Job);

    /// When [`Self::on_round_end`] must be called even if no job comes.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// Called after the jobs of a round. Without jobs it is the time of [`Self::wake_at`].
    fn on_round_end(&mut self, _jobs: usize) {}

    /// No more jobs can come: the thread ends after this.
    fn on_stop(&mut self) {}
}

/// Why a job was not queued, with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JobError<J> {
    /// The queue is full.
    #[error("too many jobs wait")]
    Full(J),
    /// The thread has ended.
    #[error("the thread has ended")]
    Stopped(J),
}

impl<J> JobError<J> {
    /// The job that was not queued.
    pub(crate) fn into_job(self) -> J {
        match self {
            Self::Full(job) | Self::Stopped(job) => job,
        }
    }
}

impl<J> From<ByteSendError<J>> for JobError<J> {
    fn from(error: ByteSendError<J>) -> Self {
        match error {
            ByteSendError::Full(job) => Self::Full(job),
            ByteSendError::Closed(job) => Self::Stopped(job),
        }
    }
}

/// The queue of a thread. Cheap to clone.
pub(crate) struct JobThread<J> {
    jobs_tx: ByteSender<J>,
}

impl<J> Clone for JobThread<J> {
    fn clone(&self) -> Self {
        Self { jobs_tx: self.jobs_tx.clone() }
    }
}

impl<J> fmt::Debug for JobThread<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobThread").finish_non_exhaustive()
    }
}

impl<J: Send + 'static> JobThread<J> {
    /// Starts a thread called `name` with a queue of `jobs_queued_max`.
    pub(crate) fn start(
        name: &str,
        jobs_queued_max: usize,
        worker: impl Worker<Job = J>,
    ) -> io::Result<Self> {
        Self::start_with_byte_limit(name, jobs_queued_max, usize::MAX, worker)
    }

    /// Starts a thread whose queue holds `bytes_queued_max` as well, of the jobs that are sent with their bytes.
    pub(crate) fn start_with_byte_limit(
        name: &str,
        jobs_queued_max: usize,
        bytes_queued_max: usize,
        mut worker: impl Worker<Job = J>,
    ) -> io::Result<Self> {
        let (jobs_tx, mut jobs_rx) = byte_channel(jobs_queued_max, bytes_queued_max);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&mut worker, &mut jobs_rx))?;
        Ok(Self { jobs_tx })
    }

    /// Queues a job, and waits while the queue is full.
    pub(crate) async fn send(&self, job: J) -> Result<(), JobError<J>> {
        Ok(self.jobs_tx.send(job, 0).await?)
    }

    /// Queues a job if there is room now.
    pub(crate) fn try_send(&self, job: J) -> Result<(), JobError<J>> {
        self.try_send_bytes(job, 0)
    }

    /// Queues a job that counts for `bytes` until the thread takes it, if there is room now.
    pub(crate) fn try_send_bytes(&self, job: J, bytes: usize) -> Result<(), JobError<J>> {
        Ok(self.jobs_tx.try_send(job, bytes)?)
    }
}

/// A job that is a closure over the resource.
pub(crate) type ResourceJob<R> = Box<dyn FnOnce(&mut R) + Send>;

/// A [`Worker`] for jobs that are closures.
struct Resource<R>(R);

impl<R: Send + 'static> Worker for Resource<R> {
    type Job = ResourceJob<R>;

    fn on_job(&mut self, job: ResourceJob<R>) {
        job(&mut self.0);
    }
}

/// The thread has ended before the job was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread has ended")]
pub(crate) struct ThreadStopped;

impl<R: Send + 'static> JobThread<ResourceJob<R>> {
    /// Starts a thread that owns `resource` and runs closures over it.
    pub(crate) fn owning(name: &str, jobs_queued_max: usize, resource: R) -> io::Result<Self> {
        Self::start(name, jobs_queued_max, Resource(resource))
    }

    /// Runs a closure on the thread and returns its result. It is not begun when the caller has stopped waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut R) -> T + Send + 'static,
    ) -> Result<T, ThreadStopped> {
        let (done_tx, done_rx) = oneshot::channel();
        let job: ResourceJob<R> = Box::new(move |resource| {
            if !done_tx.is_closed() {
                // The caller may stop waiting while the job runs.
                let _ = done_tx.send(job(resource));
            }
        });
        self.send(job).await.map_err(|_| ThreadStopped)?;
        done_rx.await.map_err(|_| ThreadStopped)
    }
}

fn work<W: Worker>(worker: &mut W, jobs_rx: &mut ByteReceiver<W::Job>) {
    loop {
        let mut jobs = 0;
        match receive(jobs_rx, worker.wake_at()) {
            Received::Job(job) => {
                worker.on_job(job);
                jobs += 1;
                while jobs < W::JOBS_PER_ROUND_MAX
                    && let Some(job) = jobs_rx.try_recv()
                {
                    worker.on_job(job);
                    jobs += 1;
                }
            }
            Received::Timeout => {}
            Received::Closed => return worker.on_stop(),
        }
        worker.on_round_end(jobs);
    }
}

enum Received<J> {
    Job(J),
    Timeout,
    Closed,
}

/// Blocks the thread until a job comes or it is time. The channel itself has no wait with a deadline.
fn receive<J>(jobs_rx: &mut ByteReceiver<J>, deadline: Option<Instant>) -> Received<J> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match jobs_rx.poll_recv(&mut cx) {
            Poll::Ready(Some(job)) => return Received::Job(job),
            Poll::Ready(None) => return Received::Closed,
            Poll::Pending => {}
        }
        let Some(deadline) = deadline else {
            std::thread::park();
            continue;
        };
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Received::Timeout;
        }
        std::thread::park_timeout(wait);
    }
}

/// Wakes a thread that waits in [`receive`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests;
