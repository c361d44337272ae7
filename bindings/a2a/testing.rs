//! A folder for a test, gone with it.

use std::path::{Path, PathBuf};

/// A folder of its own below the system's temporary one.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("a2a-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind spoils no other test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
