//! The file of an audit log, and those set aside by number when it is full.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::Event;

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    #[serde(flatten)]
    event: &'a Event,
}

/// One file and those set aside.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    max_bytes: u64,
    keep: usize,
    current: Option<Current>,
}

/// The file that is written to.
#[derive(Debug)]
struct Current {
    file: BufWriter<File>,
    bytes: u64,
    /// A pipe or a device cannot be set aside.
    is_regular: bool,
}

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        let is_regular = std::fs::metadata(path).map_or(true, |metadata| metadata.is_file());
        // Open for reading too, a pipe is there without a reader: otherwise this would wait for one.
        let file = OpenOptions::new().create(true).append(true).read(!is_regular).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: BufWriter::new(file), bytes, is_regular })
    }
}

impl Log {
    /// Opens the file now, so that a wrong path is found at start.
    pub(super) fn open(path: &Path, max_bytes: u64, keep: usize) -> io::Result<Self> {
        let current = Some(Current::open(path)?);
        Ok(Self { current, ..Self::open_later(path, max_bytes, keep) })
    }

    /// The file is made with its first record.
    pub(super) fn open_later(path: &Path, max_bytes: u64, keep: usize) -> Self {
        Self { path: path.to_owned(), max_bytes, keep, current: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, at: SystemTime, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at: rfc3339(at), event })?;
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if let Some(current) = &mut self.current
            && current.is_regular
            && current.bytes > 0
            && current.bytes.saturating_add(length) > self.max_bytes
        {
            current.file.flush()?;
            self.set_aside()?;
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => self.current.insert(Current::open(&self.path)?),
        };
        current.file.write_all(&line)?;
        current.bytes += length;
        Ok(())
    }

    /// Flushes the buffer to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.file.flush())
    }

    fn set_aside(&mut self) -> io::Result<()> {
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
        self.current = Some(Current::open(&self.path)?);
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
    use std::time::Duration;

    #[test]
    fn times_are_formatted_as_rfc3339() {
        let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_772_323_199_042), "2026-02-28T23:59:59.042Z");
        assert_eq!(at(1_709_251_200_000), "2024-03-01T00:00:00.000Z");
    }

    #[test]
    fn full_file_is_rotated_and_the_oldest_deleted() {
        let folder = std::env::temp_dir().join(format!("scomp-audit-rotate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.jsonl");
        let mut log = Log::open(&path, 160, 2).unwrap();
        for reason in ["one", "two", "three", "four", "five", "six", "seven"] {
            log.write(SystemTime::now(), &Event::Refused { reason, count: 1 }).unwrap();
        }
        log.flush().unwrap();
        let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().lines().count();
        assert_eq!((lines("audit.jsonl"), lines("audit.jsonl.1"), lines("audit.jsonl.2")), (1, 2, 2));
        assert!(!folder.join("audit.jsonl.3").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
