//! The owner of a workspace: the file `agents/{agent}/owner`, written with the first session.
//!
//! A workspace without sessions has no owner, so that the name of an agent without sessions is free
//! again.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use super::super::journal::replace_file;
use super::super::owner::Owner;
use super::SessionError;
use super::disk::{DiskSessionStore, JOURNAL};

const OWNER: &str = "owner";

/// Cached owners; for one more the cache is cleared.
const OWNERS_CACHED_MAX: usize = 4096;

/// The owners that were written last, by agent: their files need no rewrite.
#[derive(Debug, Default)]
pub(super) struct OwnerCache(HashMap<String, Owner>);

impl DiskSessionStore {
    /// Returns the owner of a workspace that has sessions.
    pub(super) fn read_owner(&self, agent: &str) -> Result<Option<Owner>, SessionError> {
        let folder = self.workspace(agent)?;
        if !has_session_files(&folder) {
            return Ok(None);
        }
        match fs::read(folder.join(OWNER)) {
            // A corrupt file must not make the workspace free.
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
        replace_file(&folder.join(OWNER), &[line])?;
        if self.owners.0.len() >= OWNERS_CACHED_MAX {
            self.owners.0.clear();
        }
        self.owners.0.insert(agent.to_owned(), owner.clone());
        Ok(())
    }

    pub(super) fn is_occupied(&self, agent: &str) -> bool {
        self.workspace(agent).is_ok_and(|folder| has_session_files(&folder))
    }
}

fn has_session_files(folder: &Path) -> bool {
    let has_file = |name: &str| fs::read_dir(folder.join(name)).is_ok_and(|mut files| files.next().is_some());
    let journal = fs::metadata(folder.join(JOURNAL));
    journal.is_ok_and(|journal| journal.len() > 0) || has_file("created") || has_file("archive")
}
