//! The owner of a workspace: the file `agents/{agent}/owner`, written with the first session.
//!
//! A workspace without sessions has no owner, so that a name that left nothing behind is free again.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use super::super::journal::write_new;
use super::super::owner::Owner;
use super::{DiskSessions, JOURNAL, SessionError};

/// The file that names the owner.
const OWNER: &str = "owner";

/// Owners that are known without a look at the disk; with one more all are read again.
const OWNERS_CACHED_MAX: usize = 4096;

/// The owners that were written last, by agent.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<String, Owner>);

impl DiskSessions {
    /// Who owns a workspace that holds sessions.
    pub(super) fn read_owner(&self, agent: &str) -> Result<Option<Owner>, SessionError> {
        let folder = self.workspace(agent)?;
        if !holds_sessions(&folder) {
            return Ok(None);
        }
        match fs::read(folder.join(OWNER)) {
            // A file that cannot be read must not make the workspace free.
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|_| SessionError::Corrupt { line: 1 })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn write_owner(&mut self, agent: &str, owner: &Owner) -> Result<(), SessionError> {
        let folder = self.workspace(agent)?;
        if self.owners.0.get(agent) == Some(owner) && folder.join(OWNER).exists() {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        let line = serde_json::to_value(owner).map_err(io::Error::other)?;
        write_new(&folder.join(OWNER), &[line])?;
        if self.owners.0.len() >= OWNERS_CACHED_MAX {
            self.owners.0.clear();
        }
        self.owners.0.insert(agent.to_owned(), owner.clone());
        Ok(())
    }

    pub(super) fn is_filled(&self, agent: &str) -> bool {
        self.workspace(agent).is_ok_and(|folder| holds_sessions(&folder))
    }
}

fn holds_sessions(folder: &Path) -> bool {
    let has_file = |name: &str| fs::read_dir(folder.join(name)).is_ok_and(|mut files| files.next().is_some());
    let journal = fs::metadata(folder.join(JOURNAL));
    journal.is_ok_and(|journal| journal.len() > 0) || has_file("created") || has_file("archive")
}
