//! Sessions from one workspace to another: the lines of a session as they stand in its file.

use serde_json::{Map, Value, json};

use super::super::instant;
use super::{DiskSessions, SessionError};

impl DiskSessions {
    /// The lines of a session.
    pub(super) fn export_lines(&mut self, agent: &str, session_id: &str) -> Result<String, SessionError> {
        let entries = self.existing(agent, session_id)?;
        Ok(entries.iter().map(|entry| format!("{entry}\n")).collect())
    }

    /// Makes lines a session of an agent, all of them or none. The session must not exist.
    pub(super) fn import_lines(
        &mut self,
        agent: &str,
        session_id: &str,
        lines: &str,
    ) -> Result<usize, SessionError> {
        match self.existing(agent, session_id) {
            Ok(_) => return Err(SessionError::Exists(session_id.to_owned())),
            Err(SessionError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let imported = read_lines(lines, session_id)?;
        if imported.is_empty() {
            return Err(SessionError::BadLine { line: 1 });
        }
        let count = imported.len();
        let mut entries = self.entries(agent)?;
        entries.extend(imported);
        let bytes: usize = entries.iter().map(|entry| entry.to_string().len() + 1).sum();
        if bytes as u64 > self.journal_bytes_max {
            return Err(SessionError::Full);
        }
        let open = self.journal(agent)?;
        open.journal.replace(&entries)?;
        open.is_dirty = false;
        Ok(count)
    }
}

/// The entries of lines, with the session that they are in from now on.
fn read_lines(lines: &str, session_id: &str) -> Result<Vec<Value>, SessionError> {
    let numbered = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let entries = numbered.map(|(index, line)| {
        let entry: Option<Map<String, Value>> = serde_json::from_str(line).ok();
        entry.and_then(|entry| placed(entry, session_id)).ok_or(SessionError::BadLine { line: index + 1 })
    });
    entries.collect()
}

/// An entry with the fields of the format, and no others.
fn placed(entry: Map<String, Value>, session_id: &str) -> Option<Value> {
    let role = entry.get("role")?.as_str()?;
    let content = entry.get("content").filter(|content| !content.is_null())?;
    let timestamp = instant::milliseconds(entry.get("timestamp")?)?;
    let id = entry.get("id")?.as_str()?;
    Some(json!({
        "timestamp": timestamp, "role": role, "content": content, "sessionId": session_id, "id": id
    }))
}
