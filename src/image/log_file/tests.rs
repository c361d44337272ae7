//! A log on disk: appended, compacted, read back, and its failures.

use std::os::unix::fs::{MetadataExt, symlink};

use super::super::delta::changed_runs;
use super::super::record::Identity;
use super::super::testing::{Folder, heap};
use super::*;

const IDENTITY: Identity = Identity { build: [1; 32], session: [2; 16], slot: 3, base: 0x1000_0000 };

struct Log {
    _folder: Folder,
    path: PathBuf,
    key: Key,
    file: LogFile,
    last: Vec<u8>,
}

fn snapshot<'a>(heap: &'a [u8], state: &'a [u8]) -> Snapshot<'a> {
    Snapshot { heap, roots: b"roots", state }
}

impl Log {
    fn new(name: &str, heap: Vec<u8>, durability: Durability) -> Self {
        let folder = Folder::new(name);
        let path = folder.path().join("session");
        let key = Key::random().unwrap();
        let sealer = Sealer::new(&key, IDENTITY).unwrap();
        let file = LogFile::create(path.clone(), sealer, 1, &snapshot(&heap, b"1"), durability).unwrap();
        Self { _folder: folder, path, key, file, last: heap }
    }

    fn append(&mut self, heap: Vec<u8>, state: &[u8]) -> Result<(), ImageError> {
        let runs = changed_runs(&self.last, &heap);
        self.last = heap;
        self.file.append(&snapshot(&self.last, state), Some(&runs))
    }

    fn read(&self) -> (Vec<u8>, Restored) {
        let mut heap = Vec::new();
        let expected = Expected { identity: IDENTITY, acknowledged: Some(self.file.sequence()) };
        let restored = read_log(&self.path, std::slice::from_ref(&self.key), &expected, &mut heap).unwrap();
        (heap, restored)
    }
}

#[test]
fn log_reads_back_after_each_append() {
    for durability in [Durability::Process, Durability::Disk] {
        let mut log = Log::new("log-appends", heap(&[9; 40]), durability);
        for step in 2..30u8 {
            let mut pages = vec![9; 40 + usize::from(step % 3)];
            pages[usize::from(step)] = step;
            log.append(heap(&pages), &[step]).unwrap();
            let (heap, restored) = log.read();
            assert!(heap == log.last);
            assert_eq!((restored.sequence, restored.state), (u64::from(step), vec![step]));
            assert_eq!(restored.log_bytes, log.file.bytes());
            assert_eq!(fs::metadata(&log.path).unwrap().len(), log.file.bytes());
        }
    }
}

#[test]
fn deltas_that_outweigh_the_image_are_compacted() {
    let mut log = Log::new("log-compacts", heap(&[1; 8]), Durability::Process);
    // Held open, so that its number is not given to a later file.
    let held = File::open(&log.path).unwrap();
    let first = held.metadata().unwrap().ino();
    let mut longest = 0;
    for step in 0..50u8 {
        let mut pages = [1; 8];
        pages[usize::from(step) % 8] = step;
        log.append(heap(&pages), b"").unwrap();
        longest = longest.max(log.file.bytes());
    }
    assert!(longest <= 2 * log.file.full_bytes, "{longest}");
    assert_ne!(fs::metadata(&log.path).unwrap().ino(), first, "a new file took its place");
    assert_eq!(fs::read_dir(log.path.parent().unwrap()).unwrap().count(), 1);
    assert!(log.read().0 == log.last);
}

#[test]
fn log_is_readable_by_its_owner_alone() {
    let log = Log::new("log-mode", heap(&[1]), Durability::Process);
    assert_eq!(fs::metadata(&log.path).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn full_disk_keeps_the_log_and_the_next_record_is_whole() {
    let mut log = Log::new("log-full", heap(&[1; 8]), Durability::Process);
    let before = fs::read(&log.path).unwrap();
    let real =
        std::mem::replace(&mut log.file.file, OpenOptions::new().write(true).open("/dev/full").unwrap());
    assert_eq!(log.append(heap(&[1, 2, 1, 1, 1, 1, 1, 1]), b"lost").unwrap_err().kind(), "DiskFull");
    log.file.file = real;
    assert_eq!(fs::read(&log.path).unwrap(), before);
    assert_eq!(log.read().1.sequence, 1);
    // The page that the failed record would have held is in no delta any more.
    log.append(heap(&[1, 2, 1, 1, 1, 1, 1, 3]), b"kept").unwrap();
    let (heap, restored) = log.read();
    assert!(heap == log.last);
    assert_eq!((restored.sequence, restored.state), (2, b"kept".to_vec()));
}

#[test]
fn changes_that_are_not_known_make_a_full_image() {
    let mut log = Log::new("log-unknown", heap(&[1; 8]), Durability::Process);
    log.last = heap(&[2; 8]);
    log.file.append(&snapshot(&log.last, b""), None).unwrap();
    assert!(log.read().0 == log.last);
    assert_eq!(log.file.delta_bytes, 0);
}

#[test]
fn folder_that_is_gone_is_an_error() {
    let mut log = Log::new("log-gone", heap(&[1; 4]), Durability::Process);
    fs::remove_dir_all(log.path.parent().unwrap()).unwrap();
    let error = log.file.append(&snapshot(&heap(&[2; 4]), b""), None).unwrap_err();
    assert_eq!(error.kind(), "ImageIo");
    assert!(error.to_string().starts_with("write image: "), "{error}");
}

#[test]
fn what_is_not_a_log_is_refused() {
    let log = Log::new("log-bad", heap(&[1]), Durability::Process);
    let keys = [log.key.clone()];
    let expected = Expected { identity: IDENTITY, acknowledged: None };
    let refusal = |path: &Path| read_log(path, &keys, &expected, &mut Vec::new()).unwrap_err().kind();
    let folder = log.path.parent().unwrap();
    assert_eq!(refusal(folder), "ImageForged");
    assert_eq!(refusal(&folder.join("missing")), "ImageIo");
    let link = folder.join("link");
    symlink(&log.path, &link).unwrap();
    assert_eq!(refusal(&link), "ImageIo");
    let large = folder.join("large");
    let sparse = |bytes| File::create(&large).unwrap().set_len(bytes).unwrap();
    sparse(LOG_BYTES_MAX + 1);
    assert_eq!(refusal(&large), "ImageTooLarge");
    sparse(LOG_BYTES_MAX);
    assert_eq!(refusal(&large), "ImageForged");
}
