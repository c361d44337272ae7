//! A file that crashes and strangers leave behind.

use serde_json::json;

use super::super::testing::Folder;
use super::*;

fn entry(number: usize) -> Value {
    json!({"timestamp": number, "role": "user", "content": "x", "sessionId": "s", "id": format!("m{number}")})
}

/// A limit that a test can reach.
const BYTES_MAX: u64 = 4096;

fn open(path: &Path) -> Result<Journal, SessionError> {
    Journal::open(path, BYTES_MAX)
}

fn written(folder: &Folder, text: &[u8]) -> PathBuf {
    let path = folder.path().join("a/session.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn what_was_appended_is_read_back_by_the_next_process() {
    let folder = Folder::new();
    let path = folder.path().join("a/session.jsonl");
    let mut journal = open(&path).unwrap();
    journal.append(&entry(1)).unwrap();
    journal.append(&entry(2)).unwrap();
    assert_eq!(journal.entries().unwrap(), [entry(1), entry(2)]);
    drop(journal);
    assert_eq!(open(&path).unwrap().entries().unwrap(), [entry(1), entry(2)]);
}

/// Wherever a crash cuts a file, the lines before the cut survive, and the next line stands by itself.
#[test]
fn a_file_cut_anywhere_keeps_every_whole_line() {
    let lines = [entry(1), entry(2), entry(3)].map(|entry| line_of(&entry));
    let whole = lines.concat();
    for cut in 0..=whole.len() {
        let folder = Folder::new();
        let path = written(&folder, &whole.as_bytes()[..cut]);
        let mut journal = open(&path).unwrap();
        journal.append(&entry(9)).unwrap();
        let found = Journal::entries(&mut journal).unwrap();
        let ends: Vec<usize> = (1..=3).map(|count| lines[..count].concat().len()).collect();
        // A line whose break alone is missing is whole.
        let kept = ends.iter().filter(|end| cut + 1 >= **end).count();
        assert_eq!(found.len(), kept + 1, "cut at {cut}");
        assert_eq!(found.last(), Some(&entry(9)));
    }
}

#[test]
fn damage_before_the_last_line_is_reported_and_left_alone() {
    let good = line_of(&entry(1));
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
            let path = written(&folder, &text);
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
fn a_mark_or_a_lock_of_another_keeps_us_out() {
    let folder = Folder::new();
    let path = written(&folder, b"");
    let mark = folder.path().join("a/session.jsonl.lock");
    fs::write(&mark, b"").unwrap();
    assert!(matches!(open(&path), Err(SessionError::Locked)));
    fs::remove_file(&mark).unwrap();
    let journal = open(&path).unwrap();
    assert!(matches!(open(&path), Err(SessionError::Locked)), "a second opener");
    fs::write(&mark, b"").unwrap();
    assert!(!journal.is_current(), "a mark that came later");
}

#[test]
fn a_file_that_somebody_else_changed_is_noticed() {
    let folder = Folder::new();
    let path = written(&folder, b"");
    let mut journal = open(&path).unwrap();
    journal.append(&entry(1)).unwrap();
    assert!(journal.is_current());
    fs::write(&path, b"{}").unwrap();
    assert!(!journal.is_current());
    fs::remove_file(&path).unwrap();
    assert!(!journal.is_current());
}

#[test]
fn a_replaced_file_has_the_new_entries_and_takes_more() {
    let folder = Folder::new();
    let mut journal = open(&written(&folder, b"")).unwrap();
    for number in 0..5 {
        journal.append(&entry(number)).unwrap();
    }
    journal.replace(&[entry(3)]).unwrap();
    journal.append(&entry(7)).unwrap();
    assert_eq!(journal.entries().unwrap(), [entry(3), entry(7)]);
    assert!(journal.is_current());
}

#[test]
fn a_file_is_filled_to_its_limit_and_not_beyond() {
    let folder = Folder::new();
    let mut journal = open(&written(&folder, b"")).unwrap();
    let around = line_of(&json!({"sessionId": "s", "content": ""})).len();
    let rest = usize::try_from(BYTES_MAX).unwrap() - around;
    assert!(matches!(
        journal.append(&json!({"sessionId": "s", "content": "x".repeat(rest + 1)})),
        Err(SessionError::Full)
    ));
    journal.append(&json!({"sessionId": "s", "content": "x".repeat(rest)})).unwrap();
    assert!(matches!(journal.append(&json!({"sessionId": "s"})), Err(SessionError::Full)));
    assert_eq!(journal.entries().unwrap().len(), 1);
}
