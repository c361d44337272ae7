//! Wire forms and how they read.

use super::*;
use serde_json::json;

fn shown(value: Value) -> String {
    inspect(&value, Style::plain())
}

#[test]
fn plain_values_are_printed_as_javascript() {
    for (value, expected) in [
        (json!(null), "null"),
        (json!(142.5), "142.5"),
        (json!(3.0), "3"),
        (json!(true), "true"),
        (json!("it's"), "\"it's\""),
        (json!("a\n\u{1b}[0m"), "'a\\n\\x1b[0m'"),
        (json!([]), "[]"),
        (json!({}), "{}"),
        (json!([1, [2]]), "[ 1, [ 2 ] ]"),
        (json!({"a": 1, "b-c": "x"}), "{ a: 1, 'b-c': 'x' }"),
    ] {
        assert_eq!(shown(value), expected);
    }
}

#[test]
fn tagged_values_are_printed_as_javascript() {
    for (value, expected) in [
        (json!({"$undefined": true}), "undefined"),
        (json!({"$bigint": "12"}), "12n"),
        (json!({"$number": "-0"}), "-0"),
        (json!({"$date": "2026-01-01T00:00:00.000Z"}), "2026-01-01T00:00:00.000Z"),
        (json!({"$bytes": "AQL/"}), "Uint8Array(3) [ 1, 2, 255 ]"),
        (json!({"$map": [["a", {"$bigint": "1"}]]}), "Map(1) { 'a' => 1n }"),
        (json!({"$set": [1, "x"]}), "Set(2) { 1, 'x' }"),
        (json!({"$set": []}), "Set(0) {}"),
        (json!({"$fn": "f1", "name": "onTick"}), "[Function: onTick]"),
        (json!({"$fn": "f1"}), "[Function (anonymous)]"),
        (json!({"$object": {"$set": 1}}), "{ $set: 1 }"),
        (json!({"$error": {"name": "Error", "message": "no"}}), "[Error: no]"),
    ] {
        assert_eq!(shown(value), expected);
    }
}

#[test]
fn malformed_tag_is_printed_as_a_plain_object() {
    assert_eq!(shown(json!({"$set": 1})), "{ $set: 1 }");
    assert_eq!(shown(json!({"$bytes": "%"})), "{ $bytes: '%' }");
    assert_eq!(shown(json!({"$bigint": "1", "b": 2})), "{ $bigint: '1', b: 2 }");
}

#[test]
fn error_is_printed_with_stack_and_cause() {
    let value = json!({"$error": {"name": "TypeError", "message": "no", "stack": "    at f (a.js:1:2)\n", "cause": 7}});
    assert_eq!(shown(value), "TypeError: no\n    at f (a.js:1:2) { [cause]: 7 }");
}

#[test]
fn wide_group_has_one_entry_per_line() {
    let long = "x".repeat(40);
    let text = shown(json!({"a": long, "b": [long], "c": 1}));
    assert_eq!(text, format!("{{\n  a: '{long}',\n  b: [ '{long}' ],\n  c: 1\n}}"));
}

#[test]
fn groups_are_cut_past_their_limit() {
    let all: Vec<usize> = vec![0; ENTRIES_SHOWN_MAX];
    assert!(!shown(json!(all)).contains("more item"));
    let more: Vec<usize> = vec![0; ENTRIES_SHOWN_MAX + 1];
    assert!(shown(json!(more)).ends_with("... 1 more item\n]"));
}
