//! Against real SQLite: commits, conflicts, history, and what a file keeps.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn owner(session: &str) -> Owner {
    Owner { principal: None, session_id: session.to_owned() }
}

fn memory() -> Store {
    Store::open(None, Durability::Full).unwrap()
}

fn key(id: &str) -> Key {
    Key { id: id.to_owned(), scope_key: "space".to_owned() }
}

fn commit(local_seq: u64, reads: Value, operations: Value) -> Commit {
    let data = json!({"localSeq": local_seq, "reads": reads, "operations": operations});
    Commit::from_data(&Data::from_plain(data)).unwrap()
}

fn write(store: &mut Store, local_seq: u64, operations: Value) -> Result<Applied, StoreError> {
    store.commit(&owner("s"), &commit(local_seq, json!({}), operations))
}

fn set(id: &str, value: Value) -> Value {
    json!([{"op": "set", "id": id, "value": {"value": value}}])
}

fn increment(id: &str) -> Value {
    json!([{"op": "patch", "id": id, "patches": [{"op": "increment", "path": "/value/n", "by": 1}]}])
}

fn value(state: &State) -> Option<Value> {
    state.document.as_ref().map(|document| document.to_plain()["value"].clone())
}

#[test]
fn each_commit_has_the_next_number_and_writes_all_or_nothing() {
    let mut store = memory();
    assert_eq!(write(&mut store, 1, set("of:x", json!(1))).unwrap().seq, 1);
    let mut bad = set("of:y", json!(1)).as_array().unwrap().clone();
    bad.push(json!({"op": "patch", "id": "of:x", "patches": [{"op": "remove", "path": "/none"}]}));
    assert!(matches!(write(&mut store, 2, Value::Array(bad)), Err(StoreError::Patch(_))));
    assert_eq!(store.seq(), 1);
    assert_eq!(store.state(&key("of:y")).unwrap(), State::default());
    assert_eq!(write(&mut store, 2, set("of:y", json!(2))).unwrap().seq, 2);
}

#[test]
fn operations_of_one_commit_see_each_other() {
    let mut store = memory();
    let operations = json!([
        {"op": "set", "id": "of:x", "value": {"value": {"n": 1}}},
        {"op": "patch", "id": "of:x", "patches": [{"op": "increment", "path": "/value/n", "by": 1}]},
        {"op": "delete", "id": "of:y"},
        {"op": "patch", "id": "of:y", "patches": [{"op": "add", "path": "/value/a", "value": 1}]},
    ]);
    let applied = write(&mut store, 1, operations).unwrap();
    assert_eq!(
        applied.revisions.iter().map(|revision| revision.op.as_str()).collect::<Vec<_>>(),
        ["set", "patch", "delete", "patch"]
    );
    assert_eq!(value(&store.state(&key("of:x")).unwrap()), Some(json!({"n": 2})));
    assert_eq!(value(&store.state(&key("of:y")).unwrap()), Some(json!({"a": 1})));
}

#[test]
fn a_repeated_commit_is_answered_as_before_and_a_changed_one_is_refused() {
    let mut store = memory();
    let first = write(&mut store, 1, set("of:x", json!({"a": 1, "b": 2}))).unwrap();
    write(&mut store, 2, set("of:x", json!(3))).unwrap();
    let again = write(&mut store, 1, set("of:x", json!({"b": 2, "a": 1}))).unwrap();
    assert_eq!((again.seq, again.is_replay), (first.seq, true));
    assert_eq!(again.revisions, first.revisions);
    assert_eq!(value(&store.state(&key("of:x")).unwrap()), Some(json!(3)));
    assert!(matches!(write(&mut store, 1, set("of:x", json!(9))), Err(StoreError::Reused(1))));
}

#[test]
fn a_refused_commit_leaves_its_number_free() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!(1))).unwrap();
    let stale =
        commit(2, json!({"confirmed": [{"id": "of:x", "path": ["value"], "seq": 0}]}), set("of:x", json!(2)));
    assert!(matches!(store.commit(&owner("s"), &stale), Err(StoreError::Stale("confirmed", _, 0, 1))));
    assert_eq!(write(&mut store, 2, set("of:x", json!(3))).unwrap().seq, 2);
}

#[test]
fn a_pending_read_is_of_an_own_commit_and_of_nothing_written_since() {
    let mut store = memory();
    let pending = |local_seq: u64, of: u64| {
        commit(
            local_seq,
            json!({"pending": [{"id": "of:x", "path": ["value"], "localSeq": of}]}),
            set("of:out", json!(1)),
        )
    };
    assert!(matches!(store.commit(&owner("s"), &pending(2, 1)), Err(StoreError::Unresolved(1))));
    write(&mut store, 1, set("of:x", json!(1))).unwrap();
    assert!(store.commit(&owner("s"), &pending(2, 1)).is_ok());
    assert!(matches!(store.commit(&owner("other"), &pending(2, 1)), Err(StoreError::Unresolved(1))));
    store.commit(&owner("other"), &commit(1, json!({}), set("of:x", json!(2)))).unwrap();
    assert!(matches!(store.commit(&owner("s"), &pending(3, 1)), Err(StoreError::Stale("pending", ..))));
}

#[test]
fn preconditions_are_checked() {
    let mut store = memory();
    let with = |local_seq: u64, precondition: Value| {
        let data = json!({"localSeq": local_seq, "reads": {}, "operations": set("of:out", json!(1)), "preconditions": [precondition]});
        Commit::from_data(&Data::from_plain(data)).unwrap()
    };
    let absent = json!({"kind": "entity-absent", "id": "of:x"});
    assert!(store.commit(&owner("s"), &with(1, absent.clone())).is_ok());
    write(&mut store, 2, set("of:x", json!(1))).unwrap();
    assert!(matches!(
        store.commit(&owner("s"), &with(3, absent)),
        Err(StoreError::Precondition("receipt-exists"))
    ));
    let origin = |local_seq: u64| json!({"kind": "origin-committed", "originLocalSeq": local_seq});
    assert!(store.commit(&owner("s"), &with(3, origin(2))).is_ok());
    assert!(matches!(
        store.commit(&owner("s"), &with(4, origin(9))),
        Err(StoreError::Precondition("origin-committed"))
    ));
}

#[test]
fn history_is_read_across_snapshots() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!({"n": 0}))).unwrap();
    for local_seq in 2..=36 {
        write(&mut store, local_seq, increment("of:x")).unwrap();
    }
    for seq in 1..=36_u64 {
        let state = store.state_at(&key("of:x"), seq).unwrap();
        assert_eq!((state.seq, value(&state)), (seq, Some(json!({"n": seq - 1}))));
    }
    let kept: u64 =
        store.connection.query_row("SELECT COUNT(*) FROM snapshot", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, SNAPSHOTS_KEPT);
    assert_eq!(store.state_at(&key("of:x"), 0).unwrap(), State::default());
    assert_eq!(store.state_at(&key("of:x"), u64::MAX).unwrap().seq, 36);
}

#[test]
fn a_deleted_document_keeps_its_number_and_starts_empty() {
    let mut store = memory();
    write(&mut store, 1, set("of:x", json!({"a": 1}))).unwrap();
    write(&mut store, 2, json!([{"op": "delete", "id": "of:x"}])).unwrap();
    assert_eq!(store.state(&key("of:x")).unwrap(), State { seq: 2, document: None });
    write(&mut store, 3, increment("of:x")).unwrap();
    assert_eq!(value(&store.state(&key("of:x")).unwrap()), Some(json!({"n": 1})));
}

#[test]
fn documents_of_users_are_their_own_and_need_one() {
    let mut store = memory();
    let operations = json!([{"op": "set", "id": "of:x", "scope": "user", "value": {"value": 1}}]);
    assert!(matches!(write(&mut store, 1, operations.clone()), Err(StoreError::NoPrincipal("user"))));
    let ada = Owner { principal: Some("did:a".to_owned()), session_id: "s".to_owned() };
    let applied = store.commit(&ada, &commit(1, json!({}), operations)).unwrap();
    assert_eq!(applied.revisions[0].key.scope_key, "user:did%3Aa");
    assert_eq!(store.state(&key("of:x")).unwrap(), State::default());
}

#[test]
fn a_file_keeps_everything_and_replays_are_still_known() {
    let folder = std::env::temp_dir().join(format!("scomp-memory-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("space.sqlite");
    let mut store = Store::open(Some(&file), Durability::Full).unwrap();
    write(&mut store, 1, set("of:x", json!({"n": 1.25}))).unwrap();
    write(&mut store, 2, increment("of:x")).unwrap();
    drop(store);
    let mut again = Store::open(Some(&file), Durability::Normal).unwrap();
    assert_eq!(again.seq(), 2);
    assert_eq!(value(&again.state(&key("of:x")).unwrap()), Some(json!({"n": 2.25})));
    assert!(write(&mut again, 2, increment("of:x")).unwrap().is_replay);
    drop(again);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn accepted_means_on_the_disk_unless_said_otherwise() {
    let synchronous = |durability| {
        let store = Store::open(None, durability).unwrap();
        store.connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, u64>(0)).unwrap()
    };
    assert_eq!((synchronous(Durability::Full), synchronous(Durability::Normal)), (2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is read through the cache, from the tables, and from a plain model is the same.
    #[test]
    fn the_store_agrees_with_a_model(steps in prop::collection::vec((0_u8..4, "[xy]"), 1..60)) {
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
            prop_assert_eq!(value(&store.state(&key(&id)).unwrap()), expected.clone());
            prop_assert_eq!(value(&history::current(&store.connection, &key(&id)).unwrap()), expected.clone());
            prop_assert_eq!(value(&store.state_at(&key(&id), store.seq()).unwrap()), expected);
        }
    }
}
