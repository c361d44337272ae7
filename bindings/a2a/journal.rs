//! One JSONL file that we append to: opened once, locked against other processes, its last line repaired.
//!
//! An entry goes out in one write that ends with the line break, so a crash can tear only the last line, and a line
//! without its break was never acknowledged. Any other line that is no entry was damaged by somebody else.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sessions::SessionError;

/// Longest file of one workspace, in bytes. It is read as a whole and answered in one frame; one that is full takes
/// no more until sessions are archived or deleted.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 32 << 20;

/// An open file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Journal {
    /// Opens the file, which may not be there yet, and looks through it.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<Self, SessionError> {
        // The mark of another process, whether or not that process knows of locks.
        if is_marked(path) {
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

    /// Whether this still is the file at its path, as we left it, and nobody else has marked it as theirs.
    pub(crate) fn is_current(&self) -> bool {
        let same = |ours: &fs::Metadata, there: &fs::Metadata| {
            ours.ino() == there.ino() && ours.dev() == there.dev() && there.len() == self.bytes
        };
        let there = fs::metadata(&self.path).and_then(|there| Ok((self.file.metadata()?, there)));
        there.is_ok_and(|(ours, there)| same(&ours, &there)) && !is_marked(&self.path)
    }

    /// Adds a line.
    pub(crate) fn append(&mut self, entry: &Value) -> Result<(), SessionError> {
        let line = line_of(entry);
        let bytes = self.bytes + line.len() as u64;
        if bytes > self.bytes_max {
            return Err(SessionError::Full);
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Half a line must not stand before the next one.
            let _ = self.file.set_len(self.bytes);
            return Err(error.into());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Every entry, in order.
    pub(crate) fn entries(&mut self) -> Result<Vec<Value>, SessionError> {
        parse(&self.read()?)
    }

    /// Puts other entries in the place of all: written beside, then moved over, so that a crash leaves the one or the
    /// other.
    pub(crate) fn replace(&mut self, entries: &[Value]) -> Result<(), SessionError> {
        write_new(&self.path, entries)?;
        *self = Self::open(&self.path, self.bytes_max)?;
        Ok(())
    }

    /// Makes the disk keep what was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn read(&mut self) -> Result<Vec<u8>, SessionError> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        // One more than is allowed tells of a file that somebody else filled.
        (&self.file).take(self.bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.bytes_max { Err(SessionError::Full) } else { Ok(bytes) }
    }

    /// Checks all lines. A last one without its break is completed if it is whole and cut off if it is not.
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
            tracing::warn!(%path, "the last line had no end: completed");
            self.file.write_all(b"\n")?;
            self.bytes += 1;
        } else {
            tracing::warn!(%path, bytes = torn.len(), "the last line was torn by a crash: cut off");
            self.file.set_len(end as u64)?;
            self.bytes = end as u64;
        }
        Ok(())
    }
}

/// Writes a file as a whole and makes the disk keep it, or leaves what was there.
pub(crate) fn write_new(path: &Path, entries: &[Value]) -> Result<(), SessionError> {
    let beside = with_suffix(path, ".new");
    let mut file = File::create(&beside)?;
    for entry in entries {
        file.write_all(line_of(entry).as_bytes())?;
    }
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_folder(path)
}

/// The name of a new file is kept by its folder.
fn sync_folder(path: &Path) -> Result<(), SessionError> {
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Whether another process has marked a file as its own.
pub(crate) fn is_marked(path: &Path) -> bool {
    with_suffix(path, ".lock").exists()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn line_of(entry: &Value) -> String {
    format!("{entry}\n")
}

/// The entries of whole lines. An entry is an object that says which session it belongs to.
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
