//! Each operation, applicable and not applicable.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn apply_patches(document: Value, patches: Value) -> Result<Value, PatchError> {
    let patches: Result<Vec<Patch>, PatchError> = patches
        .as_array()
        .unwrap()
        .iter()
        .map(|patch| Patch::from_data(&Data::from_plain(patch.clone())))
        .collect();
    apply_all(Some(Data::from_plain(document)), &patches?).map(|document| document.to_plain())
}

fn apply_to_value(value: Value, patch: Value) -> Result<Value, PatchError> {
    apply_patches(json!({"value": value}), json!([patch])).map(|document| document["value"].clone())
}

#[test]
fn replace_creates_keys_but_not_parents_or_items() {
    assert_eq!(
        apply_to_value(json!({"a": 1}), json!({"op": "replace", "path": "/value/a", "value": 2})).unwrap(),
        json!({"a": 2})
    );
    assert_eq!(
        apply_to_value(json!({}), json!({"op": "replace", "path": "/value/b", "value": 2})).unwrap(),
        json!({"b": 2})
    );
    assert!(apply_to_value(json!({}), json!({"op": "replace", "path": "/value/p/q", "value": 2})).is_err());
    assert!(apply_to_value(json!([1]), json!({"op": "replace", "path": "/value/1", "value": 2})).is_err());
    assert!(apply_to_value(json!("text"), json!({"op": "replace", "path": "/value/a", "value": 2})).is_err());
}

#[test]
fn add_creates_parent_objects_but_not_items() {
    assert_eq!(
        apply_to_value(json!({}), json!({"op": "add", "path": "/value/a/b", "value": 1})).unwrap(),
        json!({"a": {"b": 1}})
    );
    assert_eq!(
        apply_to_value(json!([1, 3]), json!({"op": "add", "path": "/value/1", "value": 2})).unwrap(),
        json!([1, 2, 3])
    );
    assert_eq!(
        apply_to_value(json!([1]), json!({"op": "add", "path": "/value/-", "value": 2})).unwrap(),
        json!([1, 2])
    );
    assert_eq!(
        apply_to_value(json!({}), json!({"op": "add", "path": "/value/l/0", "value": 2})).unwrap(),
        json!({"l": [2]})
    );
    assert!(apply_to_value(json!([]), json!({"op": "add", "path": "/value/9", "value": 1})).is_err());
    assert!(apply_to_value(json!([]), json!({"op": "add", "path": "/value/0/a", "value": 1})).is_err());
    assert!(apply_to_value(json!({}), json!({"op": "add", "path": "/value/l/0/a", "value": 1})).is_err());
    assert!(apply_to_value(json!(5), json!({"op": "add", "path": "/value/a", "value": 1})).is_err());
}

#[test]
fn remove_of_a_missing_value_or_the_root_fails() {
    assert_eq!(
        apply_to_value(json!({"a": 1, "b": 2}), json!({"op": "remove", "path": "/value/a"})).unwrap(),
        json!({"b": 2})
    );
    assert_eq!(
        apply_to_value(json!([1, 2, 3]), json!({"op": "remove", "path": "/value/1"})).unwrap(),
        json!([1, 3])
    );
    assert!(apply_to_value(json!({}), json!({"op": "remove", "path": "/value/a"})).is_err());
    assert_eq!(apply_to_value(json!({}), json!({"op": "remove", "path": ""})), Err(PatchError::Root));
}

#[test]
fn move_into_its_own_descendant_fails() {
    let moved =
        apply_to_value(json!({"a": {"x": 1}}), json!({"op": "move", "from": "/value/a", "path": "/value/b"}));
    assert_eq!(moved.unwrap(), json!({"b": {"x": 1}}));
    let within = apply_to_value(json!([1, 2]), json!({"op": "move", "from": "/value/0", "path": "/value/1"}));
    assert_eq!(within.unwrap(), json!([2, 1]));
    let inside =
        apply_to_value(json!({"a": {}}), json!({"op": "move", "from": "/value/a", "path": "/value/a/b"}));
    assert_eq!(inside, Err(PatchError::IntoItself));
    let same = apply_to_value(json!({"a": 1}), json!({"op": "move", "from": "/value/a", "path": "/value/a"}));
    assert_eq!(same.unwrap(), json!({"a": 1}));
    assert!(
        apply_to_value(json!({}), json!({"op": "move", "from": "/value/a", "path": "/value/b"})).is_err()
    );
    assert!(apply_to_value(json!({}), json!({"op": "move", "from": "", "path": "/value/b"})).is_err());
}

#[test]
fn splice_past_the_end_of_the_list_fails() {
    let splice = |index, remove, add: Value| {
        apply_to_value(
            json!([1, 2, 3]),
            json!({"op": "splice", "path": "/value", "index": index, "remove": remove, "add": add}),
        )
    };
    assert_eq!(splice(1, 1, json!([9, 8])).unwrap(), json!([1, 9, 8, 3]));
    assert_eq!(splice(3, 0, json!([4])).unwrap(), json!([1, 2, 3, 4]));
    assert_eq!(splice(0, 99, json!([])).unwrap(), json!([]));
    assert!(splice(4, 0, json!([])).is_err());
    assert!(splice(-1, 0, json!([])).is_err());
    assert!(
        apply_to_value(
            json!({}),
            json!({"op": "splice", "path": "/value", "index": 0, "remove": 0, "add": []})
        )
        .is_err()
    );
}

#[test]
fn append_and_add_unique_create_a_missing_list() {
    let appended = apply_to_value(json!({}), json!({"op": "append", "path": "/value/a/l", "values": [1, 1]}));
    assert_eq!(appended.unwrap(), json!({"a": {"l": [1, 1]}}));
    let unique = apply_to_value(
        json!([1, {"a": 1, "b": 2}]),
        json!({"op": "add-unique", "path": "/value", "values": [{"b": 2, "a": 1}, 2, 2, 1.0]}),
    );
    assert_eq!(unique.unwrap(), json!([1, {"a": 1, "b": 2}, 2]));
    for op in ["append", "add-unique"] {
        assert!(
            apply_to_value(json!({"l": {}}), json!({"op": op, "path": "/value/l", "values": [1]})).is_err()
        );
        assert!(apply_to_value(json!({}), json!({"op": op, "path": "/value/l", "values": 1})).is_err());
    }
}

#[test]
fn remove_by_value_removes_all_and_ignores_a_missing_list() {
    let remove = |value: Value, path: &str| {
        apply_to_value(value, json!({"op": "remove-by-value", "path": path, "value": 1}))
    };
    assert_eq!(remove(json!([1, 2, 1]), "/value").unwrap(), json!([2]));
    assert_eq!(remove(json!({"a": 5}), "/value/a").unwrap(), json!({"a": 5}));
    assert_eq!(remove(json!({}), "/value/none/at").unwrap(), json!({}));
}

#[test]
fn increment_starts_at_zero_and_needs_a_number() {
    assert_eq!(
        apply_to_value(json!({"n": 1}), json!({"op": "increment", "path": "/value/n", "by": 2.5})).unwrap(),
        json!({"n": 3.5})
    );
    assert_eq!(
        apply_to_value(json!({}), json!({"op": "increment", "path": "/value/m/k", "by": -1})).unwrap(),
        json!({"m": {"k": -1}})
    );
    assert_eq!(
        apply_to_value(json!([1]), json!({"op": "increment", "path": "/value/1", "by": 1})).unwrap(),
        json!([1, 1])
    );
    assert!(
        apply_to_value(json!({"n": "1"}), json!({"op": "increment", "path": "/value/n", "by": 1})).is_err()
    );
    assert!(
        apply_to_value(json!({"n": 1}), json!({"op": "increment", "path": "/value/n", "by": 0})).is_err()
    );
    assert!(apply_to_value(json!({"n": 1}), json!({"op": "increment", "path": "", "by": 1})).is_err());
}

#[test]
fn path_leads_through_escaped_objects_but_not_into_tags() {
    let link = json!({"l": {"/": {"link@1": {"id": "of:x"}}}});
    let changed =
        apply_to_value(link, json!({"op": "replace", "path": "/value/l/~1/link@1/id", "value": "of:y"}));
    assert_eq!(changed.unwrap(), json!({"l": {"/": {"link@1": {"id": "of:y"}}}}));
    let tag = json!({"b": {"/Bytes@1": "AA"}});
    assert!(
        apply_to_value(tag, json!({"op": "replace", "path": "/value/b/~1Bytes@1", "value": ""})).is_err()
    );
}

#[test]
fn patched_root_must_be_an_object() {
    assert_eq!(
        apply_patches(json!({}), json!([{"op": "replace", "path": "", "value": {"value": 1}}])).unwrap(),
        json!({"value": 1})
    );
    assert_eq!(
        apply_patches(json!({}), json!([{"op": "replace", "path": "", "value": 1}])),
        Err(PatchError::NotADocument)
    );
    assert_eq!(
        apply_patches(json!({}), json!([{"op": "explode", "path": ""}])),
        Err(PatchError::Field("op", "a patch operation"))
    );
}

#[test]
fn patch_past_the_nesting_limit_is_rejected() {
    let deep = |levels: usize| {
        let steps = "/a".repeat(levels);
        apply_patches(json!({}), json!([{"op": "add", "path": steps, "value": 1}]))
    };
    assert!(deep(DOCUMENT_DEPTH_MAX).is_ok());
    assert!(deep(DOCUMENT_DEPTH_MAX + 1).is_err());
    let half = "/a".repeat(DOCUMENT_DEPTH_MAX / 2 + 1);
    let stacked = json!([
        {"op": "add", "path": half, "value": {}},
        {"op": "add", "path": format!("/b{half}"), "value": {}},
        {"op": "move", "from": "/b", "path": format!("{half}/b")},
    ]);
    assert_eq!(apply_patches(json!({}), stacked), Err(PatchError::TooDeep));
}

#[test]
fn patch_past_its_item_limit_is_rejected() {
    let append = |count: usize| {
        apply_to_value(json!([]), json!({"op": "append", "path": "/value", "values": vec![0; count]}))
    };
    assert_eq!(append(PATCH_ITEMS_MAX).unwrap().as_array().unwrap().len(), PATCH_ITEMS_MAX);
    assert_eq!(append(PATCH_ITEMS_MAX + 1), Err(PatchError::TooManyItems("values")));
}

#[test]
fn changed_paths_are_those_of_the_operation() {
    let patch = |value: Value| Patch::from_data(&Data::from_plain(value)).unwrap();
    let moved = patch(json!({"op": "move", "from": "/a", "path": "/b"}));
    assert_eq!(moved.changed_paths(), [&["a".to_owned()][..], &["b".to_owned()][..]]);
    assert!(moved.changes_keys());
    assert!(!patch(json!({"op": "increment", "path": "/a", "by": 1})).changes_keys());
    assert!(patch(json!({"op": "increment", "path": "/a", "by": 1, "createsKey": true})).changes_keys());
}

proptest! {
    #[test]
    fn patch_changes_only_its_paths(key in "[abc]", index in 0usize..4, op in 0usize..5) {
        let value = json!({"a": [1, 2], "b": {"c": 1}, "c": 7});
        let path = format!("/value/{key}");
        let patch = match op {
            0 => json!({"op": "replace", "path": path, "value": 9}),
            1 => json!({"op": "remove", "path": path}),
            2 => json!({"op": "add", "path": format!("{path}/{index}"), "value": 9}),
            3 => json!({"op": "append", "path": path, "values": [9]}),
            _ => json!({"op": "increment", "path": path, "by": 1}),
        };
        if let Ok(after) = apply_to_value(value.clone(), patch) {
            for other in ["a", "b", "c"].into_iter().filter(|other| *other != key) {
                prop_assert_eq!(&after[other], &value[other]);
            }
        }
    }
}
