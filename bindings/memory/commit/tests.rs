//! Shapes of commits, and the table of what conflicts with what.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn commit(value: Value) -> Result<Commit, CommitShape> {
    Commit::from_data(&Data::from_plain(value))
}

fn with(operations: Value) -> Result<Commit, CommitShape> {
    commit(json!({"localSeq": 1, "reads": {"confirmed": [], "pending": []}, "operations": operations}))
}

fn read(path: &[&str], is_shallow: bool) -> Read {
    let path = path.iter().map(|step| (*step).to_owned()).collect();
    Read { entity: Entity::new("of:x", Scope::Space), path, is_shallow }
}

fn patches(patches: Value) -> Written {
    let patches = patches.as_array().unwrap();
    Written::Patches(
        patches.iter().map(|patch| Patch::from_data(&Data::from_plain(patch.clone())).unwrap()).collect(),
    )
}

#[test]
fn a_commit_has_reads_and_something_to_do() {
    assert!(with(json!([{"op": "delete", "id": "of:x"}])).is_ok());
    assert_eq!(with(json!([])), Err(CommitShape::Empty));
    assert!(commit(json!({"localSeq": 1, "operations": [{"op": "delete", "id": "of:x"}]})).is_err());
    assert!(commit(json!({"reads": {}, "operations": [{"op": "delete", "id": "of:x"}]})).is_err());
    assert_eq!(with(json!([{"op": "sqlite", "id": "of:x"}])), Err(CommitShape::Operation));
    assert_eq!(with(json!([{"op": "delete"}])), Err(CommitShape::Operation));
    assert_eq!(with(json!([{"op": "set", "id": "of:x", "value": 5}])), Err(CommitShape::Document));
    assert_eq!(with(json!([{"op": "delete", "id": "of:x", "scope": "planet"}])), Err(CommitShape::Operation));
    let branch =
        json!({"localSeq": 1, "reads": {}, "operations": [{"op": "delete", "id": "of:x"}], "branch": "b"});
    assert_eq!(commit(branch), Err(CommitShape::Branch("b".to_owned())));
}

#[test]
fn the_order_of_members_makes_no_other_commit() {
    let one = with(json!([{"op": "set", "id": "of:x", "value": {"value": {"a": 1, "b": 2}}}])).unwrap();
    let other = with(json!([{"value": {"value": {"b": 2, "a": 1}}, "id": "of:x", "op": "set"}])).unwrap();
    assert_eq!(one.original, other.original);
}

#[test]
fn a_commit_is_as_long_as_allowed_and_no_longer() {
    let operations = |count| Value::Array(vec![json!({"op": "delete", "id": "of:x"}); count]);
    assert_eq!(with(operations(COMMIT_ITEMS_MAX)).unwrap().operations.len(), COMMIT_ITEMS_MAX);
    assert!(with(operations(COMMIT_ITEMS_MAX + 1)).is_err());
    let patches = |count| json!([{"op": "patch", "id": "of:x", "patches": vec![json!({"op": "remove", "path": "/a"}); count]}]);
    assert!(with(patches(PATCHES_MAX)).is_ok());
    assert!(with(patches(PATCHES_MAX + 1)).is_err());
}

#[test]
fn a_document_is_as_deep_as_allowed_and_no_deeper() {
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    let set = |document: Value| with(json!([{"op": "set", "id": "of:x", "value": document}]));
    assert!(set(nested(DOCUMENT_DEPTH_MAX)).is_ok());
    assert_eq!(set(nested(DOCUMENT_DEPTH_MAX + 1)), Err(CommitShape::Document));
}

#[test]
fn identifiers_are_as_long_as_allowed_and_no_longer() {
    assert!(with(json!([{"op": "delete", "id": "x".repeat(ID_BYTES_MAX)}])).is_ok());
    assert!(with(json!([{"op": "delete", "id": "x".repeat(ID_BYTES_MAX + 1)}])).is_err());
}

#[test]
fn a_whole_document_makes_every_read_stale() {
    assert!(is_stale(&read(&["value", "zzz"], false), &Written::Whole));
    assert!(is_stale(&read(&[], true), &Written::Whole));
}

#[test]
fn a_patch_makes_reads_at_above_and_below_it_stale() {
    let written = patches(json!([{"op": "replace", "path": "/value/a/b", "value": 1}]));
    let cases: [(&[&str], bool); 6] = [
        (&["value", "a", "b"], true),
        (&["value"], true),
        (&[], true),
        (&["value", "a", "b", "c"], true),
        (&["value", "c"], false),
        (&["value", "a", "bb"], false),
    ];
    for (path, stale) in cases {
        assert_eq!(is_stale(&read(path, false), &written), stale, "{path:?}");
    }
}

#[test]
fn a_shallow_read_minds_keys_and_what_is_above_it() {
    let replaced = patches(json!([{"op": "replace", "path": "/value/a/b", "value": 1}]));
    assert!(!is_stale(&read(&["value"], true), &replaced));
    assert!(is_stale(&read(&["value", "a", "b", "c"], true), &replaced));
    for added in [
        json!([{"op": "add", "path": "/value/d", "value": 1}]),
        json!([{"op": "remove", "path": "/value/d"}]),
        json!([{"op": "move", "from": "/value/d", "path": "/other/e"}]),
        json!([{"op": "append", "path": "/value/d", "values": [], "createsKey": true}]),
    ] {
        assert!(is_stale(&read(&["value"], true), &patches(added.clone())), "{added}");
        assert!(!is_stale(&read(&["value", "c"], false), &patches(added)));
    }
    assert!(!is_stale(
        &read(&["value"], true),
        &patches(json!([{"op": "increment", "path": "/value/d", "by": 1}]))
    ));
}

proptest! {
    #[test]
    fn a_deep_read_is_stale_whenever_a_shallow_one_of_the_same_place_is_touched_at_its_path(
        read_path in prop::collection::vec("[ab]", 0..4),
        patch_path in prop::collection::vec("[ab]", 1..4),
    ) {
        let pointer = super::super::path::to_pointer(&patch_path);
        let written = patches(json!([{"op": "replace", "path": pointer, "value": 1}]));
        let of = |is_shallow| Read { entity: Entity::new("of:x", Scope::Space), path: read_path.clone(), is_shallow };
        prop_assert!(!is_stale(&of(true), &written) || is_stale(&of(false), &written));
    }
}
