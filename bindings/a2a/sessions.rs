//! Stored sessions: the messages to each agent, and its replies.
//!
//! The gateway's machine uses the [`SessionStore`] trait only; `disk.rs` implements it with files.

mod disk;
mod owner;
mod rotation;
mod transfer;

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

use super::codes::{ErrorCode, GatewayError};
use super::content::ArchiveSelection;
use super::owner::Owner;
pub(crate) use disk::DiskSessionStore;

/// The session of messages that name none.
pub(crate) const SESSION_DEFAULT: &str = "main";

/// Longest id of a session, in bytes: with a prefix and a suffix, it is the name of a file.
pub(crate) const SESSION_ID_BYTES_MAX: usize = 128;

/// When entries are synced to disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Durability {
    /// Before the effects of a message are sent: it survives a loss of power.
    #[default]
    Always,
    /// When a session is committed or archived, and when the server stops: it survives the process,
    /// not the machine.
    OnCommit,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("Session not found: {0}")]
    NotFound(String),
    #[error("Session has been archived: {0}")]
    Expired(String),
    #[error("Session is locked by another process")]
    Locked,
    #[error("Session data is corrupt in line {line}")]
    Corrupt { line: usize },
    #[error(
        "sessionId: expected letters, digits and - _ . : @ (at most {SESSION_ID_BYTES_MAX}), not starting with a dot"
    )]
    BadId,
    #[error("data: line {line}: expected an entry with timestamp, role, content and id")]
    BadLine { line: usize },
    #[error("Session already exists: {0}")]
    Exists(String),
    #[error("the workspace of the agent is full: archive or delete sessions")]
    Full,
    #[error("cannot access the workspace of the agent: {0}")]
    Io(#[from] io::Error),
}

impl From<SessionError> for GatewayError {
    fn from(error: SessionError) -> Self {
        let code = match error {
            SessionError::NotFound(_) => ErrorCode::SessionNotFound,
            SessionError::Expired(_) => ErrorCode::SessionExpired,
            SessionError::Locked => ErrorCode::SessionLocked,
            SessionError::Corrupt { .. } => ErrorCode::SessionCorrupt,
            SessionError::BadId | SessionError::Exists(_) | SessionError::BadLine { .. } => {
                ErrorCode::InvalidContent
            }
            SessionError::Full | SessionError::Io(_) => ErrorCode::AgentError,
        };
        Self::new(code, error.to_string())
    }
}

/// A message to an agent, or its reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) timestamp_ms: u64,
    pub(crate) role: String,
    pub(crate) content: Value,
    pub(crate) session_id: String,
    pub(crate) id: String,
}

impl Entry {
    fn to_json(&self) -> Value {
        json!({
            "timestamp": self.timestamp_ms,
            "role": self.role,
            "content": self.content,
            "sessionId": self.session_id,
            "id": self.id,
        })
    }
}

pub(crate) trait SessionStore {
    /// Adds an entry; the first one creates the session.
    fn append(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError>;
    /// Creates an empty session.
    fn create(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// Lists the live sessions of an agent.
    fn list(&mut self, agent: &str) -> Result<Vec<Value>, SessionError>;
    /// Returns all entries of a session.
    fn get(&mut self, agent: &str, session_id: &str) -> Result<Vec<Value>, SessionError>;
    /// Syncs a session to disk.
    fn commit(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// Archives sessions; returns their number.
    fn archive(
        &mut self,
        agent: &str,
        selection: &ArchiveSelection,
        now_ms: u64,
    ) -> Result<usize, SessionError>;
    fn delete(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// Returns the lines of a session as they are in its file.
    fn export(&mut self, agent: &str, session_id: &str) -> Result<String, SessionError>;
    /// Creates a session from exported lines; returns their number.
    fn import(&mut self, agent: &str, session_id: &str, lines: &str) -> Result<usize, SessionError>;
    /// Returns the owner of an agent's sessions, if there are any.
    fn owner(&self, agent: &str) -> Result<Option<Owner>, SessionError>;
    fn set_owner(&mut self, agent: &str, owner: &Owner) -> Result<(), SessionError>;
    fn has_sessions(&self, agent: &str) -> bool;
}

/// Returns whether an id is safe as part of a file name.
pub(crate) fn is_session_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    !id.is_empty() && id.len() <= SESSION_ID_BYTES_MAX && !id.starts_with('.') && id.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests;
