//! Claims, quotas and restarts of the store, without any JavaScript.

use std::time::Duration;

use super::*;
use crate::image::PAGE_BYTES;
use crate::image::build::Scope;

const BUILD: Build = Build { hash: [7; 32], scope: Scope::Executable };

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("scomp-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn settings(&self) -> StateSettings {
        StateSettings { dir: Some(self.0.clone()), takeover_ms: 0, ..StateSettings::default() }
    }

    /// Opens the store, as a server does when it starts.
    fn open(&self) -> FileStore {
        FileStore::open(&self.settings(), &BUILD, 1 << 40, 5_000).unwrap().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn heap(byte: u8) -> Vec<u8> {
    vec![byte; 3 * PAGE_BYTES]
}

/// Adds the record that every session has before its image.
fn add_record(store: &FileStore, id: &str) {
    let id = id.to_owned();
    rows::run_blocking(store.database(), move |connection| {
        connection.execute("INSERT INTO session VALUES (?, 'ann', 'local', NULL, '{}')", [id]).map(drop)
    })
    .unwrap();
}

fn write(store: &FileStore, claim: &mut ImageClaim, byte: u8) -> Result<(), StoreError> {
    let heap = heap(byte);
    store.append(claim, &Snapshot { heap: &heap, roots: b"roots", state: &[byte] }, None)
}

fn create(store: &FileStore, id: &str, slot: u32) -> ImageClaim {
    add_record(store, id);
    store.create(&id.into(), &"ann".into(), slot).unwrap()
}

#[test]
fn store_is_absent_without_a_folder() {
    let opened = FileStore::open(&StateSettings::default(), &BUILD, 1 << 40, 0).unwrap();
    assert!(opened.is_none());
}

#[test]
fn program_without_fixed_addresses_is_refused() {
    let folder = Folder::new("scope");
    let build = Build { scope: Scope::Process, ..BUILD };
    let refused = FileStore::open(&folder.settings(), &build, 1 << 40, 0).unwrap_err();
    assert_eq!(refused.kind(), "ImagesUnavailable");
    assert!(!folder.0.exists());
}

#[test]
fn image_is_read_by_the_next_server() {
    let folder = Folder::new("next");
    let store = folder.open();
    let mut claim = create(&store, "s", 3);
    assert!(!store.contains("s") && store.list().is_empty());
    write(&store, &mut claim, 1).unwrap();
    write(&store, &mut claim, 2).unwrap();
    store.note(&claim, Some(99));
    let used = store.used_bytes();
    store.close().unwrap();
    drop((claim, store));
    let store = folder.open();
    assert_eq!((store.base(), store.used_bytes()), (1 << 40, used));
    let listed = store.list();
    assert_eq!((listed.len(), &*listed[0].id, listed[0].slot, listed[0].wake_at_ms), (1, "s", 3, Some(99)));
    let mut claim = store.claim("s").unwrap();
    let image = store.load(&claim).unwrap();
    assert_eq!((image.heap, image.roots, image.state), (heap(2), b"roots".to_vec(), vec![2]));
    write(&store, &mut claim, 3).unwrap();
    let again = store.claim("s").unwrap();
    assert_eq!(again.epoch, claim.epoch + 1);
    assert_eq!(store.load(&again).unwrap().state, [3]);
}

#[test]
fn killed_server_leaves_sessions_that_are_looked_at() {
    let folder = Folder::new("killed");
    let store = folder.open();
    let mut claim = create(&store, "s", 3);
    write(&store, &mut claim, 1).unwrap();
    // Neither noted nor closed: all that is known is in the image. One more has a record alone.
    add_record(&store, "never_stored");
    drop((claim, store));
    fs::write(folder.0.join("images/orphan.image"), "x").unwrap();
    fs::write(folder.0.join("images/s.image.1.new"), "x").unwrap();
    let store = folder.open();
    let listed = store.list();
    assert_eq!((listed.len(), listed[0].slot, listed[0].wake_at_ms), (1, 3, Some(0)));
    assert_eq!(fs::read_dir(folder.0.join("images")).unwrap().count(), 1);
    let rows = rows::run_blocking(store.database(), |connection| {
        let query = "SELECT count(*), min(expires_at_ms) FROM session";
        connection.query_row(query, [], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))
    });
    assert_eq!(rows.unwrap(), (1, 5_000), "the other is gone, and this one waits for its client");
    assert_eq!(store.load(&store.claim("s").unwrap()).unwrap().state, [1]);
}

#[test]
fn older_claim_writes_nothing() {
    let folder = Folder::new("fenced");
    let store = folder.open();
    let mut first = create(&store, "s", 3);
    write(&store, &mut first, 1).unwrap();
    let mut second = store.claim("s").unwrap();
    assert_eq!(write(&store, &mut first, 2).unwrap_err().kind(), "Fenced");
    assert_eq!(store.load(&second).unwrap().state, [1]);
    write(&store, &mut second, 3).unwrap();
    assert_eq!(store.delete(&["s".into(), "t".into()]), [3]);
    assert_eq!(write(&store, &mut second, 4).unwrap_err().kind(), "Fenced");
    assert_eq!(store.claim("s").unwrap_err().kind(), "NotStored");
    assert_eq!((store.used_bytes(), store.contains("s")), (0, false));
    assert_eq!(fs::read_dir(folder.0.join("images")).unwrap().count(), 0);
}

#[test]
fn image_older_than_what_was_noted_is_refused() {
    let folder = Folder::new("older");
    let store = folder.open();
    let mut claim = create(&store, "s", 3);
    write(&store, &mut claim, 1).unwrap();
    let older = fs::read(store.path("s")).unwrap();
    write(&store, &mut claim, 2).unwrap();
    store.note(&claim, None);
    fs::write(store.path("s"), older).unwrap();
    let refused = store.load(&store.claim("s").unwrap()).unwrap_err();
    assert_eq!(refused.kind(), "ImageTruncated");
    assert_eq!(refused.to_resume_error().kind(), Some("SessionLost"));
}

#[test]
fn full_quota_refuses_images_until_there_is_room() {
    let folder = Folder::new("quota");
    let settings = StateSettings { principal_bytes_max: 20_000, ..folder.settings() };
    let store = FileStore::open(&settings, &BUILD, 1 << 40, 0).unwrap().unwrap();
    let (mut first, mut second) = (create(&store, "s", 3), create(&store, "t", 4));
    write(&store, &mut first, 1).unwrap();
    write(&store, &mut second, 1).unwrap();
    assert_eq!(write(&store, &mut first, 2).unwrap_err().kind(), "DiskQuota");
    let image = store.load(&store.claim("s").unwrap()).unwrap();
    assert_eq!(image.state, [1], "the image before is still there");
    store.delete(&["t".into()]);
    let mut first = store.claim("s").unwrap();
    write(&store, &mut first, 2).unwrap();
}

#[test]
fn folder_that_is_not_writable_leaves_the_image_before() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("readonly");
    let store = folder.open();
    let mut claim = create(&store, "s", 3);
    write(&store, &mut claim, 1).unwrap();
    // A folder in the place of the new file stops root too, unlike a mode.
    let images = folder.0.join("images");
    fs::set_permissions(&images, fs::Permissions::from_mode(0o500)).unwrap();
    fs::rename(&images, folder.0.join("away")).unwrap();
    let refused = write(&store, &mut claim, 2).unwrap_err();
    assert_eq!(refused.kind(), "ImageIo");
    fs::rename(folder.0.join("away"), &images).unwrap();
    fs::set_permissions(&images, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(store.load(&store.claim("s").unwrap()).unwrap().state, [1]);
}

#[test]
fn name_that_is_no_file_name_is_refused() {
    let folder = Folder::new("name");
    let store = folder.open();
    for id in ["", "../s", "a/b", "a.b"] {
        assert!(store.create(&id.into(), &"ann".into(), 1).is_err(), "{id}");
    }
}

#[test]
fn folder_is_free_when_the_store_is_dropped() {
    let folder = Folder::new("free");
    let store = folder.open();
    let busy = FileStore::open(&folder.settings(), &BUILD, 1 << 40, 0).unwrap_err();
    assert_eq!(busy.kind(), "StateLocked");
    drop(store);
    let settings =
        StateSettings { takeover_ms: Duration::from_secs(60).as_millis() as u64, ..folder.settings() };
    assert!(FileStore::open(&settings, &BUILD, 1 << 40, 0).is_ok());
}
