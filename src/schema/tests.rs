//! Behaviour of compiled schemas.

mod agreement;
mod client;
mod hostile;

use super::*;
use serde_json::json;

fn compile(schema: Value) -> Schema {
    Schema::compile(&schema, SchemaSource::Operator).unwrap()
}

fn refusal(schema: Value) -> (String, String) {
    let error = Schema::compile(&schema, SchemaSource::Operator).unwrap_err();
    (error.path, error.message)
}

fn failures(schema: Value, instance: Value) -> Vec<(String, String)> {
    let failures = compile(schema).check(&instance).unwrap_err().into_failures();
    failures.into_iter().map(|failure| (failure.path, failure.message)).collect()
}

fn only_failure(schema: Value, instance: Value) -> (String, String) {
    let mut all = failures(schema, instance);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn schema_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
}

#[test]
fn failures_say_what_was_expected_and_where() {
    let order = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}, "total": {"type": "number", "minimum": 0}, "state": {"enum": ["new", "paid"]}},
        "required": ["id"],
        "additionalProperties": false
    });
    let wrong = json!({"total": -1, "state": "lost", "extra": 1});
    let mut got = failures(order.clone(), wrong);
    got.sort();
    let expected = [
        ("", "missing property \"id\""),
        ("", "unexpected property \"extra\""),
        ("/state", "expected one of \"new\", \"paid\", got \"lost\""),
        ("/total", "expected at least 0, got -1"),
    ];
    assert_eq!(got, expected.map(|(path, message)| (path.to_owned(), message.to_owned())));
    let number_for_id = only_failure(order, json!({"id": 7}));
    assert_eq!(number_for_id, ("/id".into(), "expected string, got number".into()));
}

#[test]
fn failed_alternative_is_reported_by_the_intended_one() {
    let order_or_null = json!({
        "oneOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}],
        "$defs": {"Order": {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["id"]}}
    });
    let mut got = failures(order_or_null.clone(), json!({"total": "1"}));
    got.sort();
    assert_eq!(got[0], ("".into(), "missing property \"id\"".into()));
    assert_eq!(got[1], ("/total".into(), "expected number, got string".into()));
    assert_eq!(only_failure(order_or_null, json!(3)).1, "expected object or null, got number");
}

#[test]
fn variant_is_recognized_by_its_constant() {
    let shape = json!({"anyOf": [
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["radius"]},
        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["side"]}
    ]});
    assert_eq!(only_failure(shape, json!({"kind": "square"})).1, "missing property \"side\"");
}

#[test]
fn instance_is_never_quoted_at_length() {
    let long = "x".repeat(100_000);
    for schema in [json!({"const": 1}), json!({"pattern": "^a"}), json!({"enum": [long]}), json!({"not": {}})]
    {
        let (_, message) = only_failure(schema, json!(format!("{long}y")));
        assert!(message.chars().count() <= 200, "{message}");
    }
    let (_, message) = only_failure(json!({"additionalProperties": false}), json!({long: 1}));
    assert!(message.chars().count() <= 200, "{message}");
}

#[test]
fn failures_are_listed_up_to_the_limit() {
    let strings = json!({"items": {"type": "string"}});
    assert_eq!(failures(strings.clone(), json!(vec![1; FAILURES_LISTED_MAX])).len(), FAILURES_LISTED_MAX);
    assert_eq!(failures(strings, json!(vec![1; FAILURES_LISTED_MAX + 1])).len(), FAILURES_LISTED_MAX);
}

#[test]
fn value_too_large_to_list_still_has_a_verdict() {
    let strings = json!({"items": {"type": "string"}});
    let (path, message) = only_failure(strings, json!(vec![1; 300_000]));
    assert_eq!((path.as_str(), message.as_str()), ("", "does not match the schema; too large to say where"));
}

#[test]
fn invalid_schemas_are_refused_with_the_place() {
    assert_eq!(refusal(json!(3)).0, "");
    assert_eq!(refusal(json!({"properties": {"a": {"type": "strin"}}})).0, "/properties/a/type");
    assert_eq!(refusal(json!({"required": "a"})).1, "expected array, got string");
    let (path, message) = refusal(json!({"properties": {"a": {"pattern": "("}}}));
    assert_eq!(path, "/properties/a/pattern");
    assert_eq!(message, "expected a regular expression, got \"(\"");
}

#[test]
fn boolean_and_annotated_schemas_are_fine() {
    assert!(compile(json!(true)).check(&json!(1)).is_ok());
    assert_eq!(only_failure(json!(false), json!(1)).1, "no value is allowed here");
    let function = json!({"type": "object", "required": ["$fn"], "x-fn": {"input": 7}});
    assert!(compile(function).check(&json!({"$fn": "f1"})).is_ok());
}

#[test]
fn format_is_an_annotation() {
    assert!(compile(json!({"format": "email"})).check(&json!("no mail")).is_ok());
}

#[test]
fn only_draft_2020_12_is_accepted() {
    compile(json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}));
    for other in ["http://json-schema.org/draft-07/schema#", "https://example.com/mine"] {
        assert_eq!(refusal(json!({"$schema": other})).0, "/$schema");
    }
}

#[test]
fn references_stay_inside_the_document() {
    let (path, message) = refusal(json!({"properties": {"a/b": {"$ref": "http://x.y/z"}}}));
    assert_eq!(path, "/properties/a~1b/$ref");
    assert_eq!(message, "`http://x.y/z` cannot be resolved inside the schema, and nothing is fetched");
    assert_eq!(refusal(json!({"allOf": [{}, {"$ref": "#/$defs/none"}]})).0, "/allOf/1/$ref");
    assert_eq!(refusal(json!({"$defs": {"unused": {"$ref": "#none"}}})).0, "/$defs/unused/$ref");
    assert_eq!(refusal(json!({"items": {"$dynamicRef": "#none"}})).0, "/items/$dynamicRef");
}

#[test]
fn local_references_of_every_kind_resolve() {
    for reference in ["#/$defs/a", "#here", "other.json", "https://x.y/other.json#/$defs/deep", "#/%24defs/a"]
    {
        let schema = json!({
            "$id": "https://x.y/root.json",
            "$ref": reference,
            "$defs": {
                "a": {"type": "string", "$anchor": "here"},
                "b": {"$id": "other.json", "type": "string", "$defs": {"deep": {"type": "string"}}}
            }
        });
        assert_eq!(only_failure(schema, json!(1)).1, "expected string, got number", "{reference}");
    }
}

#[test]
fn metaschema_counts_as_local_and_data_is_ignored() {
    let schema = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert_eq!(only_failure(schema, json!({"minLength": "a"})).0, "/minLength");
    compile(json!({"enum": [{"$ref": "http://x.y/z"}], "default": {"$ref": "#/none"}}));
}

#[test]
fn document_past_a_limit_is_refused() {
    let patterns = |count: usize| json!({"allOf": vec![json!({"pattern": "a"}); count]});
    compile(patterns(shape::PATTERNS_MAX));
    assert!(refusal(patterns(shape::PATTERNS_MAX + 1)).1.contains("patterns"));
    let subschemas = |count: usize| {
        let members: serde_json::Map<_, _> = (1..count).map(|name| (name.to_string(), json!({}))).collect();
        json!({ "properties": members })
    };
    compile(subschemas(shape::SUBSCHEMAS_MAX));
    assert!(refusal(subschemas(shape::SUBSCHEMAS_MAX + 1)).1.contains("subschemas"));
}

#[test]
fn large_patterns_are_fine_one_at_a_time() {
    let names = json!({"pattern": "^\\p{L}{1,100}$"});
    assert!(compile(names.clone()).check(&json!("Zoë")).is_ok());
    let crowd: Vec<Value> =
        (1..20).map(|most| json!({"pattern": format!("^\\p{{L}}{{1,{}}}$", 80 + most)})).collect();
    let (path, message) = refusal(json!({ "allOf": crowd }));
    assert!(path.starts_with("/allOf/") && message.contains("patterns of at most"), "{path}: {message}");
}

#[test]
fn ten_thousand_enum_members_are_fine() {
    let members: Vec<String> = (0..10_000).map(|member| member.to_string()).collect();
    let schema = compile(json!({ "enum": members }));
    assert!(schema.check(&json!("9999")).is_ok());
    assert!(schema.check(&json!("10000")).unwrap_err().into_failures()[0].message.contains("(10000 in all)"));
}
