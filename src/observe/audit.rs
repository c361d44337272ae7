//! The audit log: who did what and when, as JSON lines; never with what.
//!
//! A thread of its own writes it, over a bounded queue: a slow disk costs records, which are counted, and never the
//! time of a shard. Full files are set aside by number.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::oneshot;

use super::audit_record_dropped;

/// Records that wait for the disk. A burst of calls from every session fits; behind a disk that hangs, no more.
const RECORDS_QUEUED_MAX: usize = 8_192;

/// How long a stop waits for the disk.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(2);

/// Something worth a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A connection was refused at the gate.
    Refused {
        /// Why.
        reason: &'static str,
    },
    /// A principal asked for something that needs a role which it does not have.
    RoleRefused {
        /// Who asked.
        principal: String,
        /// What it lacks.
        role: &'static str,
    },
    /// A session began.
    SessionOpened {
        /// Whose.
        principal: String,
        /// Its id.
        session: String,
    },
    /// A session was resumed.
    SessionResumed {
        /// By whom.
        principal: String,
        /// Its id.
        session: String,
    },
    /// A session is over.
    SessionClosed {
        /// Whose.
        principal: String,
        /// Its id.
        session: String,
    },
    /// A message went through a gateway, or did not.
    Message {
        /// The connection that sent it.
        client: String,
        /// Its type.
        kind: &'static str,
        /// Its id.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Who it says it is from.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Whom it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// `ok`, or the name of the error.
        outcome: &'static str,
    },
    /// A server binding was called.
    Call {
        /// By whose session.
        principal: String,
        /// Its id.
        session: String,
        /// What was called.
        binding: String,
        /// What it may do.
        effects: Vec<String>,
        /// What the policy said: `allow`, `ask` or `deny`.
        decision: &'static str,
        /// `ok`, or the kind of the error.
        outcome: &'static str,
        /// How long it took.
        duration_ms: f64,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    #[serde(flatten)]
    event: &'a Event,
}

enum Job {
    Write(SystemTime, Event),
    Sync(oneshot::Sender<()>),
}

/// The way to the log; the default one keeps no record.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    jobs_tx: Option<SyncSender<Job>>,
}

impl Audit {
    /// Appends to the file at `path`, which is set aside at `max_bytes`; `keep` such files are kept.
    pub fn open(path: &Path, max_bytes: u64, keep: usize) -> io::Result<Self> {
        let log = Log::open(path, max_bytes, keep)?;
        let (jobs_tx, jobs_rx) = sync_channel(RECORDS_QUEUED_MAX);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write_records(log, &jobs_rx))?;
        Ok(Self { jobs_tx: Some(jobs_tx) })
    }

    /// Puts down what `event` gives, if a record is kept at all.
    pub fn record(&self, event: impl FnOnce() -> Event) {
        if let Some(jobs_tx) = &self.jobs_tx
            && jobs_tx.try_send(Job::Write(SystemTime::now(), event())).is_err()
        {
            audit_record_dropped();
        }
    }

    /// Waits a moment until all records so far are in the file.
    pub async fn sync(&self) {
        let Some(jobs_tx) = &self.jobs_tx else { return };
        let (done_tx, done_rx) = oneshot::channel();
        if jobs_tx.try_send(Job::Sync(done_tx)).is_ok() {
            // A disk that hangs does not keep the server from stopping.
            let _ = tokio::time::timeout(SYNC_WAIT_MAX, done_rx).await;
        }
    }
}

fn write_records(mut log: Log, jobs_rx: &Receiver<Job>) {
    let mut is_failing = false;
    while let Ok(first) = jobs_rx.recv() {
        let mut written = Ok(());
        let mut waiting = Vec::new();
        for job in std::iter::once(first).chain(jobs_rx.try_iter()) {
            match job {
                Job::Write(at, event) => written = written.and(log.write(at, &event)),
                Job::Sync(done_tx) => waiting.push(done_tx),
            }
        }
        let written = written.and(log.file.flush());
        if let Err(error) = &written
            && !is_failing
        {
            tracing::error!(%error, path = %log.path.display(), "the audit log cannot be written");
        }
        is_failing = written.is_err();
        for done_tx in waiting {
            // Whoever asked may have gone.
            let _ = done_tx.send(());
        }
    }
}

struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    max_bytes: u64,
    keep: usize,
}

impl Log {
    fn open(path: &Path, max_bytes: u64, keep: usize) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), bytes, max_bytes, keep })
    }

    fn write(&mut self, at: SystemTime, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at: rfc3339(at), event })?;
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.max_bytes {
            self.set_aside()?;
        }
        self.file.write_all(&line)?;
        self.bytes += length;
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        self.file.flush()?;
        for number in (1..self.keep).rev() {
            let older = self.numbered(number + 1);
            // The first times round there is nothing of that number yet.
            let _ = std::fs::rename(self.numbered(number), older);
        }
        if self.keep > 0 {
            std::fs::rename(&self.path, self.numbered(1))?;
        } else {
            std::fs::remove_file(&self.path)?;
        }
        *self = Self::open(&self.path, self.max_bytes, self.keep)?;
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// `2026-02-28T23:59:59.042Z`.
fn rfc3339(at: SystemTime) -> String {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since_epoch.as_secs(), since_epoch.subsec_millis());
    let (year, month, day) = date_of(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date that many days after 1 January 1970. Years are counted from March, so that a leap day comes last.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("scomp-audit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_772_323_199_042), "2026-02-28T23:59:59.042Z");
        assert_eq!(at(1_709_251_200_000), "2024-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_goes() {
        let folder = folder("rotate");
        let path = folder.join("audit.jsonl");
        let mut log = Log::open(&path, 140, 2).unwrap();
        for reason in ["one", "two", "three", "four", "five", "six", "seven"] {
            log.write(SystemTime::now(), &Event::Refused { reason }).unwrap();
        }
        log.file.flush().unwrap();
        let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().lines().count();
        assert_eq!((lines("audit.jsonl"), lines("audit.jsonl.1"), lines("audit.jsonl.2")), (1, 2, 2));
        assert!(!folder.join("audit.jsonl.3").exists());
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
