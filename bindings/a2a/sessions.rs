//! What was said to each agent, on disk: `agents/{agent}/session.jsonl`, one line an entry.
//!
//! A session is the entries that bear its id. One that was created and never spoken in is an empty file in `created/`;
//! one that was archived is `archive/session-{id}.jsonl`, and its id is not used again. Names that could lead out of
//! a workspace are refused before any path is made of them.

mod aside;
mod owner;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::codes::{ErrorCode, Refusal};
use super::content::Archived;
use super::journal::{JOURNAL_BYTES_MAX, Journal, is_marked, write_new};
use super::owner::Owner;
use super::wire::is_agent_name;
use owner::Owners;

/// The file of the sessions that live.
const JOURNAL: &str = "session.jsonl";

/// The session of messages that name none.
pub(crate) const SESSION_DEFAULT: &str = "main";

/// Longest id of a session, in bytes: with what is put around it, it is a file's name.
pub(crate) const SESSION_ID_BYTES_MAX: usize = 128;

/// Sessions of one agent that were created and are still empty; one more is refused.
pub(crate) const CREATED_MAX: usize = 1000;

/// Files that are kept open; with one more agent all are closed and opened again at need.
const JOURNALS_OPEN_MAX: usize = 64;

/// When the disk must have what was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Durability {
    /// Before anybody hears of it: it outlives a loss of power.
    #[default]
    Always,
    /// When a session is committed or archived, and when the server stops: it outlives the process, not the machine.
    OnCommit,
}

/// Why the store did not do it.
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
        "sessionId: expected letters, digits and - _ . : @, at most {SESSION_ID_BYTES_MAX}, not beginning with a dot"
    )]
    BadId,
    #[error("data: line {line}: expected an entry with timestamp, role, content and id")]
    BadLine { line: usize },
    #[error("Session exists already: {0}")]
    Exists(String),
    #[error("the agent's workspace is full: archive or delete sessions")]
    Full,
    #[error("the agent's workspace cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl From<SessionError> for Refusal {
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

/// One thing that was said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) timestamp_ms: u64,
    pub(crate) role: String,
    pub(crate) content: Value,
    pub(crate) session_id: String,
    pub(crate) id: String,
}

impl Entry {
    fn line(&self) -> Value {
        json!({
            "timestamp": self.timestamp_ms,
            "role": self.role,
            "content": self.content,
            "sessionId": self.session_id,
            "id": self.id,
        })
    }
}

/// Where sessions are kept. The gateway's machine asks for nothing else of a disk.
pub(crate) trait Sessions {
    /// Keeps what was said to an agent; a session begins with its first entry.
    fn append(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError>;
    /// Begins a session without an entry.
    fn create(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// The live sessions of an agent.
    fn list(&mut self, agent: &str) -> Result<Vec<Value>, SessionError>;
    /// All entries of a session.
    fn get(&mut self, agent: &str, session_id: &str) -> Result<Vec<Value>, SessionError>;
    /// Makes the disk keep a session.
    fn commit(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// Sets sessions aside and says how many.
    fn archive(&mut self, agent: &str, which: &Archived, now_ms: u64) -> Result<usize, SessionError>;
    /// Forgets a session.
    fn delete(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError>;
    /// The lines of a session as they stand in its file.
    fn export(&mut self, agent: &str, session_id: &str) -> Result<String, SessionError>;
    /// Makes lines a new session of an agent, and says how many there were.
    fn import(&mut self, agent: &str, session_id: &str, lines: &str) -> Result<usize, SessionError>;
    /// Whom the sessions of an agent belong to, if there are any.
    fn owner(&self, agent: &str) -> Result<Option<Owner>, SessionError>;
    /// Remembers whom the sessions of an agent belong to.
    fn set_owner(&mut self, agent: &str, owner: &Owner) -> Result<(), SessionError>;
    /// Whether an agent has sessions.
    fn holds_any(&self, agent: &str) -> bool;
}

/// Sessions in the folder `agents` of a state folder.
#[derive(Debug)]
pub(crate) struct DiskSessions {
    root: PathBuf,
    durability: Durability,
    journal_bytes_max: u64,
    open: HashMap<String, OpenJournal>,
    owners: Owners,
}

#[derive(Debug)]
struct OpenJournal {
    journal: Journal,
    is_dirty: bool,
}

impl DiskSessions {
    /// A store below `state`, which is made at need.
    pub(crate) fn new(state: &Path, durability: Durability) -> Self {
        let journal_bytes_max = JOURNAL_BYTES_MAX;
        Self {
            root: state.join("agents"),
            durability,
            journal_bytes_max,
            open: HashMap::new(),
            owners: Owners::default(),
        }
    }

    /// What must be done before anybody hears of what was appended.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        match self.durability {
            Durability::Always => self.sync(),
            Durability::OnCommit => Ok(()),
        }
    }

    /// Makes the disk keep everything.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        for open in self.open.values_mut().filter(|open| open.is_dirty) {
            open.journal.sync()?;
            open.is_dirty = false;
        }
        Ok(())
    }

    fn workspace(&self, agent: &str) -> Result<PathBuf, SessionError> {
        // The registry lets no other name through; this is where a mistake there would begin to matter.
        if is_agent_name(agent) { Ok(self.root.join(agent)) } else { Err(SessionError::BadId) }
    }

    fn journal(&mut self, agent: &str) -> Result<&mut OpenJournal, SessionError> {
        let path = self.workspace(agent)?.join(JOURNAL);
        if self.open.get(agent).is_some_and(|open| !open.journal.is_current()) {
            // Closed before it is opened again, or our own lock would stand in the way.
            self.open.remove(agent);
        }
        if self.open.len() >= JOURNALS_OPEN_MAX && !self.open.contains_key(agent) {
            self.sync()?;
            self.open.clear();
        }
        match self.open.entry(agent.to_owned()) {
            std::collections::hash_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let journal = Journal::open(&path, self.journal_bytes_max)?;
                Ok(vacant.insert(OpenJournal { journal, is_dirty: false }))
            }
        }
    }

    fn created_mark(&self, agent: &str, session_id: &str) -> Result<PathBuf, SessionError> {
        Ok(self.workspace(agent)?.join("created").join(session_id))
    }

    fn archive_path(&self, agent: &str, session_id: &str) -> Result<PathBuf, SessionError> {
        Ok(self.workspace(agent)?.join("archive").join(format!("session-{session_id}.jsonl")))
    }

    /// Whether an id may be used with an agent: well-formed, and not that of an archived session.
    fn usable(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        if !is_session_id(session_id) {
            return Err(SessionError::BadId);
        }
        if self.archive_path(agent, session_id)?.exists() {
            return Err(SessionError::Expired(session_id.to_owned()));
        }
        Ok(())
    }

    /// All entries of an agent. Reading makes no file.
    fn entries(&mut self, agent: &str) -> Result<Vec<Value>, SessionError> {
        let path = self.workspace(agent)?.join(JOURNAL);
        if path.exists() || is_marked(&path) {
            self.journal(agent)?.journal.entries()
        } else {
            Ok(Vec::new())
        }
    }

    /// The entries of a session that is there; others get 4001.
    fn existing(&mut self, agent: &str, session_id: &str) -> Result<Vec<Value>, SessionError> {
        self.usable(agent, session_id)?;
        let mut entries = self.entries(agent)?;
        entries.retain(|entry| entry["sessionId"] == session_id);
        if entries.is_empty() && !self.created_mark(agent, session_id)?.exists() {
            return Err(SessionError::NotFound(session_id.to_owned()));
        }
        Ok(entries)
    }

    fn created(&self, agent: &str) -> Result<Vec<String>, SessionError> {
        match fs::read_dir(self.workspace(agent)?.join("created")) {
            Ok(marks) => Ok(marks.filter_map(|mark| mark.ok()?.file_name().into_string().ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes sessions out of the file of those that live.
    fn remove(&mut self, agent: &str, session_ids: &[String]) -> Result<(), SessionError> {
        let mut entries = self.entries(agent)?;
        let before = entries.len();
        entries.retain(|entry| !session_ids.iter().any(|id| entry["sessionId"] == id.as_str()));
        if entries.len() < before {
            let open = self.journal(agent)?;
            open.journal.replace(&entries)?;
            open.is_dirty = false;
        }
        for id in session_ids {
            remove_if_there(&self.created_mark(agent, id)?)?;
        }
        Ok(())
    }

    fn archive_one(&self, agent: &str, session_id: &str, entries: &[Value]) -> Result<(), SessionError> {
        let path = self.archive_path(agent, session_id)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_new(&path, entries)
    }

    fn write(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError> {
        let open = self.journal(agent)?;
        open.journal.append(&entry.line())?;
        open.is_dirty = true;
        Ok(())
    }

    /// The live sessions with their entries, in the order of their ids.
    fn live(&mut self, agent: &str) -> Result<BTreeMap<String, Vec<Value>>, SessionError> {
        let mut sessions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for id in self.created(agent)? {
            sessions.insert(id, Vec::new());
        }
        for entry in self.entries(agent)? {
            let id = entry["sessionId"].as_str().unwrap_or_default().to_owned();
            sessions.entry(id).or_default().push(entry);
        }
        // After a crash between the two steps of archiving, a session is at both places.
        sessions.retain(|id, _| self.usable(agent, id).is_ok());
        Ok(sessions)
    }
}

impl Sessions for DiskSessions {
    fn append(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError> {
        self.usable(agent, &entry.session_id)?;
        match self.write(agent, entry) {
            Err(SessionError::Full) if entry.session_id == SESSION_DEFAULT => {
                self.set_default_aside(agent, entry.timestamp_ms)?;
                self.write(agent, entry)
            }
            written => written,
        }
    }

    fn create(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        match self.existing(agent, session_id) {
            Ok(_) => return Err(SessionError::Exists(session_id.to_owned())),
            Err(SessionError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        if self.created(agent)?.len() >= CREATED_MAX {
            return Err(SessionError::Full);
        }
        let mark = self.created_mark(agent, session_id)?;
        if let Some(folder) = mark.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(mark)?.sync_all()?;
        Ok(())
    }

    fn list(&mut self, agent: &str) -> Result<Vec<Value>, SessionError> {
        let sessions = self.live(agent)?.into_iter();
        let listed = sessions.map(|(id, entries)| {
            let updated = entries.last().map_or(Value::Null, |entry| entry["timestamp"].clone());
            json!({"agent": agent, "sessionId": id, "entries": entries.len(), "updatedAt": updated})
        });
        Ok(listed.collect())
    }

    fn get(&mut self, agent: &str, session_id: &str) -> Result<Vec<Value>, SessionError> {
        self.existing(agent, session_id)
    }

    fn commit(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.existing(agent, session_id)?;
        let open = self.journal(agent)?;
        open.journal.sync()?;
        open.is_dirty = false;
        Ok(())
    }

    fn archive(&mut self, agent: &str, which: &Archived, now_ms: u64) -> Result<usize, SessionError> {
        let due: Vec<(String, Vec<Value>)> = match which {
            Archived::One(id) => vec![(id.clone(), self.existing(agent, id)?)],
            Archived::OlderThan { age_ms } => {
                let limit = now_ms.saturating_sub(*age_ms);
                let is_old = |entry: &Value| entry["timestamp"].as_u64().is_some_and(|time| time < limit);
                let live = self.live(agent)?.into_iter();
                // One that was created and never used has no age.
                live.filter(|(_, entries)| entries.last().is_some_and(is_old)).collect()
            }
        };
        for (id, entries) in &due {
            self.archive_one(agent, id, entries)?;
        }
        let ids: Vec<_> = due.into_iter().map(|(id, _)| id).collect();
        self.remove(agent, &ids)?;
        Ok(ids.len())
    }

    fn delete(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.existing(agent, session_id)?;
        self.remove(agent, &[session_id.to_owned()])
    }

    fn export(&mut self, agent: &str, session_id: &str) -> Result<String, SessionError> {
        self.export_lines(agent, session_id)
    }

    fn import(&mut self, agent: &str, session_id: &str, lines: &str) -> Result<usize, SessionError> {
        self.import_lines(agent, session_id, lines)
    }

    fn owner(&self, agent: &str) -> Result<Option<Owner>, SessionError> {
        self.read_owner(agent)
    }

    fn set_owner(&mut self, agent: &str, owner: &Owner) -> Result<(), SessionError> {
        self.write_owner(agent, owner)
    }

    fn holds_any(&self, agent: &str) -> bool {
        self.is_filled(agent)
    }
}

fn remove_if_there(path: &Path) -> Result<(), SessionError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a session may be called that: with what is put around it, it is a file's name.
pub(crate) fn is_session_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    !id.is_empty() && id.len() <= SESSION_ID_BYTES_MAX && !id.starts_with('.') && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
