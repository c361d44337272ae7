//! The audit log: who did what and when, as JSON lines; never inputs or outputs.
//!
//! A thread of its own writes it, over a bounded queue, so a disk or a pipe that stalls never blocks a shard.
//! When the queue is full a record is dropped and counted, and the log says where records are missing; calls go on.
//!
//! What comes from peers that have not authenticated goes to a file, a queue and a thread of its own: however much they
//! send, they cannot push out the records of principals. Refusals of one kind are recorded together; those for a missing
//! role are among the records of principals, by principal and role.

mod file;
mod refusals;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tokio::sync::oneshot;

use super::record_dropped_audit_record;
use crate::concurrency::{JobThread, Worker};
use file::Log;
use refusals::{RefusalKind, Refusals};

/// Records that wait for the disk. Room for a burst of calls from every session.
const RECORDS_QUEUED_MAX: usize = 8_192;

/// The same for peers that have not authenticated. Their refusals are counted in the metrics whatever happens here.
const UNAUTHENTICATED_QUEUED_MAX: usize = 1_024;

/// At this size the file of peers that have not authenticated is set aside. A day of one refusal a second fits.
const UNAUTHENTICATED_BYTES_MAX: u64 = 8 << 20;

/// How many files of such peers are kept beside the current one.
const UNAUTHENTICATED_FILES_MAX: usize = 1;

/// How long a stop waits for the disk.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(2);

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the fields are named as they are logged")]
pub enum Event {
    /// Requests were refused at the gate. The first is recorded by itself, those after it together.
    Refused { reason: &'static str, count: u64 },
    /// Records are missing here: they came faster than they could be written.
    RecordsDropped { count: u64 },
    /// A principal asked for something that needs a role which it does not have. Recorded together as above.
    RoleRefused { principal: String, role: &'static str, count: u64 },
    /// A session began.
    SessionOpened { principal: String, session: String },
    /// A session was resumed.
    SessionResumed { principal: String, session: String },
    /// A session was forked; `fork` is the new one, which began with a record of its own.
    SessionForked { principal: String, session: String, fork: String },
    /// A session is over.
    SessionClosed { principal: String, session: String },
    /// A message went through a gateway, or did not.
    Message {
        /// The connection that sent it.
        client: String,
        /// The type of the message.
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The sender that the message names, which is not verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The receiver.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// `ok`, or the name of the error.
        outcome: &'static str,
    },
    /// A server binding was called.
    Call {
        principal: String,
        session: String,
        binding: String,
        effects: Vec<String>,
        /// The decision of the policy: `allow`, `ask` or `deny`.
        decision: &'static str,
        /// `ok`, or the kind of the error.
        outcome: &'static str,
        duration_ms: f64,
    },
}

enum Job {
    Write(SystemTime, Event),
    Sync(oneshot::Sender<()>),
}

/// A handle to the log; the default one records nothing.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    queues: Option<Queues>,
}

#[derive(Debug, Clone)]
struct Queues {
    principals: Queue,
    unauthenticated: Queue,
}

impl Audit {
    /// Appends to the file at `path`, which is set aside at `max_bytes`; `keep` such files are kept. Beside it is
    /// `path.unauthenticated`, for peers that have not authenticated.
    pub fn open(path: &Path, max_bytes: u64, keep: usize) -> io::Result<Self> {
        let principals = Log::open(path, max_bytes, keep)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".unauthenticated");
        let unauthenticated =
            Log::open_later(Path::new(&beside), UNAUTHENTICATED_BYTES_MAX, UNAUTHENTICATED_FILES_MAX);
        let queues = Queues {
            principals: Queue::start("principals", principals, RECORDS_QUEUED_MAX)?,
            unauthenticated: Queue::start("unauthenticated", unauthenticated, UNAUTHENTICATED_QUEUED_MAX)?,
        };
        Ok(Self { queues: Some(queues) })
    }

    /// Records the event, if a log is kept. Never waits.
    pub fn record(&self, event: impl FnOnce() -> Event) {
        if let Some(queues) = &self.queues {
            queues.principals.push(event());
        }
    }

    /// Records an event of a peer that has not authenticated, apart from the records of principals. Never waits.
    pub fn record_unauthenticated(&self, event: impl FnOnce() -> Event) {
        if let Some(queues) = &self.queues {
            queues.unauthenticated.push(event());
        }
    }

    /// Waits until all records so far are in the files, at most two seconds.
    pub async fn sync(&self) {
        let Some(queues) = &self.queues else { return };
        // A disk that hangs does not keep the server from stopping.
        let both = async { tokio::join!(queues.principals.sync(), queues.unauthenticated.sync()) };
        let _ = tokio::time::timeout(SYNC_WAIT_MAX, both).await;
    }
}

/// A handle to the thread that writes one file.
#[derive(Debug, Clone)]
struct Queue {
    name: &'static str,
    thread: JobThread<Job>,
    /// Records dropped since the log last said so.
    dropped: Arc<AtomicU64>,
}

impl Queue {
    fn start(name: &'static str, log: Log, queued_max: usize) -> io::Result<Self> {
        let dropped = Arc::<AtomicU64>::default();
        let writer = Writer {
            name,
            log,
            refusals: Refusals::default(),
            dropped: Arc::clone(&dropped),
            written: Ok(()),
            syncs: Vec::new(),
            is_failing: false,
        };
        Ok(Self { name, thread: JobThread::start(&format!("audit-{name}"), queued_max, writer)?, dropped })
    }

    fn push(&self, event: Event) {
        if self.thread.try_send(Job::Write(SystemTime::now(), event)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            record_dropped_audit_record(self.name);
        }
    }

    async fn sync(&self) {
        let (done_tx, done_rx) = oneshot::channel();
        if self.thread.try_send(Job::Sync(done_tx)).is_ok() {
            // The thread lives as long as this queue does.
            let _ = done_rx.await;
        }
    }
}

/// Writes one file.
struct Writer {
    name: &'static str,
    log: Log,
    refusals: Refusals,
    dropped: Arc<AtomicU64>,
    /// The first failure of the round, if any.
    written: io::Result<()>,
    /// Callers that wait for the end of the round.
    syncs: Vec<oneshot::Sender<()>>,
    /// Whether the last round failed: a disk that stays full is reported once.
    is_failing: bool,
}

impl Worker for Writer {
    type Job = Job;

    /// Bounded, so that a flood does not keep what is written from the disk.
    const JOBS_PER_ROUND_MAX: usize = RECORDS_QUEUED_MAX;

    fn on_job(&mut self, job: Job) {
        match job {
            Job::Write(at, event) => {
                let written = self.take(at, event);
                self.note(written);
            }
            Job::Sync(done_tx) => self.syncs.push(done_tx),
        }
    }

    /// When refusals that were counted are due.
    fn wake_at(&self) -> Option<Instant> {
        self.refusals.next_due()
    }

    fn on_round_end(&mut self, _jobs: usize) {
        let closed = self.close_batch(!self.syncs.is_empty());
        self.note(closed);
        let written = std::mem::replace(&mut self.written, Ok(()));
        if let Err(error) = &written
            && !self.is_failing
        {
            tracing::error!(%error, path = %self.log.path().display(), "cannot write the audit log");
        }
        self.is_failing = written.is_err();
        for done_tx in self.syncs.drain(..) {
            // The stop may have timed out already.
            let _ = done_tx.send(());
        }
    }
}

impl Writer {
    fn note(&mut self, written: io::Result<()>) {
        if self.written.is_ok() {
            self.written = written;
        }
    }

    fn take(&mut self, at: SystemTime, event: Event) -> io::Result<()> {
        let event = match event {
            Event::Refused { reason, count } => {
                self.refusals.take(RefusalKind::Gate { reason }, count, at, Instant::now())
            }
            Event::RoleRefused { principal, role, count } => {
                self.refusals.take(RefusalKind::Role { principal, role }, count, at, Instant::now())
            }
            other => Some(other),
        };
        event.map_or(Ok(()), |event| self.write(at, &event))
    }

    fn write(&mut self, at: SystemTime, event: &Event) -> io::Result<()> {
        self.log.write(at, event).inspect_err(|_| {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            record_dropped_audit_record(self.name);
        })
    }

    /// Writes what was gathered, all of it at the end of the server, and brings the file up to date.
    fn close_batch(&mut self, is_sync: bool) -> io::Result<()> {
        let now = if is_sync { None } else { Some(Instant::now()) };
        let mut written = Ok(());
        for (at, event) in self.refusals.take_due(now) {
            written = written.and(self.write(at, &event));
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let noted = self.log.write(SystemTime::now(), &Event::RecordsDropped { count: dropped });
            if noted.is_err() {
                self.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
            written = written.and(noted);
        }
        written.and(self.log.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("scomp-audit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn dropped_records_are_recorded_as_a_count() {
        let folder = folder("dropped");
        let path = folder.join("audit.jsonl");
        let audit = Audit::open(&path, 1 << 20, 1).unwrap();
        audit.queues.as_ref().unwrap().principals.dropped.fetch_add(3, Ordering::Relaxed);
        audit.record(|| Event::SessionOpened { principal: "ann".into(), session: "s1".into() });
        audit.sync().await;
        let text = std::fs::read_to_string(&path).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((last["event"].as_str(), last["count"].as_u64()), (Some("recordsDropped"), Some(3)));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn records_are_lines_with_a_time() {
        let folder = folder("lines");
        let path = folder.join("audit.jsonl");
        let audit = Audit::open(&path, 1 << 20, 1).unwrap();
        audit.record(|| Event::SessionOpened { principal: "ann".into(), session: "s1".into() });
        audit.sync().await;
        let text = std::fs::read_to_string(&path).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(
            (line["event"].as_str(), line["principal"].as_str(), line["session"].as_str()),
            (Some("sessionOpened"), Some("ann"), Some("s1"))
        );
        assert!(line["at"].as_str().unwrap().ends_with('Z'));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
