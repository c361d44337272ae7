//! The limit of images, and the folders that are refused.

use super::*;

fn heap(pages: usize, byte: u8) -> Vec<u8> {
    vec![byte; pages * PAGE_BYTES]
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("scomp-store-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn images_fill_the_limit_and_not_more() {
    let folder = folder();
    let store = ImageStore::open(Some(&folder), 2 * HEAP_STEP_BYTES).unwrap();
    let first = store.write(&heap(16, 1), b"").unwrap();
    let mut second = store.write(&heap(3, 2), b"").unwrap();
    assert_eq!(store.used_bytes(), 2 * HEAP_STEP_BYTES);
    assert_eq!(store.write(&heap(1, 3), b"").unwrap_err().kind(), "DiskFull");
    assert_eq!(second.update(&heap(17, 2), b"").unwrap_err().kind(), "DiskFull");
    second.update(&heap(16, 4), b"").unwrap();
    assert_eq!(second.read().unwrap(), heap(16, 4));
    drop(first);
    assert_eq!(store.used_bytes(), HEAP_STEP_BYTES);
    let third = store.write(&heap(16, 5), b"").unwrap();
    drop((second, third));
    assert_eq!(store.used_bytes(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn state_is_kept_beside_the_heap() {
    let folder = folder();
    let store = ImageStore::open(Some(&folder), 1 << 20).unwrap();
    let stored = store.write(&heap(1, 1), b"state").unwrap();
    assert_eq!(stored.read_state().unwrap(), b"state");
    assert_eq!(stored.stored_bytes(), HEAP_STEP_BYTES + PAGE_BYTES as u64);
    drop(stored);
    clear();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn folder_that_is_missing_is_refused_with_its_name() {
    let error = ImageStore::open(Some(Path::new("/nonexistent/images")), 1 << 20).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/images: "), "{error}");
}

#[test]
fn folder_in_memory_is_used_only_when_chosen() {
    let shared = Path::new("/dev/shm");
    if is_in_memory(shared) {
        assert!(ImageStore::open(Some(shared), 1 << 20).is_ok());
    }
    assert!(!is_in_memory(Path::new("/proc/self/nonexistent")));
}

#[test]
fn failures_are_logged_once_a_minute() {
    let store = ImageStore::new(Path::new("/"), 0);
    assert!(store.may_warn(10));
    assert!(!store.may_warn(69));
    assert!(store.may_warn(70));
}
