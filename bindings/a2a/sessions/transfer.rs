//! Export and import of sessions, as the lines of the journal.

use serde_json::{Map, Value, json};

use super::super::timestamp;
use super::SessionError;
use super::disk::DiskSessionStore;

impl DiskSessionStore {
    pub(super) fn export_lines(&mut self, agent: &str, session_id: &str) -> Result<String, SessionError> {
        let entries = self.session_entries(agent, session_id)?;
        Ok(entries.iter().map(|entry| format!("{entry}\n")).collect())
    }

    /// Creates a session from lines, all of them or none. The session must not exist.
    pub(super) fn import_lines(
        &mut self,
        agent: &str,
        session_id: &str,
        lines: &str,
    ) -> Result<usize, SessionError> {
        match self.session_entries(agent, session_id) {
            Ok(_) => return Err(SessionError::Exists(session_id.to_owned())),
            Err(SessionError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let imported = parse_lines(lines, session_id)?;
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

/// Parses lines into entries of that session.
fn parse_lines(lines: &str, session_id: &str) -> Result<Vec<Value>, SessionError> {
    let numbered = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let entries = numbered.map(|(index, line)| {
        let entry: Option<Map<String, Value>> = serde_json::from_str(line).ok();
        entry.and_then(|entry| to_entry(entry, session_id)).ok_or(SessionError::BadLine { line: index + 1 })
    });
    entries.collect()
}

/// Returns an entry with the fields of the format only, or `None` if one is missing.
fn to_entry(entry: Map<String, Value>, session_id: &str) -> Option<Value> {
    let role = entry.get("role")?.as_str()?;
    let content = entry.get("content").filter(|content| !content.is_null())?;
    let timestamp = timestamp::parse_ms(entry.get("timestamp")?)?;
    let id = entry.get("id")?.as_str()?;
    Some(json!({
        "timestamp": timestamp, "role": role, "content": content, "sessionId": session_id, "id": id
    }))
}
