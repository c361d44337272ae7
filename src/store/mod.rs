//! Sessions on disk: their images, and who may write them.
//!
//! A [`Store`] keeps the newest images of sessions beyond the life of a process. A process *claims* a session before it
//! writes: the claim has an *epoch*, higher than that of any claim before, and a write under an older one is refused. So
//! a store may be shared by several nodes, of which one at a time owns a session. The *slot* of a session, the window
//! of addresses that its heap works in, and the place where all windows begin belong to the store.
//!
//! [`FileStore`] is the store of one server: a folder with a file for each session ([`LogFile`](crate::image::log_file)),
//! and a SQLite database with what has to be known without reading them. Only one process at a time has the folder.

pub(crate) mod database;
mod error;
mod files;
mod folder;
mod rows;
mod settings;
mod usage;

use std::sync::Arc;

use crate::image::delta::PageRun;
use crate::image::log_file::LogFile;
use crate::image::record::Snapshot;
pub(crate) use error::StoreError;
pub(crate) use files::FileStore;
#[cfg(test)]
pub(crate) use rows::create_tables;
pub use settings::{Durability, StateSettings};
use usage::Entry;

/// A session that is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredSession {
    pub(crate) id: Arc<str>,
    /// The number of its address window.
    pub(crate) slot: u32,
    /// When it has something to do by itself, in milliseconds from 1970.
    pub(crate) wake_at_ms: Option<u64>,
}

/// The right to write the images of a session. See the module.
#[derive(Debug)]
pub(crate) struct ImageClaim {
    entry: Arc<Entry>,
    /// Higher than that of any claim before.
    pub(crate) epoch: u64,
    /// The newest sequence that is known to have been stored.
    sequence: u64,
    /// Absent until the first write under this claim.
    log: Option<LogFile>,
}

impl ImageClaim {
    pub(crate) fn slot(&self) -> u32 {
        self.entry.slot
    }
}

/// The image of a session, as it was read and verified.
#[derive(Debug)]
pub(crate) struct LoadedImage {
    pub(crate) heap: Vec<u8>,
    pub(crate) roots: Vec<u8>,
    pub(crate) state: Vec<u8>,
}

/// See the module. Reading and claiming may take the time of a disk; [`Self::append`] is a write to the page cache.
pub(crate) trait Store: std::fmt::Debug + Send + Sync {
    /// Where the address windows of all its sessions begin.
    fn base(&self) -> u64;

    /// The claim of a new session, which has no image yet.
    fn create(&self, id: &Arc<str>, principal: &Arc<str>, slot: u32) -> Result<ImageClaim, StoreError>;

    /// Claims a session that is stored. What held it before can write nothing more.
    fn claim(&self, id: &str) -> Result<ImageClaim, StoreError>;

    /// Reads the newest image of a session.
    fn load(&self, claim: &ImageClaim) -> Result<LoadedImage, StoreError>;

    /// Writes an image: `runs` are the pages that differ from the one before, if that is known. After an error the
    /// image before is still the newest.
    fn append(
        &self,
        claim: &mut ImageClaim,
        snapshot: &Snapshot<'_>,
        runs: Option<&[PageRun]>,
    ) -> Result<(), StoreError>;

    /// Remembers how far the images go, and when the session has something to do by itself. Not waited for.
    fn note(&self, claim: &ImageClaim, wake_at_ms: Option<u64>);

    /// Whether there is an image of that session.
    fn contains(&self, id: &str) -> bool;

    /// All sessions that have an image.
    fn list(&self) -> Vec<StoredSession>;

    /// Removes sessions. Returns their slots, which are free then; those that are not stored are passed over.
    fn delete(&self, ids: &[Arc<str>]) -> Vec<u32>;
}
