//! A folder of files for one test, gone when it is over.

use std::path::{Path, PathBuf};

pub struct Folder(PathBuf);

impl Folder {
    /// A folder with these files; their names may have folders in them.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("scomp-test-{}", uuid::Uuid::new_v4())));
        std::fs::create_dir_all(&folder.0).unwrap();
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    /// A copy of another folder, for a test that writes into it.
    pub fn copy_of(original: &Path) -> Self {
        let folder = Self::with(&[]);
        copy(original, &folder.0);
        folder
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
