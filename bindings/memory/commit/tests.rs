//! Malformed commits, limits, and which writes make which reads stale.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn commit(value: Value) -> Result<Commit, CommitError> {
    Commit::from_data(&Data::from_plain(value))
}

fn commit_with(operations: Value) -> Result<Commit, CommitError> {
    commit(json!({"localSeq": 1, "reads": {"confirmed": [], "pending": []}, "operations": operations}))
}

fn read(path: &[&str], is_shallow: bool) -> Read {
    let path = path.iter().map(|step| (*step).to_owned()).collect();
    Read { entity: Entity::new("of:x", Scope::Space), path, is_shallow }
}

fn patches(patches: Value) -> Write {
    let patches = patches.as_array().unwrap();
    Write::Patches(
        patches.iter().map(|patch| Patch::from_data(&Data::from_plain(patch.clone())).unwrap()).collect(),
    )
}

#[test]
fn malformed_commit_is_rejected() {
    assert!(commit_with(json!([{"op": "delete", "id": "of:x"}])).is_ok());
    assert_eq!(commit_with(json!([])), Err(CommitError::Empty));
    assert!(commit(json!({"localSeq": 1, "operations": [{"op": "delete", "id": "of:x"}]})).is_err());
    assert!(commit(json!({"reads": {}, "operations": [{"op": "delete", "id": "of:x"}]})).is_err());
    assert_eq!(commit_with(json!([{"op": "sqlite", "id": "of:x"}])), Err(CommitError::Operation(0)));
    assert_eq!(commit_with(json!([{"op": "delete"}])), Err(CommitError::Operation(0)));
    assert_eq!(commit_with(json!([{"op": "set", "id": "of:x", "value": 5}])), Err(CommitError::Document(0)));
    assert_eq!(
        commit_with(json!([{"op": "delete", "id": "of:x", "scope": "planet"}])),
        Err(CommitError::Operation(0))
    );
    let branch =
        json!({"localSeq": 1, "reads": {}, "operations": [{"op": "delete", "id": "of:x"}], "branch": "b"});
    assert_eq!(commit(branch), Err(CommitError::Branch("b".to_owned())));
}

#[test]
fn malformed_commit_error_names_the_field_and_index() {
    let read = json!({"id": "of:x", "path": [], "seq": 1});
    let message = |reads: Value, operations: Value| {
        commit(json!({"localSeq": 1, "reads": reads, "operations": operations})).unwrap_err().to_string()
    };
    let delete = json!([{"op": "delete", "id": "of:x"}]);
    assert_eq!(message(json!({"confirmed": 5}), delete.clone()), "commit.reads.confirmed: expected a list");
    assert_eq!(
        message(json!({"confirmed": [read, {}]}), delete.clone()),
        "commit.reads.confirmed[1]: invalid read"
    );
    assert_eq!(message(json!({"pending": [read]}), delete), "commit.reads.pending[0]: invalid read");
    assert_eq!(message(json!({}), json!([])), "commit.operations: expected at least one operation");
    let patch = json!([{"op": "patch", "id": "of:x", "patches": [{"op": "remove"}]}]);
    assert_eq!(message(json!({}), patch), "commit.operations[0].patches[0]: path: expected a JSON pointer");
}

#[test]
fn member_order_does_not_change_the_canonical_form() {
    let one =
        commit_with(json!([{"op": "set", "id": "of:x", "value": {"value": {"a": 1, "b": 2}}}])).unwrap();
    let other =
        commit_with(json!([{"value": {"value": {"b": 2, "a": 1}}, "id": "of:x", "op": "set"}])).unwrap();
    assert_eq!(one.original, other.original);
}

#[test]
fn commit_past_its_item_limits_is_rejected() {
    let operations = |count| Value::Array(vec![json!({"op": "delete", "id": "of:x"}); count]);
    assert_eq!(commit_with(operations(COMMIT_ITEMS_MAX)).unwrap().operations.len(), COMMIT_ITEMS_MAX);
    assert!(commit_with(operations(COMMIT_ITEMS_MAX + 1)).is_err());
    let patches = |count| json!([{"op": "patch", "id": "of:x", "patches": vec![json!({"op": "remove", "path": "/a"}); count]}]);
    assert!(commit_with(patches(PATCHES_MAX)).is_ok());
    assert!(commit_with(patches(PATCHES_MAX + 1)).is_err());
}

#[test]
fn document_past_its_depth_limit_is_rejected() {
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    let set = |document: Value| commit_with(json!([{"op": "set", "id": "of:x", "value": document}]));
    assert!(set(nested(DOCUMENT_DEPTH_MAX)).is_ok());
    assert_eq!(set(nested(DOCUMENT_DEPTH_MAX + 1)), Err(CommitError::Document(0)));
}

#[test]
fn id_past_its_length_limit_is_rejected() {
    assert!(commit_with(json!([{"op": "delete", "id": "x".repeat(ID_BYTES_MAX)}])).is_ok());
    assert!(commit_with(json!([{"op": "delete", "id": "x".repeat(ID_BYTES_MAX + 1)}])).is_err());
}

#[test]
fn document_write_makes_every_read_stale() {
    assert!(is_stale(&read(&["value", "zzz"], false), &Write::Document));
    assert!(is_stale(&read(&[], true), &Write::Document));
}

#[test]
fn patch_makes_reads_at_above_and_below_it_stale() {
    let write = patches(json!([{"op": "replace", "path": "/value/a/b", "value": 1}]));
    let cases: [(&[&str], bool); 6] = [
        (&["value", "a", "b"], true),
        (&["value"], true),
        (&[], true),
        (&["value", "a", "b", "c"], true),
        (&["value", "c"], false),
        (&["value", "a", "bb"], false),
    ];
    for (path, stale) in cases {
        assert_eq!(is_stale(&read(path, false), &write), stale, "{path:?}");
    }
}

#[test]
fn shallow_read_depends_on_keys_and_on_values_above() {
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
    fn deep_read_is_stale_whenever_a_shallow_one_is(
        read_path in prop::collection::vec("[ab]", 0..4),
        patch_path in prop::collection::vec("[ab]", 1..4),
    ) {
        let pointer = super::super::path::to_pointer(&patch_path);
        let write = patches(json!([{"op": "replace", "path": pointer, "value": 1}]));
        let read_with = |is_shallow| Read { entity: Entity::new("of:x", Scope::Space), path: read_path.clone(), is_shallow };
        prop_assert!(!is_stale(&read_with(true), &write) || is_stale(&read_with(false), &write));
    }
}
