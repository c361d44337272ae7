//! Sessions on disk: `agents/{agent}/session.jsonl`, one entry per line.
//!
//! A session is the entries with its id. One that was created and has no entry yet is an empty file
//! in `created/`; an archived one is `archive/session-{id}.jsonl`, and its id is not used again.
//! Names that could lead out of a workspace are refused before a path is built from them.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::content::ArchiveSelection;
use super::super::journal::{JOURNAL_BYTES_MAX, Journal, has_lock_file, replace_file};
use super::super::owner::Owner;
use super::super::wire::is_agent_name;
use super::owner::OwnerCache;
use super::{Durability, Entry, SESSION_DEFAULT, SessionError, SessionStore, is_session_id};

/// The file of the live sessions.
pub(super) const JOURNAL: &str = "session.jsonl";

/// Sessions of one agent that were created and are still empty; one more is refused.
pub(crate) const CREATED_MAX: usize = 1000;

/// Journals that are kept open; for one more agent all are closed.
pub(super) const JOURNALS_OPEN_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct DiskSessionStore {
    /// The folder `agents`, with a workspace per agent.
    root: PathBuf,
    durability: Durability,
    pub(super) journal_bytes_max: u64,
    open: HashMap<String, OpenJournal>,
    pub(super) owners: OwnerCache,
}

#[derive(Debug)]
pub(super) struct OpenJournal {
    pub(super) journal: Journal,
    pub(super) is_dirty: bool,
}

impl DiskSessionStore {
    /// Creates a store in the folder `state`, which is created when it is needed.
    pub(crate) fn new(state: &Path, durability: Durability) -> Self {
        let journal_bytes_max = JOURNAL_BYTES_MAX;
        Self {
            root: state.join("agents"),
            durability,
            journal_bytes_max,
            open: HashMap::new(),
            owners: OwnerCache::default(),
        }
    }

    /// Creates a store with a low limit.
    #[cfg(test)]
    pub(super) fn with_bytes_max(state: &Path, journal_bytes_max: u64) -> Self {
        Self { journal_bytes_max, ..Self::new(state, Durability::Always) }
    }

    /// Syncs appended entries if their acknowledgement must wait for that.
    pub(crate) fn sync_before_ack(&mut self) -> io::Result<()> {
        match self.durability {
            Durability::Always => self.sync(),
            Durability::OnCommit => Ok(()),
        }
    }

    /// Syncs everything.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        for open in self.open.values_mut().filter(|open| open.is_dirty) {
            open.journal.sync()?;
            open.is_dirty = false;
        }
        Ok(())
    }

    pub(super) fn workspace(&self, agent: &str) -> Result<PathBuf, SessionError> {
        // The registry has checked the name. This check limits the damage of a mistake there.
        if is_agent_name(agent) { Ok(self.root.join(agent)) } else { Err(SessionError::BadId) }
    }

    pub(super) fn journal(&mut self, agent: &str) -> Result<&mut OpenJournal, SessionError> {
        let path = self.workspace(agent)?.join(JOURNAL);
        if self.open.get(agent).is_some_and(|open| !open.journal.is_current()) {
            // Closed before it is opened again, because of our own lock.
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

    fn created_marker(&self, agent: &str, session_id: &str) -> Result<PathBuf, SessionError> {
        Ok(self.workspace(agent)?.join("created").join(session_id))
    }

    pub(super) fn archive_path(&self, agent: &str, session_id: &str) -> Result<PathBuf, SessionError> {
        Ok(self.workspace(agent)?.join("archive").join(format!("session-{session_id}.jsonl")))
    }

    /// Refuses invalid ids and those of archived sessions.
    fn check_usable(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        if !is_session_id(session_id) {
            return Err(SessionError::BadId);
        }
        if self.archive_path(agent, session_id)?.exists() {
            return Err(SessionError::Expired(session_id.to_owned()));
        }
        Ok(())
    }

    /// Returns all entries of an agent, without creating its file.
    pub(super) fn entries(&mut self, agent: &str) -> Result<Vec<Value>, SessionError> {
        let path = self.workspace(agent)?.join(JOURNAL);
        if path.exists() || has_lock_file(&path) {
            self.journal(agent)?.journal.entries()
        } else {
            Ok(Vec::new())
        }
    }

    /// Returns the entries of an existing session.
    pub(super) fn session_entries(
        &mut self,
        agent: &str,
        session_id: &str,
    ) -> Result<Vec<Value>, SessionError> {
        self.check_usable(agent, session_id)?;
        let mut entries = self.entries(agent)?;
        entries.retain(|entry| entry["sessionId"] == session_id);
        if entries.is_empty() && !self.created_marker(agent, session_id)?.exists() {
            return Err(SessionError::NotFound(session_id.to_owned()));
        }
        Ok(entries)
    }

    fn empty_sessions(&self, agent: &str) -> Result<Vec<String>, SessionError> {
        match fs::read_dir(self.workspace(agent)?.join("created")) {
            Ok(markers) => {
                Ok(markers.filter_map(|marker| marker.ok()?.file_name().into_string().ok()).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes sessions from the journal.
    pub(super) fn remove(&mut self, agent: &str, session_ids: &[String]) -> Result<(), SessionError> {
        let mut entries = self.entries(agent)?;
        let before = entries.len();
        entries.retain(|entry| !session_ids.iter().any(|id| entry["sessionId"] == id.as_str()));
        if entries.len() < before {
            let open = self.journal(agent)?;
            open.journal.replace(&entries)?;
            open.is_dirty = false;
        }
        for id in session_ids {
            remove_if_exists(&self.created_marker(agent, id)?)?;
        }
        Ok(())
    }

    pub(super) fn archive_one(
        &self,
        agent: &str,
        session_id: &str,
        entries: &[Value],
    ) -> Result<(), SessionError> {
        let path = self.archive_path(agent, session_id)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        replace_file(&path, entries)
    }

    fn append_to_journal(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError> {
        let open = self.journal(agent)?;
        open.journal.append(&entry.to_json())?;
        open.is_dirty = true;
        Ok(())
    }

    /// Returns the live sessions with their entries, by id.
    fn live_sessions(&mut self, agent: &str) -> Result<BTreeMap<String, Vec<Value>>, SessionError> {
        let mut sessions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for id in self.empty_sessions(agent)? {
            sessions.insert(id, Vec::new());
        }
        for entry in self.entries(agent)? {
            let id = entry["sessionId"].as_str().unwrap_or_default().to_owned();
            sessions.entry(id).or_default().push(entry);
        }
        // After a crash between the two steps of archiving, a session is in both places.
        sessions.retain(|id, _| self.check_usable(agent, id).is_ok());
        Ok(sessions)
    }
}

impl SessionStore for DiskSessionStore {
    fn append(&mut self, agent: &str, entry: &Entry) -> Result<(), SessionError> {
        self.check_usable(agent, &entry.session_id)?;
        match self.append_to_journal(agent, entry) {
            Err(SessionError::Full) if entry.session_id == SESSION_DEFAULT => {
                self.rotate_default_session(agent, entry.timestamp_ms)?;
                self.append_to_journal(agent, entry)
            }
            result => result,
        }
    }

    fn create(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        match self.session_entries(agent, session_id) {
            Ok(_) => return Err(SessionError::Exists(session_id.to_owned())),
            Err(SessionError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        if self.empty_sessions(agent)?.len() >= CREATED_MAX {
            return Err(SessionError::Full);
        }
        let marker = self.created_marker(agent, session_id)?;
        if let Some(folder) = marker.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(marker)?.sync_all()?;
        Ok(())
    }

    fn list(&mut self, agent: &str) -> Result<Vec<Value>, SessionError> {
        let sessions = self.live_sessions(agent)?.into_iter();
        let listed = sessions.map(|(id, entries)| {
            let updated = entries.last().map_or(Value::Null, |entry| entry["timestamp"].clone());
            json!({"agent": agent, "sessionId": id, "entries": entries.len(), "updatedAt": updated})
        });
        Ok(listed.collect())
    }

    fn get(&mut self, agent: &str, session_id: &str) -> Result<Vec<Value>, SessionError> {
        self.session_entries(agent, session_id)
    }

    fn commit(&mut self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.session_entries(agent, session_id)?;
        let open = self.journal(agent)?;
        open.journal.sync()?;
        open.is_dirty = false;
        Ok(())
    }

    fn archive(
        &mut self,
        agent: &str,
        selection: &ArchiveSelection,
        now_ms: u64,
    ) -> Result<usize, SessionError> {
        let due: Vec<(String, Vec<Value>)> = match selection {
            ArchiveSelection::One(id) => vec![(id.clone(), self.session_entries(agent, id)?)],
            ArchiveSelection::OlderThan { age_ms } => {
                let limit = now_ms.saturating_sub(*age_ms);
                let is_old = |entry: &Value| entry["timestamp"].as_u64().is_some_and(|time| time < limit);
                let live = self.live_sessions(agent)?.into_iter();
                // An empty session has no age.
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
        self.session_entries(agent, session_id)?;
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

    fn has_sessions(&self, agent: &str) -> bool {
        self.is_occupied(agent)
    }
}

pub(super) fn remove_if_exists(path: &Path) -> Result<(), SessionError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
