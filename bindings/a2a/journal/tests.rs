//! Journals after crashes and changes by other processes.

use serde_json::json;

use super::super::testing::Folder;
use super::*;

fn entry(number: usize) -> Value {
    json!({"timestamp": number, "role": "user", "content": "x", "sessionId": "s", "id": format!("m{number}")})
}

/// A low limit, for tests.
const BYTES_MAX: u64 = 4096;

fn open(path: &Path) -> Result<Journal, SessionError> {
    Journal::open(path, BYTES_MAX)
}

fn write(folder: &Folder, text: &[u8]) -> PathBuf {
    let path = folder.path().join("a/session.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn appended_entries_are_read_after_reopening() {
    let folder = Folder::new();
    let path = folder.path().join("a/session.jsonl");
    let mut journal = open(&path).unwrap();
    journal.append(&entry(1)).unwrap();
    journal.append(&entry(2)).unwrap();
    assert_eq!(journal.entries().unwrap(), [entry(1), entry(2)]);
    drop(journal);
    assert_eq!(open(&path).unwrap().entries().unwrap(), [entry(1), entry(2)]);
}

/// A crash may cut the file at any byte: the lines before the cut remain, and the next one is a
/// line of its own.
#[test]
fn file_cut_anywhere_keeps_every_whole_line() {
    let lines = [entry(1), entry(2), entry(3)].map(|entry| to_line(&entry));
    let whole = lines.concat();
    for cut in 0..=whole.len() {
        let folder = Folder::new();
        let path = write(&folder, &whole.as_bytes()[..cut]);
        let mut journal = open(&path).unwrap();
        journal.append(&entry(9)).unwrap();
        let found = Journal::entries(&mut journal).unwrap();
        let ends: Vec<usize> = (1..=3).map(|count| lines[..count].concat().len()).collect();
        // A line that lacks only its break is complete.
        let kept = ends.iter().filter(|end| cut + 1 >= **end).count();
        assert_eq!(found.len(), kept + 1, "cut at {cut}");
        assert_eq!(found.last(), Some(&entry(9)));
    }
}

#[test]
fn damage_before_the_last_line_is_an_error() {
    let good = to_line(&entry(1));
    let damaged: [(&[u8], usize); 5] = [
        (b"{\"timestamp\":1,\"role\":\"user\"\nnot json\n", 1),
        (b"{\"timestamp\":1,\"role\":\"user\"\nnot json", 1),
        (b"not json\n", 1),
        (b"{\"no\":\"session\"}\n", 1),
        (b"\xff\xfe\n", 1),
    ];
    for (text, line) in damaged {
        for before in ["", &good] {
            let folder = Folder::new();
            let text = [before.as_bytes(), text].concat();
            let path = write(&folder, &text);
            let expected = line + usize::from(!before.is_empty());
            match open(&path).unwrap_err() {
                SessionError::Corrupt { line } => assert_eq!(line, expected),
                other => panic!("{other}"),
            }
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }
}

#[test]
fn lock_file_or_lock_of_another_process_is_respected() {
    let folder = Folder::new();
    let path = write(&folder, b"");
    let lock_file = folder.path().join("a/session.jsonl.lock");
    fs::write(&lock_file, b"").unwrap();
    assert!(matches!(open(&path), Err(SessionError::Locked)));
    fs::remove_file(&lock_file).unwrap();
    let journal = open(&path).unwrap();
    assert!(matches!(open(&path), Err(SessionError::Locked)), "opened twice");
    fs::write(&lock_file, b"").unwrap();
    assert!(!journal.is_current(), "a lock file that appears later");
}

#[test]
fn change_by_another_process_is_detected() {
    let folder = Folder::new();
    let path = write(&folder, b"");
    let mut journal = open(&path).unwrap();
    journal.append(&entry(1)).unwrap();
    assert!(journal.is_current());
    fs::write(&path, b"{}").unwrap();
    assert!(!journal.is_current());
    fs::remove_file(&path).unwrap();
    assert!(!journal.is_current());
}

#[test]
fn replaced_file_accepts_further_entries() {
    let folder = Folder::new();
    let mut journal = open(&write(&folder, b"")).unwrap();
    for number in 0..5 {
        journal.append(&entry(number)).unwrap();
    }
    journal.replace(&[entry(3)]).unwrap();
    journal.append(&entry(7)).unwrap();
    assert_eq!(journal.entries().unwrap(), [entry(3), entry(7)]);
    assert!(journal.is_current());
}

#[test]
fn entry_past_the_byte_limit_is_refused() {
    let folder = Folder::new();
    let mut journal = open(&write(&folder, b"")).unwrap();
    let overhead = to_line(&json!({"sessionId": "s", "content": ""})).len();
    let rest = usize::try_from(BYTES_MAX).unwrap() - overhead;
    assert!(matches!(
        journal.append(&json!({"sessionId": "s", "content": "x".repeat(rest + 1)})),
        Err(SessionError::Full)
    ));
    journal.append(&json!({"sessionId": "s", "content": "x".repeat(rest)})).unwrap();
    assert!(matches!(journal.append(&json!({"sessionId": "s"})), Err(SessionError::Full)));
    assert_eq!(journal.entries().unwrap().len(), 1);
}
