//! The state folder: one server at a time, readable by its owner alone, and the key that seals what is in it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::StoreError;
use crate::image::key::{Key, KeyWarning};

/// How often a server that waits for the folder tries again.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The key of a server whose operator has chosen none.
const OWN_KEY: &str = "key";

/// The folder, as long as this lives.
#[derive(Debug)]
pub(super) struct StateFolder {
    path: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Makes the folder if it is missing, and takes it, from a server that is about to stop if need be.
    pub(super) fn open(path: &Path, takeover: Duration) -> Result<Self, StoreError> {
        make_folder(path)?;
        let lock = take_lock(&path.join("lock"), path, takeover)?;
        make_folder(&path.join("images"))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("state.sqlite")
    }

    /// The key of the operator's file; without one, a key of the folder's own, which is made when it is missing.
    pub(super) fn key(&self, chosen: Option<&Path>) -> Result<Key, StoreError> {
        let own = self.path.join(OWN_KEY);
        let file = chosen.unwrap_or(&own);
        if chosen.is_none() && !file.exists() {
            Key::create(file)?;
        }
        let (key, warning) = Key::load(file, &self.path)?;
        match warning {
            None => {}
            Some(KeyWarning::BesideImages) => tracing::warn!(
                file = %file.display(),
                "the key of the stored sessions is in their own folder: a copy of the folder can be read and forged; \
                 set state.key_file to a file elsewhere"
            ),
        }
        Ok(key)
    }
}

fn problem(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Folder { path: path.to_owned(), problem: error.to_string() }
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| problem(path, &error))
}

fn take_lock(file: &Path, folder: &Path, takeover: Duration) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut lock = options.open(file).map_err(|error| problem(file, &error))?;
    let deadline = Instant::now() + takeover;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = std::io::Read::by_ref(&mut lock).take(32).read_to_string(&mut text);
                let owner =
                    read.ok().map(|_| format!(" (process {})", text.trim())).filter(|_| !text.is_empty());
                return Err(StoreError::Locked { path: folder.to_owned(), owner });
            }
            Err(TryLockError::Error(error)) => return Err(problem(file, &error)),
        }
    }
    // For a person who wonders; nothing depends on it.
    let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    Ok(lock)
}

/// The files of images in a folder, by the ids of their sessions, with their lengths. What a write that was cut short
/// has left is removed.
pub(super) fn list_images(folder: &Path) -> Result<Vec<(String, u64)>, StoreError> {
    let entries = fs::read_dir(folder).map_err(|error| problem(folder, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| problem(folder, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(IMAGE_SUFFIX) {
            Some(id) => found.push((id.to_owned(), entry.metadata().map_or(0, |metadata| metadata.len()))),
            None if name.ends_with(".new") => drop(fs::remove_file(entry.path())),
            None => {}
        }
    }
    Ok(found)
}

/// How the names of image files end.
pub(super) const IMAGE_SUFFIX: &str = ".image";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("scomp-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn folder_has_one_server_at_a_time() {
        let path = folder("lock");
        let first = StateFolder::open(&path, Duration::ZERO).unwrap();
        let refused = StateFolder::open(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), "StateLocked");
        let expected = format!("is in use by another server (process {})", std::process::id());
        assert!(refused.to_string().ends_with(&expected), "{refused}");
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || StateFolder::open(&path, Duration::from_secs(60)).is_ok()
        });
        drop(first);
        assert!(waiting.join().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn own_key_is_made_once() {
        let path = folder("key");
        let state = StateFolder::open(&path, Duration::ZERO).unwrap();
        let (first, second) = (state.key(None).unwrap(), state.key(None).unwrap());
        assert_eq!(first.id(), second.id());
        let missing = state.key(Some(&path.join("other"))).unwrap_err();
        assert_eq!(missing.kind(), "ImageKeyFile");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn unwritable_place_is_named() {
        let refused = StateFolder::open(Path::new("/proc/state"), Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), "StateFolder");
        assert!(refused.to_string().starts_with("/proc/state: "), "{refused}");
    }
}
