//! A log of sealed records as a file of a session.
//!
//! A file starts with a full image and takes deltas at its end. When they would outweigh the image, or when the process
//! that wrote it is gone, a new file replaces it by a rename: at every moment the name stands for a whole log. Files are
//! readable by their owner alone. They are read into memory and never mapped, so another process that shortens one can
//! make it unreadable and no more.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::ImageError;
use super::chain::{Expected, HeapTarget, Restored, read_chain};
use super::delta::{PageRun, nonzero_runs};
use super::error::check_size;
use super::key::Key;
use super::record::{HEADER_BYTES, RecordKind, SEALED_BYTES_MAX, Snapshot};
use super::seal::{Opener, Sealer};

/// Longest log that is read: a full image, deltas that do not outweigh it, and one more of any length.
pub(crate) const LOG_BYTES_MAX: u64 = 3 * (HEADER_BYTES + SEALED_BYTES_MAX) as u64;

/// What a record survives once it was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the process.
    Process,
    /// The loss of power too.
    Disk,
}

/// The log that this process writes for a session.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    sealer: Sealer,
    durability: Durability,
    file: File,
    full_bytes: u64,
    delta_bytes: u64,
    sequence: u64,
    /// After a failure: the caller's next changes may be counted from an image that this log never got.
    needs_full: bool,
}

impl LogFile {
    /// Writes a full image to a new file and puts it in the place of `path`. A session that continues from a log gets
    /// a new one, with the sequence that follows.
    pub(crate) fn create(
        path: PathBuf,
        mut sealer: Sealer,
        sequence: u64,
        snapshot: &Snapshot<'_>,
        durability: Durability,
    ) -> Result<Self, ImageError> {
        let record = sealer.seal(RecordKind::Full, sequence, snapshot, &nonzero_runs(snapshot.heap))?;
        let file = replace_file(&path, &record, durability)?;
        let full_bytes = record.len() as u64;
        Ok(Self { path, sealer, durability, file, full_bytes, delta_bytes: 0, sequence, needs_full: false })
    }

    /// The sequence of the newest record.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.full_bytes + self.delta_bytes
    }

    /// Appends what has changed: `runs` are the pages that differ from the record before, if that is known. After an
    /// error the log is what it was, and the next record is a full image.
    pub(crate) fn append(
        &mut self,
        snapshot: &Snapshot<'_>,
        runs: Option<&[PageRun]>,
    ) -> Result<(), ImageError> {
        let runs = match runs {
            Some(runs) if !self.needs_full => runs,
            Some(_) | None => return self.compact(snapshot),
        };
        self.needs_full = true;
        let record = self.sealer.seal(RecordKind::Delta, self.sequence + 1, snapshot, runs)?;
        if self.delta_bytes + record.len() as u64 > self.full_bytes {
            return self.compact(snapshot);
        }
        let written = self.file.write_all_at(&record, self.bytes()).and_then(|()| match self.durability {
            Durability::Process => Ok(()),
            Durability::Disk => self.file.sync_data(),
        });
        if let Err(error) = written {
            // A reader drops what is not whole; this saves it the trouble, and the disk the blocks.
            let _ = self.file.set_len(self.bytes());
            return Err(ImageError::from_io("append to image", record.len(), error));
        }
        self.delta_bytes += record.len() as u64;
        self.sequence += 1;
        self.needs_full = false;
        Ok(())
    }

    /// Starts a new file with a full image.
    fn compact(&mut self, snapshot: &Snapshot<'_>) -> Result<(), ImageError> {
        self.needs_full = true;
        let runs = nonzero_runs(snapshot.heap);
        let record = self.sealer.seal(RecordKind::Full, self.sequence + 1, snapshot, &runs)?;
        self.file = replace_file(&self.path, &record, self.durability)?;
        self.sequence += 1;
        (self.full_bytes, self.delta_bytes, self.needs_full) = (record.len() as u64, 0, false);
        Ok(())
    }
}

/// Reads the log at `path`.
pub(crate) fn read_log(
    path: &Path,
    keys: &[Key],
    expected: &Expected,
    target: &mut impl HeapTarget,
) -> Result<Restored, ImageError> {
    let fail = |source| ImageError::Io { what: "open image", source };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(ImageError::Forged("the log is not a regular file"));
    }
    check_size("image log", metadata.len(), LOG_BYTES_MAX)?;
    read_chain(&mut file, &mut Opener::new(keys), expected, target)
}

/// Writes a file beside `path` and renames it. What is left after an error is what was there.
fn replace_file(path: &Path, record: &[u8], durability: Durability) -> Result<File, ImageError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", uuid::Uuid::new_v4()));
    let new = PathBuf::from(name);
    let written = write_new(&new, record, durability)
        .and_then(|file| fs::rename(&new, path).map(|()| file))
        .and_then(|file| match (durability, path.parent()) {
            // Without this the rename itself could be lost.
            (Durability::Disk, Some(folder)) => File::open(folder)?.sync_all().map(|()| file),
            (Durability::Disk, None) | (Durability::Process, _) => Ok(file),
        });
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        ImageError::from_io("write image", record.len(), error)
    })
}

fn write_new(path: &Path, record: &[u8], durability: Durability) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(record, 0)?;
    match durability {
        Durability::Process => {}
        Durability::Disk => file.sync_data()?,
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
