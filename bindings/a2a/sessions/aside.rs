//! What becomes of the session of messages that name none when its file is full.
//!
//! No client chose that session, so none would think of archiving it. It is set aside, and of what was set aside the
//! oldest goes, so that messages alone never fill the disk.

use std::fs;

use super::{DiskSessions, SESSION_DEFAULT, SessionError, remove_if_there};

/// Files of that session that are kept for one agent, beside the one that is written: 256 MiB. The oldest is deleted
/// for one more. Sessions that a client named are never deleted without being asked to.
pub(super) const SET_ASIDE_MAX: usize = 8;

impl DiskSessions {
    pub(super) fn set_default_aside(&mut self, agent: &str, now_ms: u64) -> Result<(), SessionError> {
        let entries = self.existing(agent, SESSION_DEFAULT)?;
        let mut set_aside = self.set_aside(agent)?;
        let excess = (set_aside.len() + 1).saturating_sub(SET_ASIDE_MAX);
        for time_ms in set_aside.drain(..excess) {
            remove_if_there(&self.archive_path(agent, &name(time_ms))?)?;
        }
        // The time is a client's word; what was set aside before is not overwritten.
        let mut time_ms = now_ms;
        while set_aside.contains(&time_ms) {
            time_ms = time_ms.wrapping_add(1);
        }
        self.archive_one(agent, &name(time_ms), &entries)?;
        self.remove(agent, &[SESSION_DEFAULT.to_owned()])
    }

    /// When it was set aside, the oldest first.
    fn set_aside(&self, agent: &str) -> Result<Vec<u64>, SessionError> {
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

fn name(time_ms: u64) -> String {
    format!("{SESSION_DEFAULT}-{time_ms}")
}
