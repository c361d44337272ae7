//! An append-only JSONL file: locked against other processes, with its last line repaired when it
//! is opened.
//!
//! An entry is one write that ends with the line break, so a crash can tear only the last line,
//! which was never acknowledged. Any other invalid line is damage from outside.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sessions::SessionError;

/// Longest file of one workspace, in bytes. It is read as a whole and sent in one frame. A full
/// file accepts no entry until sessions are archived or deleted.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Journal {
    /// Opens or creates the file, locks it, and checks every line.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<Self, SessionError> {
        // Programs that do not lock files mark theirs with a lock file.
        if has_lock_file(path) {
            return Err(SessionError::Locked);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SessionError::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut journal = Self { path: path.to_owned(), bytes: 0, bytes_max, file };
        journal.repair()?;
        Ok(journal)
    }

    /// Returns whether the path still leads to this file, unchanged by and not locked for another
    /// process.
    pub(crate) fn is_current(&self) -> bool {
        let is_same = |ours: &fs::Metadata, there: &fs::Metadata| {
            ours.ino() == there.ino() && ours.dev() == there.dev() && there.len() == self.bytes
        };
        let there = fs::metadata(&self.path).and_then(|there| Ok((self.file.metadata()?, there)));
        there.is_ok_and(|(ours, there)| is_same(&ours, &there)) && !has_lock_file(&self.path)
    }

    pub(crate) fn append(&mut self, entry: &Value) -> Result<(), SessionError> {
        let line = to_line(entry);
        let bytes = self.bytes + line.len() as u64;
        if bytes > self.bytes_max {
            return Err(SessionError::Full);
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // A partial line must not precede the next one.
            let _ = self.file.set_len(self.bytes);
            return Err(error.into());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Reads every entry, in order.
    pub(crate) fn entries(&mut self) -> Result<Vec<Value>, SessionError> {
        parse(&self.read()?)
    }

    /// Replaces all entries atomically: a crash leaves the old file or the new one.
    pub(crate) fn replace(&mut self, entries: &[Value]) -> Result<(), SessionError> {
        replace_file(&self.path, entries)?;
        *self = Self::open(&self.path, self.bytes_max)?;
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn read(&mut self) -> Result<Vec<u8>, SessionError> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        // One byte past the limit shows that another process has filled the file.
        (&self.file).take(self.bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.bytes_max { Err(SessionError::Full) } else { Ok(bytes) }
    }

    /// Checks all lines. A last line without its break is completed if it is valid, else removed.
    fn repair(&mut self) -> Result<(), SessionError> {
        let bytes = self.read()?;
        self.bytes = bytes.len() as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (lines, torn) = bytes.split_at(end);
        parse(lines)?;
        if torn.is_empty() {
            return Ok(());
        }
        let path = self.path.display();
        if parse(torn).is_ok() {
            tracing::warn!(%path, "completed the last line, which had no line break");
            self.file.write_all(b"\n")?;
            self.bytes += 1;
        } else {
            tracing::warn!(%path, bytes = torn.len(), "removed the last line, which a crash had torn");
            self.file.set_len(end as u64)?;
            self.bytes = end as u64;
        }
        Ok(())
    }
}

/// Writes a file beside `path`, syncs it, and moves it there, so that a crash leaves the old file
/// or the new one.
pub(crate) fn replace_file(path: &Path, entries: &[Value]) -> Result<(), SessionError> {
    let temporary = with_suffix(path, ".new");
    let mut file = File::create(&temporary)?;
    for entry in entries {
        file.write_all(to_line(entry).as_bytes())?;
    }
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_folder(path)
}

/// Syncs the folder, which holds the name of a new file.
fn sync_folder(path: &Path) -> Result<(), SessionError> {
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Returns whether another process has locked the file with a `.lock` file beside it.
pub(crate) fn has_lock_file(path: &Path) -> bool {
    with_suffix(path, ".lock").exists()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn to_line(entry: &Value) -> String {
    format!("{entry}\n")
}

/// Parses complete lines. An entry is an object with a `sessionId`.
fn parse(lines: &[u8]) -> Result<Vec<Value>, SessionError> {
    let numbered = lines.split(|byte| *byte == b'\n').enumerate();
    let filled = numbered.filter(|(_, line)| !line.trim_ascii().is_empty());
    let entries = filled.map(|(index, line)| {
        let entry: Option<Value> = serde_json::from_slice(line).ok();
        let entry = entry.filter(|entry| entry.get("sessionId").is_some_and(Value::is_string));
        entry.ok_or(SessionError::Corrupt { line: index + 1 })
    });
    entries.collect()
}

#[cfg(test)]
mod tests;
