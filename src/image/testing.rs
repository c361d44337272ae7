//! What the tests of images share: a folder that goes away, and a heap with small changes.

use std::path::{Path, PathBuf};

use super::PAGE_BYTES;

/// A folder of one test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("scomp-image-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A heap of whole pages, the first bytes of each as given; a page of 0 is all zeros.
pub(super) fn heap(pages: &[u8]) -> Vec<u8> {
    pages.iter().flat_map(|byte| [[*byte; 16].as_slice(), &[0; PAGE_BYTES - 16]].concat()).collect()
}
