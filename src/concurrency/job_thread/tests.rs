//! A thread whose resource is a list of numbers, and one that reports its rounds.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;

const QUEUED_MAX: usize = 4;

type Numbers = JobThread<ResourceJob<Vec<u32>>>;

/// A thread that is busy until the sender is used.
fn blocked() -> (Numbers, Sender<()>) {
    let thread = Numbers::owning("test", QUEUED_MAX, Vec::new()).unwrap();
    let ((started_tx, started_rx), (resume_tx, resume_rx)) = (channel(), channel());
    let wait: ResourceJob<Vec<u32>> = Box::new(move |_| {
        started_tx.send(()).unwrap();
        resume_rx.recv().unwrap();
    });
    assert!(thread.try_send(wait).is_ok());
    started_rx.recv().unwrap();
    (thread, resume_tx)
}

#[tokio::test]
async fn jobs_run_in_the_order_of_their_sending() {
    let (thread, resume_tx) = blocked();
    for number in 0..3 {
        assert!(thread.try_send(Box::new(move |numbers: &mut Vec<u32>| numbers.push(number))).is_ok());
    }
    resume_tx.send(()).unwrap();
    assert_eq!(thread.run(|numbers| numbers.clone()).await, Ok(vec![0, 1, 2]));
}

#[tokio::test]
async fn full_queue_refuses_try_send_and_makes_run_wait() {
    let (thread, resume_tx) = blocked();
    for _ in 0..QUEUED_MAX {
        assert!(thread.try_send(Box::new(|numbers: &mut Vec<u32>| numbers.push(1))).is_ok());
    }
    assert!(matches!(thread.try_send(Box::new(|_| ())), Err(JobError::Full(_))));
    let mut late = Box::pin(thread.run(|numbers| numbers.len()));
    assert!((&mut late).now_or_never().is_none());
    resume_tx.send(()).unwrap();
    assert_eq!(late.await, Ok(QUEUED_MAX));
}

#[tokio::test]
async fn bytes_past_the_limit_are_refused_until_the_job_is_taken() {
    let (started_tx, started_rx) = channel();
    let (reports_tx, _reports_rx) = channel();
    let worker = Rounds { reports_tx, wake_at: None };
    let thread = JobThread::start_with_byte_limit("test", 8, 10, worker).unwrap();
    let (resume_tx, resume_rx) = channel();
    assert!(thread.try_send(Job::Block { started_tx, resume_rx }).is_ok());
    started_rx.recv().unwrap();
    assert!(thread.try_send_bytes(Job::Nothing, 11).is_ok());
    assert!(matches!(thread.try_send_bytes(Job::Nothing, 1), Err(JobError::Full(Job::Nothing))));
    assert!(thread.try_send(Job::Nothing).is_ok(), "it counts for no bytes");
    resume_tx.send(()).unwrap();
    // The thread starts this one after it has taken those before.
    let (started_tx, started_rx) = channel();
    let (_resume_tx, resume_rx) = channel();
    assert!(thread.send(Job::Block { started_tx, resume_rx }).await.is_ok());
    started_rx.recv().unwrap();
    assert!(thread.try_send_bytes(Job::Nothing, 1).is_ok());
}

#[tokio::test]
async fn job_of_a_caller_that_stopped_waiting_is_not_begun() {
    let (thread, resume_tx) = blocked();
    assert!(thread.run(|numbers| numbers.push(1)).now_or_never().is_none());
    resume_tx.send(()).unwrap();
    assert_eq!(thread.run(|numbers| numbers.len()).await, Ok(0));
}

#[tokio::test]
async fn panic_of_a_job_stops_the_thread() {
    let thread = Numbers::owning("test", QUEUED_MAX, Vec::new()).unwrap();
    assert_eq!(thread.run(|_| panic!("on purpose")).await, Err::<(), _>(ThreadStopped));
    // The queue is dropped while the thread unwinds, a moment after the answer.
    thread.jobs_tx.closed().await;
    assert_eq!(thread.run(|_| ()).await, Err(ThreadStopped));
    assert!(matches!(thread.try_send(Box::new(|_| ())), Err(JobError::Stopped(_))));
}

/// Reports its rounds, and the jobs of a kind that blocks it.
struct Rounds {
    reports_tx: Sender<Option<usize>>,
    wake_at: Option<Instant>,
}

enum Job {
    WakeAfter(Duration),
    Block { started_tx: Sender<()>, resume_rx: Receiver<()> },
    Nothing,
}

impl Worker for Rounds {
    type Job = Job;

    const JOBS_PER_ROUND_MAX: usize = 2;

    fn on_job(&mut self, job: Job) {
        match job {
            Job::WakeAfter(wait) => self.wake_at = Some(Instant::now() + wait),
            Job::Block { started_tx, resume_rx } => {
                // The test may not wait for the start, or end while this is blocked.
                let _ = started_tx.send(());
                let _ = resume_rx.recv();
            }
            Job::Nothing => {}
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    fn on_round_end(&mut self, jobs: usize) {
        if jobs == 0 {
            self.wake_at = None;
        }
        let _ = self.reports_tx.send(Some(jobs));
    }

    fn on_stop(&mut self) {
        let _ = self.reports_tx.send(None);
    }
}

#[test]
fn jobs_that_are_ready_together_share_a_round_up_to_its_limit() {
    let (reports_tx, reports_rx) = channel();
    let thread = JobThread::start("test", 8, Rounds { reports_tx, wake_at: None }).unwrap();
    let (started_tx, _started_rx) = channel();
    let (resume_tx, resume_rx) = channel();
    for job in [Job::Block { started_tx, resume_rx }, Job::Nothing, Job::Nothing] {
        assert!(thread.try_send(job).is_ok());
    }
    resume_tx.send(()).unwrap();
    drop(thread);
    assert_eq!(reports_rx.iter().collect::<Vec<_>>(), [Some(2), Some(1), None]);
}

#[test]
fn worker_is_woken_at_its_time_without_a_job() {
    let (reports_tx, reports_rx) = channel();
    let thread = JobThread::start("test", 8, Rounds { reports_tx, wake_at: None }).unwrap();
    assert!(thread.try_send(Job::WakeAfter(Duration::from_millis(1))).is_ok());
    assert_eq!((reports_rx.recv(), reports_rx.recv()), (Ok(Some(1)), Ok(Some(0))));
}
