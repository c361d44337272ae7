//! Sessions from their first entry to the archive.

use super::super::testing::Folder;
use super::aside::SET_ASIDE_MAX;
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

fn store(folder: &Folder) -> DiskSessions {
    DiskSessions::new(folder.path(), Durability::Always)
}

fn code<T: std::fmt::Debug>(refused: Result<T, SessionError>) -> &'static str {
    Refusal::from(refused.unwrap_err()).code.name()
}

fn ids(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["id"].as_str()).collect()
}

#[test]
fn an_entry_has_the_five_fields_in_their_order() {
    let folder = Folder::new();
    store(&folder).append("alpha", &entry("s", "m1", 5)).unwrap();
    let text = fs::read_to_string(folder.path().join("agents/alpha/session.jsonl")).unwrap();
    let line = r#"{"timestamp":5,"role":"user","content":"hello","sessionId":"s","id":"m1"}"#;
    assert_eq!(text, format!("{line}\n"));
}

#[test]
fn sessions_and_workspaces_do_not_mix() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    store.append("alpha", &entry("t", "m2", 2)).unwrap();
    store.append("beta", &entry("s", "m3", 3)).unwrap();
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m1"]);
    assert_eq!(ids(&store.get("beta", "s").unwrap()), ["m3"]);
    assert_eq!(code(store.get("beta", "t")), "SESSION_NOT_FOUND");
    assert_eq!(
        store.list("alpha").unwrap(),
        [
            json!({"agent": "alpha", "sessionId": "s", "entries": 1, "updatedAt": 1}),
            json!({"agent": "alpha", "sessionId": "t", "entries": 1, "updatedAt": 2}),
        ]
    );
}

#[test]
fn a_created_session_is_there_and_empty_even_for_the_next_process() {
    let folder = Folder::new();
    store(&folder).create("alpha", "s").unwrap();
    let mut store = store(&folder);
    assert_eq!(store.get("alpha", "s").unwrap(), [] as [Value; 0]);
    assert_eq!(code(store.create("alpha", "s")), "INVALID_CONTENT");
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    assert_eq!(store.list("alpha").unwrap().len(), 1);
    store.delete("alpha", "s").unwrap();
    assert_eq!(code(store.get("alpha", "s")), "SESSION_NOT_FOUND");
}

#[test]
fn an_archived_session_lies_aside_and_its_id_is_used_up() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    store.append("alpha", &entry("t", "m2", 1)).unwrap();
    assert_eq!(store.archive("alpha", &Archived::One("s".to_owned()), 5).unwrap(), 1);
    let archived = fs::read_to_string(folder.path().join("agents/alpha/archive/session-s.jsonl")).unwrap();
    assert!(archived.contains("m1") && !archived.contains("m2"));
    assert_eq!(code(store.get("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(code(store.append("alpha", &entry("s", "m3", 1))), "SESSION_EXPIRED");
    assert_eq!(code(store.create("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(code(store.archive("alpha", &Archived::One("s".to_owned()), 5)), "SESSION_EXPIRED");
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
    assert_eq!(store.archive("alpha", &Archived::OlderThan { age_ms: 500 }, 1000).unwrap(), 1);
    assert_eq!(code(store.get("alpha", "old")), "SESSION_EXPIRED");
    assert_eq!(store.list("alpha").unwrap().len(), 2);
}

#[test]
fn a_crash_between_the_steps_of_archiving_loses_nothing() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    let entries = store.get("alpha", "s").unwrap();
    store.archive_one("alpha", "s", &entries).unwrap();
    assert_eq!(code(store.get("alpha", "s")), "SESSION_EXPIRED");
    assert_eq!(store.list("alpha").unwrap(), [] as [Value; 0]);
    assert!(folder.path().join("agents/alpha/archive/session-s.jsonl").exists());
}

#[test]
fn no_name_leads_out_of_the_workspace() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let bad_ids = ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\\b", "a\0", "ä"];
    for id in bad_ids {
        assert_eq!(code(store.append("alpha", &entry(id, "m", 1))), "INVALID_CONTENT", "{id}");
        assert_eq!(code(store.create("alpha", id)), "INVALID_CONTENT", "{id}");
        assert_eq!(code(store.archive("alpha", &Archived::One(id.to_owned()), 1)), "INVALID_CONTENT");
        assert_eq!(code(store.delete("alpha", id)), "INVALID_CONTENT", "{id}");
    }
    for agent in ["..", "../alpha", "a/b", ""] {
        assert_eq!(code(store.append(agent, &entry("s", "m", 1))), "INVALID_CONTENT", "{agent}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written at all");
}

#[test]
fn an_id_at_its_limit_is_used_and_a_longer_one_is_not() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let longest = "x".repeat(SESSION_ID_BYTES_MAX);
    store.append("alpha", &entry(&longest, "m1", 1)).unwrap();
    store.archive("alpha", &Archived::One(longest.clone()), 1).unwrap();
    assert_eq!(code(store.get("alpha", &longest)), "SESSION_EXPIRED");
    assert_eq!(code(store.append("alpha", &entry(&format!("{longest}x"), "m", 1))), "INVALID_CONTENT");
}

#[test]
fn locked_and_corrupt_workspaces_are_named_by_their_codes() {
    let folder = Folder::new();
    let workspace = folder.path().join("agents");
    fs::create_dir_all(workspace.join("sentinel")).unwrap();
    fs::create_dir_all(workspace.join("historian")).unwrap();
    fs::write(workspace.join("sentinel/session.jsonl.lock"), b"").unwrap();
    fs::write(workspace.join("historian/session.jsonl"), b"{\"timestamp\":1,\"role\":\"user\"\nnot json\n")
        .unwrap();
    let mut store = store(&folder);
    assert_eq!(code(store.append("sentinel", &entry("s", "m", 1))), "SESSION_LOCKED");
    assert_eq!(code(store.get("sentinel", "s")), "SESSION_LOCKED");
    assert_eq!(code(store.append("historian", &entry("s", "m", 1))), "SESSION_CORRUPT");
    assert_eq!(code(store.get("historian", "s")), "SESSION_CORRUPT");
}

#[test]
fn more_agents_than_open_files_are_served() {
    let folder = Folder::new();
    let mut store = store(&folder);
    for round in 0..2 {
        for number in 0..=JOURNALS_OPEN_MAX {
            store.append(&format!("agent{number}"), &entry("s", &format!("m{round}"), 1)).unwrap();
        }
    }
    store.settle().unwrap();
    assert_eq!(ids(&store.get("agent0", "s").unwrap()), ["m0", "m1"]);
}

#[test]
fn a_file_that_was_taken_away_is_begun_anew() {
    let folder = Folder::new();
    let mut store = store(&folder);
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    fs::remove_file(folder.path().join("agents/alpha/session.jsonl")).unwrap();
    store.append("alpha", &entry("s", "m2", 1)).unwrap();
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m2"]);
}

#[test]
fn empty_sessions_are_created_up_to_a_limit() {
    let folder = Folder::new();
    let created = folder.path().join("agents/alpha/created");
    fs::create_dir_all(&created).unwrap();
    for number in 1..CREATED_MAX {
        File::create(created.join(number.to_string())).unwrap();
    }
    let mut store = store(&folder);
    store.create("alpha", "last").unwrap();
    assert_eq!(code(store.create("alpha", "late")), "AGENT_ERROR");
    assert_eq!(store.list("alpha").unwrap().len(), CREATED_MAX);
}

#[test]
fn reading_makes_no_files() {
    let folder = Folder::new();
    let mut store = store(&folder);
    assert_eq!(store.list("alpha").unwrap(), [] as [Value; 0]);
    assert_eq!(code(store.get("alpha", "s")), "SESSION_NOT_FOUND");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_full_default_session_is_set_aside_and_any_other_is_refused() {
    let folder = Folder::new();
    let mut store = DiskSessions { journal_bytes_max: 1000, ..store(&folder) };
    let mut long = entry(SESSION_DEFAULT, "m1", 7);
    long.content = json!("x".repeat(600));
    store.append("alpha", &long).unwrap();
    store.append("alpha", &Entry { id: "m2".to_owned(), ..long.clone() }).unwrap();
    assert_eq!(ids(&store.get("alpha", SESSION_DEFAULT).unwrap()), ["m2"]);
    assert!(folder.path().join("agents/alpha/archive/session-main-7.jsonl").exists());
    let chosen = Entry { session_id: "chosen".to_owned(), ..long };
    assert_eq!(code(store.append("alpha", &chosen)), "AGENT_ERROR");
}

#[test]
fn sessions_set_aside_are_kept_up_to_a_limit() {
    let folder = Folder::new();
    let mut store = DiskSessions { journal_bytes_max: 1000, ..store(&folder) };
    let archive = folder.path().join("agents/alpha/archive");
    let long = Entry { content: json!("x".repeat(600)), ..entry(SESSION_DEFAULT, "m", 7) };
    store.append("alpha", &Entry { session_id: "chosen".to_owned(), ..long.clone() }).unwrap();
    store.archive("alpha", &Archived::One("chosen".to_owned()), 0).unwrap();
    for number in 0..=SET_ASIDE_MAX as u64 {
        store.append("alpha", &Entry { timestamp_ms: 100 + number, ..long.clone() }).unwrap();
    }
    assert_eq!(fs::read_dir(&archive).unwrap().count(), SET_ASIDE_MAX + 1, "and the one that was named");
    assert!(archive.join("session-main-101.jsonl").exists());
    store.append("alpha", &Entry { timestamp_ms: 200, ..long.clone() }).unwrap();
    assert_eq!(fs::read_dir(&archive).unwrap().count(), SET_ASIDE_MAX + 1);
    assert!(!archive.join("session-main-101.jsonl").exists(), "the oldest is gone");
    assert!(archive.join("session-chosen.jsonl").exists());
    store.append("alpha", &Entry { timestamp_ms: 200, ..long }).unwrap();
    assert!(archive.join("session-main-201.jsonl").exists(), "nothing is overwritten");
}

#[test]
fn owner_is_known_for_as_long_as_there_are_sessions() {
    let folder = Folder::new();
    let mut store = store(&folder);
    let owner = |name: &str| Owner::Principal(name.to_owned());
    store.set_owner("alpha", &owner("ada")).unwrap();
    assert_eq!(store.owner("alpha").unwrap(), None, "there is nothing to own");
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    assert_eq!(store.owner("alpha").unwrap(), Some(owner("ada")));
    store.delete("alpha", "s").unwrap();
    assert_eq!(store.owner("alpha").unwrap(), None);
    store.create("alpha", "t").unwrap();
    store.set_owner("alpha", &Owner::Token { subject: None }).unwrap();
    let again = DiskSessions::new(folder.path(), Durability::Always);
    assert_eq!(again.owner("alpha").unwrap(), Some(Owner::Token { subject: None }));
    fs::write(folder.path().join("agents/alpha/owner"), "nonsense").unwrap();
    assert_eq!(code(again.owner("alpha")), "SESSION_CORRUPT", "not free");
}

#[test]
fn import_that_does_not_fit_leaves_the_file_as_it_was() {
    let folder = Folder::new();
    let mut store = DiskSessions { journal_bytes_max: 300, ..store(&folder) };
    store.append("alpha", &entry("s", "m1", 1)).unwrap();
    let line = |text: &str| json!({"timestamp": 1, "role": "user", "content": text, "id": "i"}).to_string();
    assert_eq!(code(store.import("alpha", "t", &line(&"x".repeat(300)))), "AGENT_ERROR");
    assert_eq!(store.import("alpha", "t", &format!("{}\n{}", line("a"), line("b"))).unwrap(), 2);
    assert_eq!(ids(&store.get("alpha", "s").unwrap()), ["m1"]);
    assert_eq!(store.export("alpha", "t").unwrap().lines().count(), 2);
    assert_eq!(code(store.import("alpha", "t", &line("c"))), "INVALID_CONTENT");
    assert_eq!(code(store.import("alpha", "../t", &line("c"))), "INVALID_CONTENT");
}
