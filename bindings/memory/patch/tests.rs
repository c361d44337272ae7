//! Each operation where it applies and where it does not.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn patched(document: Value, patches: Value) -> Result<Value, PatchError> {
    let patches: Result<Vec<Patch>, PatchError> = patches
        .as_array()
        .unwrap()
        .iter()
        .map(|patch| Patch::from_data(&Data::from_plain(patch.clone())))
        .collect();
    apply_all(Some(Data::from_plain(document)), &patches?).map(|document| document.to_plain())
}

fn one(value: Value, patch: Value) -> Result<Value, PatchError> {
    patched(json!({"value": value}), json!([patch])).map(|document| document["value"].clone())
}

#[test]
fn replace_makes_a_key_but_neither_a_parent_nor_an_item() {
    assert_eq!(
        one(json!({"a": 1}), json!({"op": "replace", "path": "/value/a", "value": 2})).unwrap(),
        json!({"a": 2})
    );
    assert_eq!(
        one(json!({}), json!({"op": "replace", "path": "/value/b", "value": 2})).unwrap(),
        json!({"b": 2})
    );
    assert!(one(json!({}), json!({"op": "replace", "path": "/value/p/q", "value": 2})).is_err());
    assert!(one(json!([1]), json!({"op": "replace", "path": "/value/1", "value": 2})).is_err());
    assert!(one(json!("text"), json!({"op": "replace", "path": "/value/a", "value": 2})).is_err());
}

#[test]
fn add_makes_objects_on_the_way_but_no_items() {
    assert_eq!(
        one(json!({}), json!({"op": "add", "path": "/value/a/b", "value": 1})).unwrap(),
        json!({"a": {"b": 1}})
    );
    assert_eq!(
        one(json!([1, 3]), json!({"op": "add", "path": "/value/1", "value": 2})).unwrap(),
        json!([1, 2, 3])
    );
    assert_eq!(one(json!([1]), json!({"op": "add", "path": "/value/-", "value": 2})).unwrap(), json!([1, 2]));
    assert_eq!(
        one(json!({}), json!({"op": "add", "path": "/value/l/0", "value": 2})).unwrap(),
        json!({"l": [2]})
    );
    assert!(one(json!([]), json!({"op": "add", "path": "/value/9", "value": 1})).is_err());
    assert!(one(json!([]), json!({"op": "add", "path": "/value/0/a", "value": 1})).is_err());
    assert!(one(json!({}), json!({"op": "add", "path": "/value/l/0/a", "value": 1})).is_err());
    assert!(one(json!(5), json!({"op": "add", "path": "/value/a", "value": 1})).is_err());
}

#[test]
fn remove_needs_something_there_and_leaves_the_root() {
    assert_eq!(
        one(json!({"a": 1, "b": 2}), json!({"op": "remove", "path": "/value/a"})).unwrap(),
        json!({"b": 2})
    );
    assert_eq!(one(json!([1, 2, 3]), json!({"op": "remove", "path": "/value/1"})).unwrap(), json!([1, 3]));
    assert!(one(json!({}), json!({"op": "remove", "path": "/value/a"})).is_err());
    assert_eq!(one(json!({}), json!({"op": "remove", "path": ""})), Err(PatchError::Root));
}

#[test]
fn move_takes_a_value_elsewhere_but_not_into_itself() {
    let moved = one(json!({"a": {"x": 1}}), json!({"op": "move", "from": "/value/a", "path": "/value/b"}));
    assert_eq!(moved.unwrap(), json!({"b": {"x": 1}}));
    let within = one(json!([1, 2]), json!({"op": "move", "from": "/value/0", "path": "/value/1"}));
    assert_eq!(within.unwrap(), json!([2, 1]));
    let inside = one(json!({"a": {}}), json!({"op": "move", "from": "/value/a", "path": "/value/a/b"}));
    assert_eq!(inside, Err(PatchError::IntoItself));
    let same = one(json!({"a": 1}), json!({"op": "move", "from": "/value/a", "path": "/value/a"}));
    assert_eq!(same.unwrap(), json!({"a": 1}));
    assert!(one(json!({}), json!({"op": "move", "from": "/value/a", "path": "/value/b"})).is_err());
    assert!(one(json!({}), json!({"op": "move", "from": "", "path": "/value/b"})).is_err());
}

#[test]
fn splice_starts_inside_of_the_list() {
    let splice = |index, remove, add: Value| {
        one(
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
        one(json!({}), json!({"op": "splice", "path": "/value", "index": 0, "remove": 0, "add": []}))
            .is_err()
    );
}

#[test]
fn append_and_add_unique_make_the_list_they_miss() {
    let appended = one(json!({}), json!({"op": "append", "path": "/value/a/l", "values": [1, 1]}));
    assert_eq!(appended.unwrap(), json!({"a": {"l": [1, 1]}}));
    let unique = one(
        json!([1, {"a": 1, "b": 2}]),
        json!({"op": "add-unique", "path": "/value", "values": [{"b": 2, "a": 1}, 2, 2, 1.0]}),
    );
    assert_eq!(unique.unwrap(), json!([1, {"a": 1, "b": 2}, 2]));
    for op in ["append", "add-unique"] {
        assert!(one(json!({"l": {}}), json!({"op": op, "path": "/value/l", "values": [1]})).is_err());
        assert!(one(json!({}), json!({"op": op, "path": "/value/l", "values": 1})).is_err());
    }
}

#[test]
fn remove_by_value_takes_all_equal_ones_and_minds_nothing_missing() {
    let remove =
        |value: Value, path: &str| one(value, json!({"op": "remove-by-value", "path": path, "value": 1}));
    assert_eq!(remove(json!([1, 2, 1]), "/value").unwrap(), json!([2]));
    assert_eq!(remove(json!({"a": 5}), "/value/a").unwrap(), json!({"a": 5}));
    assert_eq!(remove(json!({}), "/value/none/at").unwrap(), json!({}));
}

#[test]
fn increment_starts_at_nothing_and_adds_to_numbers_only() {
    assert_eq!(
        one(json!({"n": 1}), json!({"op": "increment", "path": "/value/n", "by": 2.5})).unwrap(),
        json!({"n": 3.5})
    );
    assert_eq!(
        one(json!({}), json!({"op": "increment", "path": "/value/m/k", "by": -1})).unwrap(),
        json!({"m": {"k": -1}})
    );
    assert_eq!(
        one(json!([1]), json!({"op": "increment", "path": "/value/1", "by": 1})).unwrap(),
        json!([1, 1])
    );
    assert!(one(json!({"n": "1"}), json!({"op": "increment", "path": "/value/n", "by": 1})).is_err());
    assert!(one(json!({"n": 1}), json!({"op": "increment", "path": "/value/n", "by": 0})).is_err());
    assert!(one(json!({"n": 1}), json!({"op": "increment", "path": "", "by": 1})).is_err());
}

#[test]
fn a_pointer_leads_through_escaped_objects_but_not_into_tags() {
    let link = json!({"l": {"/": {"link@1": {"id": "of:x"}}}});
    let changed = one(link, json!({"op": "replace", "path": "/value/l/~1/link@1/id", "value": "of:y"}));
    assert_eq!(changed.unwrap(), json!({"l": {"/": {"link@1": {"id": "of:y"}}}}));
    let tag = json!({"b": {"/Bytes@1": "AA"}});
    assert!(one(tag, json!({"op": "replace", "path": "/value/b/~1Bytes@1", "value": ""})).is_err());
}

#[test]
fn what_is_left_is_a_document() {
    assert_eq!(
        patched(json!({}), json!([{"op": "replace", "path": "", "value": {"value": 1}}])).unwrap(),
        json!({"value": 1})
    );
    assert_eq!(
        patched(json!({}), json!([{"op": "replace", "path": "", "value": 1}])),
        Err(PatchError::NotADocument)
    );
    assert_eq!(patched(json!({}), json!([{"op": "explode", "path": ""}])), Err(PatchError::Malformed("op")));
}

#[test]
fn nesting_ends_at_its_limit() {
    let deep = |levels: usize| {
        let steps = "/a".repeat(levels);
        patched(json!({}), json!([{"op": "add", "path": steps, "value": 1}]))
    };
    assert!(deep(DOCUMENT_DEPTH_MAX).is_ok());
    assert!(deep(DOCUMENT_DEPTH_MAX + 1).is_err());
    let half = "/a".repeat(DOCUMENT_DEPTH_MAX / 2 + 1);
    let stacked = json!([
        {"op": "add", "path": half, "value": {}},
        {"op": "add", "path": format!("/b{half}"), "value": {}},
        {"op": "move", "from": "/b", "path": format!("{half}/b")},
    ]);
    assert_eq!(patched(json!({}), stacked), Err(PatchError::TooDeep));
}

#[test]
fn lists_in_operations_end_at_their_limit() {
    let append =
        |count: usize| one(json!([]), json!({"op": "append", "path": "/value", "values": vec![0; count]}));
    assert_eq!(append(PATCH_ITEMS_MAX).unwrap().as_array().unwrap().len(), PATCH_ITEMS_MAX);
    assert_eq!(append(PATCH_ITEMS_MAX + 1), Err(PatchError::Malformed("values")));
}

#[test]
fn what_an_operation_touches_is_what_it_names() {
    let patch = |value: Value| Patch::from_data(&Data::from_plain(value)).unwrap();
    let moved = patch(json!({"op": "move", "from": "/a", "path": "/b"}));
    assert_eq!(moved.touched(), [&["a".to_owned()][..], &["b".to_owned()][..]]);
    assert!(moved.changes_keys());
    assert!(!patch(json!({"op": "increment", "path": "/a", "by": 1})).changes_keys());
    assert!(patch(json!({"op": "increment", "path": "/a", "by": 1, "createsKey": true})).changes_keys());
}

proptest! {
    #[test]
    fn a_patch_changes_nothing_beside_what_it_touches(key in "[abc]", index in 0usize..4, op in 0usize..5) {
        let value = json!({"a": [1, 2], "b": {"c": 1}, "c": 7});
        let path = format!("/value/{key}");
        let patch = match op {
            0 => json!({"op": "replace", "path": path, "value": 9}),
            1 => json!({"op": "remove", "path": path}),
            2 => json!({"op": "add", "path": format!("{path}/{index}"), "value": 9}),
            3 => json!({"op": "append", "path": path, "values": [9]}),
            _ => json!({"op": "increment", "path": path, "by": 1}),
        };
        if let Ok(after) = one(value.clone(), patch) {
            for other in ["a", "b", "c"].into_iter().filter(|other| *other != key) {
                prop_assert_eq!(&after[other], &value[other]);
            }
        }
    }
}
