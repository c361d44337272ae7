//! The disk store: entries, archives, rotation, owners and transfer.

use std::fs::{self, File};

use super::super::testing::Folder;
use super::disk::{CREATED_MAX, JOURNALS_OPEN_MAX};
use super::rotation::ROTATED_FILES_MAX;
use super::*;

fn entry(session_id: &str, id: &str, timestamp_ms: u64) -> Entry {
    Entry {
        timestamp_ms,
        role: "user".to_owned(),
        content: json!("hello"),
        session_id: session_id.to_owned(),
        id: id.to_owned(),
    }
}

fn store(folder: &Folder) -> DiskSessionStore {
    DiskSessionStore::new(folder.path(), Durability::Always)
}

fn error_name<T: std::fmt::Debug>(result: Result<T, SessionError>) -> &'static str {
    GatewayError::from(result.unwrap_err()).code.name()
}

fn ids(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["id"].as_str()).collect()
}

#[test]
fn entry_is_written_with_its_five_fields_in_order() {
    let folder = Folder::new();
    store(&folder).append("alpha", &entry("s", "m1", 5)).unwrap();
    let text = fs::read_to_string(folder.path().join("agents/alpha/session.jsonl")).unwrap();
    let line = r#"{"timestamp":5,"role":"user","content":"hello","sessionId":"s","id":"m1"}"#;
    assert_eq!(text, format!("{line}\n"));
}

#[test]
fn sessions_and_workspaces_are_separate() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    store.append("alpha", &entry("t", "m2", 2)).unwrap();
    store.append("beta", &entry("s", "m3", 3)).unwrap();
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m1"]);
    assert_eq!(ids(&store.get("beta", "s").unwrap()), ["m3"]);
    assert_eq!(error_name(store.get("beta", "t")), "SESSION_NOT_FOUND");
    assert_eq!(
        store.list("alpha").unwrap(),
        [
            json!({"agent": "alpha", "sessionId": "s", "entries": 1, "updatedAt": 1}),
            json!({"agent": "alpha", "sessionId": "t", "entries": 1, "updatedAt": 2}),
        ]
    );
}

#[test]
fn created_session_survives_a_restart() {
    let folder = Folder::new();
    store(&folder).create("alpha", "s").unwrap();
    let mut store = store(&folder);
    assert_eq!(store.get("alpha", "s").unwrap(), [] as [Value; 0]);
    assert_eq!(error_name(store.create("alpha", "s")), "INVALID_CONTENT");
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    assert_eq!(store.list("alpha").unwrap().len(), 1);
    store.delete("alpha", "s").unwrap();
    assert_eq!(error_name(store.get("alpha", "s")), "SESSION_NOT_FOUND");
}

#[test]
fn archived_session_is_moved_and_its_id_refused() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    store.append("alpha", &entry("t", "m2", 1)).unwrap();
    assert_eq!(store.archive("alpha", &ArchiveSelection::One("s".to_owned()), 5).unwrap(), 1);
    let archived = fs::read_to_string(folder.path().join("agents/alpha/archive/session-s.jsonl")).unwrap();
    assert!(archived.contains("m1") && !archived.contains("m2"));
    assert_eq!(error_name(store.get("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(error_name(store.append("alpha", &entry("s", "m3", 1))), "SESSION_EXPIRED");
    assert_eq!(error_name(store.create("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(
        error_name(store.archive("alpha", &ArchiveSelection::One("s".to_owned()), 5)),
        "SESSION_EXPIRED"
    );
    assert_eq!(ids(&store.get("alpha", "t").unwrap()), ["m2"]);
}

#[test]
fn sessions_are_archived_by_the_age_of_their_last_entry() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.create("alpha", "never-used").unwrap();
    store.append("alpha", &entry("old", "m1", 100)).unwrap();
    store.append("alpha", &entry("revived", "m2", 100)).unwrap();
    store.append("alpha", &entry("revived", "m3", 900)).unwrap();
    assert_eq!(store.archive("alpha", &ArchiveSelection::OlderThan { age_ms: 500 }, 1000).unwrap(), 1);
    assert_eq!(error_name(store.get("alpha", "old")), "SESSION_EXPIRED");
    assert_eq!(store.list("alpha").unwrap().len(), 2);
}

#[test]
fn crash_while_archiving_loses_no_entry() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    let entries = store.get("alpha", "s").unwrap();
    store.archive_one("alpha", "s", &entries).unwrap();
    assert_eq!(error_name(store.get("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(store.list("alpha").unwrap(), [] as [Value; 0]);
    assert!(folder.path().join("agents/alpha/archive/session-s.jsonl").exists());
}

#[test]
fn unsafe_names_are_refused() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let bad_ids = ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\\b", "a\0", "ä"];
    for id in bad_ids {
        assert_eq!(error_name(store.append("alpha", &entry(id, "m", 1))), "INVALID_CONTENT", "{id}");
        assert_eq!(error_name(store.create("alpha", id)), "INVALID_CONTENT", "{id}");
        assert_eq!(
            error_name(store.archive("alpha", &ArchiveSelection::One(id.to_owned()), 1)),
            "INVALID_CONTENT"
        );
        assert_eq!(error_name(store.delete("alpha", id)), "INVALID_CONTENT", "{id}");
    }
    for agent in ["..", "../alpha", "a/b", ""] {
        assert_eq!(error_name(store.append(agent, &entry("s", "m", 1))), "INVALID_CONTENT", "{agent}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn session_id_past_the_limit_is_refused() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let longest = "x".repeat(SESSION_ID_BYTES_MAX);
    store.append("alpha", &entry(&longest, "m1", 1)).unwrap();
    store.archive("alpha", &ArchiveSelection::One(longest.clone()), 1).unwrap();
    assert_eq!(error_name(store.get("alpha", &longest)), "SESSION_EXPIRED");
    assert_eq!(error_name(store.append("alpha", &entry(&format!("{longest}x"), "m", 1))), "INVALID_CONTENT");
}

#[test]
fn locked_and_corrupt_workspaces_have_their_codes() {
    let folder = Folder::new();
    let workspace = folder.path().join("agents");
    fs::create_dir_all(workspace.join("sentinel")).unwrap();
    fs::create_dir_all(workspace.join("historian")).unwrap();
    fs::write(workspace.join("sentinel/session.jsonl.lock"), b"").unwrap();
    fs::write(workspace.join("historian/session.jsonl"), b"{\"timestamp\":1,\"role\":\"user\"\nnot json\n")
        .unwrap();
    let mut store = store(&folder);
    assert_eq!(error_name(store.append("sentinel", &entry("s", "m", 1))), "SESSION_LOCKED");
    assert_eq!(error_name(store.get("sentinel", "s")), "SESSION_LOCKED");
    assert_eq!(error_name(store.append("historian", &entry("s", "m", 1))), "SESSION_CORRUPT");
    assert_eq!(error_name(store.get("historian", "s")), "SESSION_CORRUPT");
}

#[test]
fn more_agents_than_open_journals_are_served() {
    let folder = Folder::new();
    let mut store = store(&folder);
    for round in 0..2 {
        for number in 0..=JOURNALS_OPEN_MAX {
            store.append(&format!("agent{number}"), &entry("s", &format!("m{round}"), 1)).unwrap();
        }
    }
    store.sync_before_ack().unwrap();
    assert_eq!(ids(&store.get("agent0", "s").unwrap()), ["m0", "m1"]);
}

#[test]
fn deleted_journal_is_created_again() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    fs::remove_file(folder.path().join("agents/alpha/session.jsonl")).unwrap();
    store.append("alpha", &entry("s", "m2", 1)).unwrap();
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m2"]);
}

#[test]
fn empty_session_past_the_limit_is_refused() {
    let folder = Folder::new();
    let created = folder.path().join("agents/alpha/created");
    fs::create_dir_all(&created).unwrap();
    for number in 1..CREATED_MAX {
        File::create(created.join(number.to_string())).unwrap();
    }
    let mut store = store(&folder);
    store.create("alpha", "last").unwrap();
    assert_eq!(error_name(store.create("alpha", "late")), "AGENT_ERROR");
    assert_eq!(store.list("alpha").unwrap().len(), CREATED_MAX);
}

#[test]
fn reading_creates_no_files() {
    let folder = Folder::new();
    let mut store = store(&folder);
    assert_eq!(store.list("alpha").unwrap(), [] as [Value; 0]);
    assert_eq!(error_name(store.get("alpha", "s")), "SESSION_NOT_FOUND");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn full_default_session_is_rotated_and_others_refused() {
    let folder = Folder::new();
    let mut store = DiskSessionStore::with_bytes_max(folder.path(), 1000);
    let mut long = entry(SESSION_DEFAULT, "m1", 7);
    long.content = json!("x".repeat(600));
    store.append("alpha", &long).unwrap();
    store.append("alpha", &Entry { id: "m2".to_owned(), ..long.clone() }).unwrap();
    assert_eq!(ids(&store.get("alpha", SESSION_DEFAULT).unwrap()), ["m2"]);
    assert!(folder.path().join("agents/alpha/archive/session-main-7.jsonl").exists());
    let chosen = Entry { session_id: "chosen".to_owned(), ..long };
    assert_eq!(error_name(store.append("alpha", &chosen)), "AGENT_ERROR");
}

#[test]
fn rotated_files_past_the_limit_are_deleted() {
    let folder = Folder::new();
    let mut store = DiskSessionStore::with_bytes_max(folder.path(), 1000);
    let archive = folder.path().join("agents/alpha/archive");
    let long = Entry { content: json!("x".repeat(600)), ..entry(SESSION_DEFAULT, "m", 7) };
    store.append("alpha", &Entry { session_id: "chosen".to_owned(), ..long.clone() }).unwrap();
    store.archive("alpha", &ArchiveSelection::One("chosen".to_owned()), 0).unwrap();
    for number in 0..=ROTATED_FILES_MAX as u64 {
        store.append("alpha", &Entry { timestamp_ms: 100 + number, ..long.clone() }).unwrap();
    }
    assert_eq!(fs::read_dir(&archive).unwrap().count(), ROTATED_FILES_MAX + 1, "with the named session");
    assert!(archive.join("session-main-101.jsonl").exists());
    store.append("alpha", &Entry { timestamp_ms: 200, ..long.clone() }).unwrap();
    assert_eq!(fs::read_dir(&archive).unwrap().count(), ROTATED_FILES_MAX + 1);
    assert!(!archive.join("session-main-101.jsonl").exists(), "the oldest is deleted");
    assert!(archive.join("session-chosen.jsonl").exists());
    store.append("alpha", &Entry { timestamp_ms: 200, ..long }).unwrap();
    assert!(archive.join("session-main-201.jsonl").exists(), "nothing is overwritten");
}

#[test]
fn owner_is_known_while_there_are_sessions() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let owner = |name: &str| Owner::Principal(name.to_owned());
    store.set_owner("alpha", &owner("ada")).unwrap();
    assert_eq!(store.owner("alpha").unwrap(), None, "no sessions");
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    assert_eq!(store.owner("alpha").unwrap(), Some(owner("ada")));
    store.delete("alpha", "s").unwrap();
    assert_eq!(store.owner("alpha").unwrap(), None);
    store.create("alpha", "t").unwrap();
    store.set_owner("alpha", &Owner::Token { subject: None }).unwrap();
    let again = DiskSessionStore::new(folder.path(), Durability::Always);
    assert_eq!(again.owner("alpha").unwrap(), Some(Owner::Token { subject: None }));
    fs::write(folder.path().join("agents/alpha/owner"), "nonsense").unwrap();
    assert_eq!(error_name(again.owner("alpha")), "SESSION_CORRUPT", "the name stays owned");
}

#[test]
fn import_past_the_limit_changes_nothing() {
    let folder = Folder::new();
    let mut store = DiskSessionStore::with_bytes_max(folder.path(), 300);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    let line = |text: &str| json!({"timestamp": 1, "role": "user", "content": text, "id": "i"}).to_string();
    assert_eq!(error_name(store.import("alpha", "t", &line(&"x".repeat(300)))), "AGENT_ERROR");
    assert_eq!(store.import("alpha", "t", &format!("{}\n{}", line("a"), line("b"))).unwrap(), 2);
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m1"]);
    assert_eq!(store.export("alpha", "t").unwrap().lines().count(), 2);
    assert_eq!(error_name(store.import("alpha", "t", &line("c"))), "INVALID_CONTENT");
    assert_eq!(error_name(store.import("alpha", "../t", &line("c"))), "INVALID_CONTENT");
}
