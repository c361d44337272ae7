//! Rotation of the default session when the journal is full.
//!
//! No client has chosen that session, so no client archives it. It moves to the archive under
//! another id, where the oldest files are deleted, so that messages alone never fill the disk.

use std::fs;

use super::disk::{DiskSessionStore, remove_if_exists};
use super::{SESSION_DEFAULT, SessionError};

/// Rotated files per agent: 256 MiB. The oldest is deleted for one more. Sessions that a client has
/// named are deleted only on request.
pub(super) const ROTATED_FILES_MAX: usize = 8;

impl DiskSessionStore {
    pub(super) fn rotate_default_session(&mut self, agent: &str, now_ms: u64) -> Result<(), SessionError> {
        let entries = self.session_entries(agent, SESSION_DEFAULT)?;
        let mut rotated = self.rotated_times(agent)?;
        let excess = (rotated.len() + 1).saturating_sub(ROTATED_FILES_MAX);
        for time_ms in rotated.drain(..excess) {
            remove_if_exists(&self.archive_path(agent, &rotated_id(time_ms))?)?;
        }
        // The time comes from a client and may repeat; an existing file must not be overwritten.
        let mut time_ms = now_ms;
        while rotated.contains(&time_ms) {
            time_ms = time_ms.wrapping_add(1);
        }
        self.archive_one(agent, &rotated_id(time_ms), &entries)?;
        self.remove(agent, &[SESSION_DEFAULT.to_owned()])
    }

    /// Returns the times of the rotated files, oldest first.
    fn rotated_times(&self, agent: &str) -> Result<Vec<u64>, SessionError> {
        let folder = self.workspace(agent)?.join("archive");
        let Ok(files) = fs::read_dir(folder) else { return Ok(Vec::new()) };
        let time_of = |file: fs::DirEntry| -> Option<u64> {
            let name = file.file_name().into_string().ok()?;
            let prefix = format!("session-{SESSION_DEFAULT}-");
            name.strip_prefix(&prefix)?.strip_suffix(".jsonl")?.parse().ok()
        };
        let mut times: Vec<u64> = files.filter_map(|file| time_of(file.ok()?)).collect();
        times.sort_unstable();
        Ok(times)
    }
}

fn rotated_id(time_ms: u64) -> String {
    format!("{SESSION_DEFAULT}-{time_ms}")
}
