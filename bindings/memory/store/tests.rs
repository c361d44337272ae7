//! Commits, conflicts, history and durability, with real SQLite.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn identity(session: &str) -> SessionIdentity {
    SessionIdentity { principal: None, session_id: session.to_owned() }
}

fn memory() -> Store {
    Store::open(None, Durability::Full).unwrap()
}

fn key(id: &str) -> DocumentKey {
    DocumentKey { id: id.to_owned(), scope_key: "space".to_owned() }
}

fn commit(local_seq: u64, reads: Value, operations: Value) -> Commit {
    let data = json!({"localSeq": local_seq, "reads": reads, "operations": operations});
    Commit::from_data(&Data::from_plain(data)).unwrap()
}

fn write(store: &mut Store, local_seq: u64, operations: Value) -> Result<CommitReceipt, StoreError> {
    store.commit(&identity("s"), &commit(local_seq, json!({}), operations))
}

fn set(id: &str, value: Value) -> Value {
    json!([{"op": "set", "id": id, "value": {"value": value}}])
}

fn increment(id: &str) -> Value {
    json!([{"op": "patch", "id": id, "patches": [{"op": "increment", "path": "/value/n", "by": 1}]}])
}

fn value(state: &DocumentState) -> Option<Value> {
    state.document.as_ref().map(|document| document.to_plain()["value"].clone())
}

#[test]
fn commit_writes_all_or_nothing() {
    let mut store = memory();
    assert_eq!(write(&mut store, 1, set("of:x", json!(1))).unwrap().seq, 1);
    let mut bad = set("of:y", json!(1)).as_array().unwrap().clone();
    bad.push(json!({"op": "patch", "id": "of:x", "patches": [{"op": "remove", "path": "/none"}]}));
    assert!(matches!(write(&mut store, 2, Value::Array(bad)), Err(StoreError::Patch(_))));
    assert_eq!(store.seq(), 1);
    assert_eq!(store.load_document(&key("of:y")).unwrap(), DocumentState::default());
    assert_eq!(write(&mut store, 2, set("of:y", json!(2))).unwrap().seq, 2);
}

#[test]
fn operations_see_earlier_ones_of_the_same_commit() {
    let mut store = memory();
    let operations = json!([
        {"op": "set", "id": "of:x", "value": {"value": {"n": 1}}},
        {"op": "patch", "id": "of:x", "patches": [{"op": "increment", "path": "/value/n", "by": 1}]},
        {"op": "delete", "id": "of:y"},
        {"op": "patch", "id": "of:y", "patches": [{"op": "add", "path": "/value/a", "value": 1}]},
    ]);
    let receipt = write(&mut store, 1, operations).unwrap();
    assert_eq!(
        receipt.revisions.iter().map(|revision| revision.op.as_str()).collect::<Vec<_>>(),
        ["set", "patch", "delete", "patch"]
    );
    assert_eq!(value(&store.load_document(&key("of:x")).unwrap()), Some(json!({"n": 2})));
    assert_eq!(value(&store.load_document(&key("of:y")).unwrap()), Some(json!({"a": 1})));
}

#[test]
fn replayed_commit_returns_the_same_receipt() {
    let mut store = memory();
    let first = write(&mut store, 1, set("of:x", json!({"a": 1, "b": 2}))).unwrap();
    write(&mut store, 2, set("of:x", json!(3))).unwrap();
    let again = write(&mut store, 1, set("of:x", json!({"b": 2, "a": 1}))).unwrap();
    assert_eq!((again.seq, again.is_replay), (first.seq, true));
    assert_eq!(again.revisions, first.revisions);
    assert_eq!(value(&store.load_document(&key("of:x")).unwrap()), Some(json!(3)));
    assert!(matches!(write(&mut store, 1, set("of:x", json!(9))), Err(StoreError::LocalSeqReused(1))));
}

#[test]
fn rejected_commit_does_not_use_its_local_seq() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!(1))).unwrap();
    let stale =
        commit(2, json!({"confirmed": [{"id": "of:x", "path": ["value"], "seq": 0}]}), set("of:x", json!(2)));
    assert!(matches!(store.commit(&identity("s"), &stale), Err(StoreError::StaleRead("confirmed", _, 0, 1))));
    assert_eq!(write(&mut store, 2, set("of:x", json!(3))).unwrap().seq, 2);
}

#[test]
fn pending_read_requires_an_own_commit_without_later_writes() {
    let mut store = memory();
    let pending = |local_seq: u64, of: u64| {
        commit(
            local_seq,
            json!({"pending": [{"id": "of:x", "path": ["value"], "localSeq": of}]}),
            set("of:out", json!(1)),
        )
    };
    assert!(matches!(store.commit(&identity("s"), &pending(2, 1)), Err(StoreError::UnresolvedRead(1))));
    write(&mut store, 1, set("of:x", json!(1))).unwrap();
    assert!(store.commit(&identity("s"), &pending(2, 1)).is_ok());
    assert!(matches!(store.commit(&identity("other"), &pending(2, 1)), Err(StoreError::UnresolvedRead(1))));
    store.commit(&identity("other"), &commit(1, json!({}), set("of:x", json!(2)))).unwrap();
    assert!(matches!(
        store.commit(&identity("s"), &pending(3, 1)),
        Err(StoreError::StaleRead("pending", ..))
    ));
}

#[test]
fn failed_precondition_rejects_the_commit() {
    let mut store = memory();
    let with = |local_seq: u64, precondition: Value| {
        let data = json!({"localSeq": local_seq, "reads": {}, "operations": set("of:out", json!(1)), "preconditions": [precondition]});
        Commit::from_data(&Data::from_plain(data)).unwrap()
    };
    let absent = json!({"kind": "entity-absent", "id": "of:x"});
    assert!(store.commit(&identity("s"), &with(1, absent.clone())).is_ok());
    write(&mut store, 2, set("of:x", json!(1))).unwrap();
    assert!(matches!(
        store.commit(&identity("s"), &with(3, absent)),
        Err(StoreError::Precondition("receipt-exists"))
    ));
    let origin = |local_seq: u64| json!({"kind": "origin-committed", "originLocalSeq": local_seq});
    assert!(store.commit(&identity("s"), &with(3, origin(2))).is_ok());
    assert!(matches!(
        store.commit(&identity("s"), &with(4, origin(9))),
        Err(StoreError::Precondition("origin-committed"))
    ));
}

#[test]
fn history_is_readable_across_snapshots() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!({"n": 0}))).unwrap();
    for local_seq in 2..=36 {
        write(&mut store, local_seq, increment("of:x")).unwrap();
    }
    for seq in 1..=36_u64 {
        let state = store.load_document_at(&key("of:x"), seq).unwrap();
        assert_eq!((state.seq, value(&state)), (seq, Some(json!({"n": seq - 1}))));
    }
    let kept: u64 =
        store.connection.query_row("SELECT COUNT(*) FROM snapshot", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, SNAPSHOTS_KEPT);
    assert_eq!(store.load_document_at(&key("of:x"), 0).unwrap(), DocumentState::default());
    assert_eq!(store.load_document_at(&key("of:x"), u64::MAX).unwrap().seq, 36);
}

#[test]
fn deleted_document_keeps_its_seq_and_restarts_empty() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!({"a": 1}))).unwrap();
    write(&mut store, 2, json!([{"op": "delete", "id": "of:x"}])).unwrap();
    assert_eq!(store.load_document(&key("of:x")).unwrap(), DocumentState { seq: 2, document: None });
    write(&mut store, 3, increment("of:x")).unwrap();
    assert_eq!(value(&store.load_document(&key("of:x")).unwrap()), Some(json!({"n": 1})));
}

#[test]
fn user_scope_requires_and_separates_principals() {
    let mut store = memory();
    let operations = json!([{"op": "set", "id": "of:x", "scope": "user", "value": {"value": 1}}]);
    assert!(matches!(write(&mut store, 1, operations.clone()), Err(StoreError::PrincipalRequired("user"))));
    let ada = SessionIdentity { principal: Some("did:a".to_owned()), session_id: "s".to_owned() };
    let receipt = store.commit(&ada, &commit(1, json!({}), operations)).unwrap();
    assert_eq!(receipt.revisions[0].key.scope_key, "user:did%3Aa");
    assert_eq!(store.load_document(&key("of:x")).unwrap(), DocumentState::default());
}

#[test]
fn reopened_file_has_documents_and_recognises_replays() {
    let folder = std::env::temp_dir().join(format!("scomp-memory-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("space.sqlite");
    let mut store = Store::open(Some(&file), Durability::Full).unwrap();
    write(&mut store, 1, set("of:x", json!({"n": 1.25}))).unwrap();
    write(&mut store, 2, increment("of:x")).unwrap();
    drop(store);
    let mut again = Store::open(Some(&file), Durability::Normal).unwrap();
    assert_eq!(again.seq(), 2);
    assert_eq!(value(&again.load_document(&key("of:x")).unwrap()), Some(json!({"n": 2.25})));
    assert!(write(&mut again, 2, increment("of:x")).unwrap().is_replay);
    drop(again);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn durability_sets_synchronous() {
    let synchronous = |durability| {
        let store = Store::open(None, durability).unwrap();
        store.connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, u64>(0)).unwrap()
    };
    assert_eq!((synchronous(Durability::Full), synchronous(Durability::Normal)), (2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The cache, the tables and a model agree.
    #[test]
    fn store_agrees_with_a_model(steps in prop::collection::vec((0_u8..4, "[xy]"), 1..60)) {
        let mut store = memory();
        let mut model: HashMap<String, Option<i64>> = HashMap::new();
        for (local_seq, (step, id)) in (1_u64..).zip(steps) {
            let operations = match step {
                0 => set(&id, json!({"n": 0})),
                1 => json!([{"op": "delete", "id": id}]),
                _ => increment(&id),
            };
            write(&mut store, local_seq, operations).unwrap();
            let entry = model.entry(id).or_default();
            *entry = match step {
                0 => Some(0),
                1 => None,
                _ => Some(entry.unwrap_or(0) + 1),
            };
        }
        for (id, expected) in model {
            let expected = expected.map(|n| json!({"n": n}));
            prop_assert_eq!(value(&store.load_document(&key(&id)).unwrap()), expected.clone());
            prop_assert_eq!(value(&history::load_current(&store.connection, &key(&id)).unwrap()), expected.clone());
            prop_assert_eq!(value(&store.load_document_at(&key(&id), store.seq()).unwrap()), expected);
        }
    }
}
