//! The store of one server: a file for each session, and a database beside them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::database::Database;
use super::folder::{IMAGE_SUFFIX, StateFolder, list_images};
use super::rows::{self, ImageRow, STATE_FORMAT, Start};
use super::settings::{Durability, StateSettings};
use super::usage::{DELETED, Entry, EntryState, Quota, Usage};
use super::{ImageClaim, LoadedImage, Store, StoreError, StoredSession};
use crate::image::build::Build;
use crate::image::chain::Expected;
use crate::image::delta::PageRun;
use crate::image::key::Key;
use crate::image::log_file::{self, LogFile, read_log};
use crate::image::record::{HEADER_BYTES, Header, Identity, Snapshot};
use crate::image::seal::Sealer;

/// The epoch of a session that was never read back.
const FIRST_EPOCH: u64 = 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct FileStore {
    images: PathBuf,
    database: Database,
    keys: Vec<Key>,
    build: [u8; 32],
    base: u64,
    durability: log_file::Durability,
    usage: Usage,
    /// Last: the folder is free when all else is done.
    _folder: StateFolder,
}

impl FileStore {
    /// Opens a folder for sessions of this program. `new_base` is where the address windows of a new folder begin; sessions
    /// that were connected are kept until `detached_until_ms`, in milliseconds from 1970.
    pub(crate) fn open(
        settings: &StateSettings,
        build: &Build,
        new_base: u64,
        detached_until_ms: u64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(dir) = &settings.dir else { return Ok(None) };
        build.check_crosses_processes()?;
        let folder = StateFolder::open(dir, settings.takeover())?;
        let key = folder.key(settings.key_file.as_deref())?;
        let mut start = Start::default();
        let database = Database::open("state", Some(&folder.database()), |connection| {
            start = rows::start(connection, new_base)?;
            Ok(())
        })?;
        if start.format > STATE_FORMAT {
            let (path, found) = (dir.clone(), start.format);
            return Err(StoreError::Format { path, found, expected: STATE_FORMAT });
        }
        let store = Self {
            images: folder.images(),
            database,
            keys: vec![key],
            build: build.hash,
            base: start.base,
            durability: match settings.durability {
                Durability::Process => log_file::Durability::Process,
                Durability::Disk => log_file::Durability::Disk,
            },
            usage: Usage::new(Quota {
                principal_bytes_max: settings.principal_bytes_max,
                bytes_max: settings.bytes_max,
            }),
            _folder: folder,
        };
        store.find_images(start, detached_until_ms)?;
        Ok(Some(store))
    }

    /// The database, which has the table of sessions too.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Bytes of all images.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.usage.total()
    }

    /// The server stops in order: what was noted last is true.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        rows::run_blocking(&self.database, |connection| rows::mark_clean(connection))
    }

    /// Nothing of a session is due, as far as is known.
    pub(crate) fn forget_due(&self, id: &str) {
        if let Some(entry) = self.usage.get(id) {
            entry.lock().wake_at_ms = None;
        }
    }

    /// Compares the files with what the database knows of them.
    fn find_images(&self, start: Start, detached_until_ms: u64) -> Result<(), StoreError> {
        let Start { mut images, mut principals, is_clean, .. } = start;
        let mut lost: Vec<Arc<str>> = Vec::new();
        for (id, bytes) in list_images(&self.images)? {
            let row = images.remove(&id);
            let Some(principal) = principals.remove(&id) else {
                // Its session ended, and the server before it could remove the file.
                let _ = fs::remove_file(self.path(&id));
                continue;
            };
            let known = row.or_else(|| self.read_row(&id));
            let Some(mut row) = known else {
                tracing::error!(session = id, "the image of a session is damaged; it cannot be resumed");
                lost.push(Arc::from(id));
                continue;
            };
            if !is_clean {
                // When it has something to do was perhaps not noted: it is looked at.
                row.wake_at_ms = Some(0);
            }
            let ImageRow { slot, epoch, sequence, wake_at_ms } = row;
            let state = EntryState { epoch, sequence, bytes, wake_at_ms };
            self.usage.insert(&id.into(), &principal, slot, state);
        }
        let gone: Vec<Arc<str>> = images.into_keys().map(Into::into).collect();
        // A session that was never stored ended with its server.
        lost.extend(principals.into_keys().map(Into::into));
        rows::run_blocking(&self.database, move |connection| {
            rows::remove(connection, &gone)?;
            rows::end_sessions(connection, &lost)?;
            rows::detach_all(connection, detached_until_ms)
        })
    }

    /// What a row would say about an image that has none, because the server before was killed. Nothing is trusted
    /// here: the image is verified when it is read.
    fn read_row(&self, id: &str) -> Option<ImageRow> {
        let mut bytes = [0; HEADER_BYTES];
        File::open(self.path(id)).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
        let header = Header::decode(&bytes).ok()?;
        let slot = u32::try_from(header.identity.slot).ok()?;
        Some(ImageRow { slot, epoch: FIRST_EPOCH, sequence: 0, wake_at_ms: None })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.images.join(format!("{id}{IMAGE_SUFFIX}"))
    }

    fn identity(&self, entry: &Entry) -> Identity {
        let mut session = [0; 16];
        session.copy_from_slice(&digest(&SHA256, entry.id.as_bytes()).as_ref()[..16]);
        Identity { build: self.build, session, slot: u64::from(entry.slot), base: self.base }
    }

    /// Writes an image under a claim that is known to be the latest.
    fn write(
        &self,
        claim: &mut ImageClaim,
        snapshot: &Snapshot<'_>,
        runs: Option<&[PageRun]>,
    ) -> Result<(u64, u64), StoreError> {
        if let Some(log) = &mut claim.log {
            log.append(snapshot, runs)?;
            return Ok((log.sequence(), log.bytes()));
        }
        let sealer = Sealer::new(&self.keys[0], self.identity(&claim.entry))?;
        let (path, sequence) = (self.path(&claim.entry.id), claim.sequence + 1);
        let log = claim.log.insert(LogFile::create(path, sealer, sequence, snapshot, self.durability)?);
        Ok((log.sequence(), log.bytes()))
    }
}

impl Store for FileStore {
    fn base(&self) -> u64 {
        self.base
    }

    fn create(&self, id: &Arc<str>, principal: &Arc<str>, slot: u32) -> Result<ImageClaim, StoreError> {
        let is_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || self.usage.get(id).is_some() {
            return Err(StoreError::Fenced);
        }
        let state = EntryState { epoch: FIRST_EPOCH, ..EntryState::default() };
        let entry = self.usage.insert(id, principal, slot, state);
        Ok(ImageClaim { entry, epoch: FIRST_EPOCH, sequence: 0, log: None })
    }

    fn claim(&self, id: &str) -> Result<ImageClaim, StoreError> {
        let entry = self.usage.get(id).ok_or(StoreError::NotStored)?;
        let mut state = entry.lock();
        if state.epoch == DELETED || state.bytes == 0 {
            return Err(StoreError::NotStored);
        }
        let (slot, epoch, sequence) = (entry.slot, state.epoch + 1, state.sequence);
        let row = ImageRow { slot, epoch, sequence, wake_at_ms: state.wake_at_ms };
        let key = id.to_owned();
        // Before anything is done under it: numbers of the host depend on an epoch that never comes again.
        rows::run_blocking(&self.database, move |connection| rows::put(connection, &key, row))?;
        state.epoch = epoch;
        drop(state);
        Ok(ImageClaim { entry, epoch, sequence, log: None })
    }

    fn load(&self, claim: &ImageClaim) -> Result<LoadedImage, StoreError> {
        let (identity, sequence) = (self.identity(&claim.entry), claim.sequence);
        let expected = Expected { identity, acknowledged: (sequence > 0).then_some(sequence) };
        let mut heap = Vec::new();
        let path = self.path(&claim.entry.id);
        let restored = read_log(&path, &self.keys, &expected, &mut heap)?;
        claim.entry.lock().sequence = restored.sequence;
        Ok(LoadedImage { heap, roots: restored.roots, state: restored.state })
    }

    fn append(
        &self,
        claim: &mut ImageClaim,
        snapshot: &Snapshot<'_>,
        runs: Option<&[PageRun]>,
    ) -> Result<(), StoreError> {
        let entry = Arc::clone(&claim.entry);
        let mut state = entry.lock_for(claim.epoch)?;
        self.usage.check(&entry.principal)?;
        claim.sequence = claim.sequence.max(state.sequence);
        let (sequence, bytes) = self.write(claim, snapshot, runs)?;
        claim.sequence = sequence;
        self.usage.count(&entry.principal, state.bytes, bytes);
        (state.sequence, state.bytes) = (sequence, bytes);
        Ok(())
    }

    fn note(&self, claim: &ImageClaim, wake_at_ms: Option<u64>) {
        let row = {
            let Ok(mut state) = claim.entry.lock_for(claim.epoch) else { return };
            state.wake_at_ms = wake_at_ms;
            ImageRow { slot: claim.entry.slot, epoch: claim.epoch, sequence: state.sequence, wake_at_ms }
        };
        let id = Arc::clone(&claim.entry.id);
        let queued = self.database.submit(move |connection| {
            if let Err(error) = rows::put(connection, &id, row) {
                tracing::error!(%error, "a stored session was not noted");
            }
        });
        if queued.is_err() {
            tracing::warn!("a stored session was not noted: the state database is busy");
        }
    }

    fn contains(&self, id: &str) -> bool {
        self.usage.get(id).is_some_and(|entry| entry.lock().bytes > 0)
    }

    fn list(&self) -> Vec<StoredSession> {
        let stored = |entry: Arc<Entry>| StoredSession {
            id: Arc::clone(&entry.id),
            slot: entry.slot,
            wake_at_ms: entry.lock().wake_at_ms,
        };
        self.usage.list().into_iter().map(stored).collect()
    }

    fn delete(&self, ids: &[Arc<str>]) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut gone = Vec::new();
        for entry in ids.iter().filter_map(|id| self.usage.get(id)) {
            let bytes = {
                let mut state = entry.lock();
                state.epoch = DELETED;
                let bytes = std::mem::take(&mut state.bytes);
                if bytes > 0 {
                    // Before the row: a file without a row is found again at the next start.
                    let _ = fs::remove_file(self.path(&entry.id));
                }
                slots.push(entry.slot);
                bytes
            };
            self.usage.remove(&entry, bytes);
            gone.push(Arc::clone(&entry.id));
        }
        if !gone.is_empty() {
            // Without room for the job: a row without a file is removed at the next start.
            let _ = self.database.submit(move |connection| {
                if let Err(error) = rows::remove(connection, &gone) {
                    tracing::error!(%error, "rows of deleted sessions were not removed");
                }
            });
        }
        slots
    }
}

#[cfg(test)]
mod tests;
