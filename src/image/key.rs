//! The key that seals images, in a file that only the operator can read.
//!
//! An image holds code pointers, so a key that seals images is a key to run code in the server. The file is refused
//! unless it belongs to the user of the process, or to root, and no other user may read it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::{ImageError, system};

const KEY_BYTES: usize = 32;

/// A key in hexadecimal digits and a line end, with room for a line end of two characters.
const FILE_BYTES_MAX: u64 = 2 * KEY_BYTES as u64 + 2;

/// A sealing key. It has no `Debug` that shows it.
#[derive(Clone)]
pub(crate) struct Key {
    secret: [u8; KEY_BYTES],
    id: [u8; 8],
}

/// What an operator should hear about a key that was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyWarning {
    /// The key file is in the folder of the images that it seals: a thief of one has the other.
    BesideImages,
}

impl Key {
    /// A key of these bytes.
    pub(crate) fn new(secret: [u8; KEY_BYTES]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"scomp image key id\0");
        context.update(&secret);
        let mut id = [0; 8];
        id.copy_from_slice(&context.finish().as_ref()[..8]);
        Self { secret, id }
    }

    /// A random key that no file holds.
    pub(crate) fn random() -> Result<Self, ImageError> {
        random_bytes().map(Self::new)
    }

    /// Names the key in headers and says nothing about it.
    pub(crate) fn id(&self) -> [u8; 8] {
        self.id
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Writes a new random key to a file that must not exist, readable by its owner alone.
    pub(crate) fn create(path: &Path) -> Result<Self, ImageError> {
        let key = Self::random()?;
        let fail = |error: std::io::Error| problem(path, error.to_string());
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
        let digits: String = key.secret.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(file, "{digits}").and_then(|()| file.sync_all()).map_err(fail)?;
        Ok(key)
    }

    /// Reads a key file, and says what is wrong with its place when images are kept in `images`.
    pub(crate) fn load(path: &Path, images: &Path) -> Result<(Self, Option<KeyWarning>), ImageError> {
        let fail = |error: std::io::Error| problem(path, error.to_string());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(fail)?;
        check_owner(path, &file)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
        let expected = "expected 64 hexadecimal digits";
        let secret = parse(text.trim_end()).ok_or_else(|| problem(path, expected.to_owned()))?;
        let folder = fs::canonicalize(path).map_err(fail)?;
        let is_beside = fs::canonicalize(images).is_ok_and(|images| folder.starts_with(images));
        Ok((Self::new(secret), is_beside.then_some(KeyWarning::BesideImages)))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Key({})", show_id(self.id))
    }
}

/// A key id for people.
pub(super) fn show_id(id: [u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(id))
}

/// Bytes from the system's source of randomness.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], ImageError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| ImageError::Unavailable("the system has no random numbers"))?;
    Ok(bytes)
}

fn check_owner(path: &Path, file: &File) -> Result<(), ImageError> {
    let metadata = file.metadata().map_err(|error| problem(path, error.to_string()))?;
    if !metadata.is_file() {
        return Err(problem(path, "expected a regular file".to_owned()));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o177 != 0 {
        return Err(problem(path, format!("mode {mode:04o}, expected 0600 or 0400")));
    }
    let user = system::user_id();
    if metadata.uid() != 0 && metadata.uid() != user {
        return Err(problem(path, format!("owned by user {}, expected {user}", metadata.uid())));
    }
    Ok(())
}

fn parse(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut secret = [0; KEY_BYTES];
    for (byte, at) in secret.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(secret)
}

fn problem(path: &Path, problem: String) -> ImageError {
    ImageError::KeyFile { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::testing::Folder;
    use super::*;

    fn refusal(path: &Path) -> String {
        let error = Key::load(path, Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.kind(), "ImageKeyFile");
        error.to_string()
    }

    #[test]
    fn created_key_is_loaded_again() {
        let folder = Folder::new("key-created");
        let path = folder.path().join("key");
        let created = Key::create(&path).unwrap();
        let (loaded, warning) = Key::load(&path, Path::new("/nowhere")).unwrap();
        assert_eq!((loaded.secret, loaded.id), (created.secret, created.id));
        assert_eq!(warning, None);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn existing_key_file_is_not_replaced() {
        let folder = Folder::new("key-twice");
        let path = folder.path().join("key");
        Key::create(&path).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(Key::create(&path).unwrap_err().kind(), "ImageKeyFile");
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn key_file_that_others_may_read_is_refused() {
        let folder = Folder::new("key-mode");
        let path = folder.path().join("key");
        Key::create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o644] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refusal(&path).contains("expected 0600"), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert!(Key::load(&path, Path::new("/nowhere")).is_ok());
    }

    #[test]
    fn key_beside_the_images_is_a_warning() {
        let folder = Folder::new("key-beside");
        let below = folder.path().join("keys");
        fs::create_dir(&below).unwrap();
        let path = below.join("key");
        Key::create(&path).unwrap();
        assert_eq!(Key::load(&path, folder.path()).unwrap().1, Some(KeyWarning::BesideImages));
        assert_eq!(Key::load(&path, &below.join("images")).unwrap().1, None);
    }

    #[test]
    fn what_is_not_a_key_file_is_refused() {
        let folder = Folder::new("key-bad");
        let path = folder.path().join("key");
        assert!(refusal(&path).contains("No such file"));
        Key::create(&path).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        refusal(&link);
        assert!(refusal(folder.path()).contains("regular file"));
        for text in ["", "12", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64), &"\u{e9}".repeat(32)] {
            fs::write(&path, text).unwrap();
            refusal(&path);
        }
        fs::write(&path, [0xff; 64]).unwrap();
        refusal(&path);
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let key = Key::new([0xab; KEY_BYTES]);
        assert!(!format!("{key:?}").contains("abab"));
    }
}
