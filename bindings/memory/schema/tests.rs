//! Which values schemas reach, and the limits for hostile ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Whether any schema applies to the value at a path.
fn reaches(schema: Value, value: Value, path: &[&str]) -> bool {
    let mut schemas = Schemas::default();
    let schema = schemas.compile(&Data::from_plain(schema)).unwrap();
    let mut data = &Data::from_plain(value);
    let mut applying = BTreeSet::from([schema]);
    for step in path {
        let alternatives = schemas.apply(&applying, data).unwrap();
        applying = schemas.member_schemas(&alternatives, step);
        data = data.get(step).unwrap();
    }
    !applying.is_empty()
}

#[test]
fn unconstrained_schema_reaches_everything() {
    let value = json!({"a": {"b": 1}});
    for schema in [json!(true), json!({}), json!({"type": "object"}), json!({"description": "any"})] {
        assert!(reaches(schema.clone(), value.clone(), &["a", "b"]), "{schema}");
    }
    assert!(!reaches(json!({"type": "object", "properties": {"x": true}}), value.clone(), &["a"]));
    assert!(!reaches(json!({"type": "unknown"}), value.clone(), &["a"]));
    assert!(!reaches(json!({"type": "array"}), value, &["a"]));
}

#[test]
fn additional_properties_apply_to_unlisted_members() {
    let schema = json!({"properties": {"a": false}, "additionalProperties": {"type": "string"}});
    let mut schemas = Schemas::default();
    let compiled = schemas.compile(&Data::from_plain(schema)).unwrap();
    let object = Data::from_plain(json!({"a": 1, "b": "text", "c": 1}));
    let alternatives = schemas.apply(&BTreeSet::from([compiled]), &object).unwrap();
    let mut admits = |key: &str| {
        let schemas_below = schemas.member_schemas(&alternatives, key);
        !schemas.apply(&schemas_below, object.get(key).unwrap()).unwrap().is_empty()
    };
    assert_eq!([admits("a"), admits("b"), admits("c")], [false, true, false]);
}

#[test]
fn branches_reach_the_members_of_all() {
    let of = |keyword: &str| json!({keyword: [{"properties": {"a": true}}, {"properties": {"b": true}}]});
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for key in ["a", "b"] {
            assert!(reaches(of(keyword), json!({key: 1}), &[key]), "{keyword} {key}");
        }
        assert!(!reaches(of(keyword), json!({"c": 1}), &["c"]), "{keyword}");
    }
}

#[test]
fn recursive_schema_reaches_every_level() {
    let schema = json!({"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}});
    assert!(reaches(schema.clone(), json!({"n": {"n": {"n": {}}}}), &["n", "n", "n"]));
    assert!(!reaches(schema, json!({"n": {"m": {}}}), &["n", "m"]));
}

#[test]
fn unresolved_reference_reaches_nothing() {
    for reference in ["#/$defs/none", "#x", "http://elsewhere/#", ""] {
        assert!(!reaches(json!({"$ref": reference}), json!({"a": 1}), &["a"]), "{reference}");
    }
}

#[test]
fn circular_references_terminate() {
    let circle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}}});
    assert!(!reaches(circle, json!({"a": 1}), &["a"]));
}

#[test]
fn long_chain_of_references_is_followed() {
    let mut defs = serde_json::Map::new();
    for number in 0..20_000 {
        defs.insert(format!("d{number}"), json!({"$ref": format!("#/$defs/d{}", number + 1)}));
    }
    defs.insert("d20000".to_owned(), json!({"properties": {"a": true}}));
    assert!(reaches(json!({"$ref": "#/$defs/d0", "$defs": defs}), json!({"a": 1}), &["a"]));
}

#[test]
fn schemas_past_the_node_limit_are_rejected() {
    let compile_with_nodes = |nodes: usize| {
        let properties: serde_json::Map<String, Value> =
            (1..nodes).map(|number| (number.to_string(), json!(true))).collect();
        Schemas::default().compile(&Data::from_plain(json!({"properties": properties})))
    };
    assert!(compile_with_nodes(SCHEMA_NODES_MAX).is_ok());
    assert_eq!(compile_with_nodes(SCHEMA_NODES_MAX + 1), Err(SchemaError::TooLarge));
}

#[test]
fn unions_past_the_alternatives_limit_are_rejected() {
    let union = |branches: usize| {
        let branches: Vec<Value> =
            (0..branches).map(|number| json!({"properties": {number.to_string(): true}})).collect();
        json!({"anyOf": branches})
    };
    let apply = |schema: Value| {
        let mut schemas = Schemas::default();
        let compiled = schemas.compile(&Data::from_plain(schema)).unwrap();
        schemas.apply(&BTreeSet::from([compiled]), &Data::from_plain(json!({}))).map(|found| found.len())
    };
    assert_eq!(apply(union(ALTERNATIVES_MAX)), Ok(ALTERNATIVES_MAX));
    assert_eq!(apply(union(ALTERNATIVES_MAX + 1)), Err(SchemaError::TooManyAlternatives));
    let product = json!({"allOf": [union(40), union(40), union(40)]});
    assert_eq!(apply(product), Err(SchemaError::TooManyAlternatives));
}

#[test]
fn schema_of_another_type_is_rejected() {
    for wrong in
        [json!(1), json!("string"), json!([]), json!({"properties": {"a": 5}}), json!({"items": "x"})]
    {
        assert_eq!(Schemas::default().compile(&Data::from_plain(wrong)), Err(SchemaError::InvalidSchema));
    }
}

proptest! {
    #[test]
    fn additional_branch_never_reaches_less(keys in prop::collection::vec("[a-c]", 1..4), extra in "[a-c]", asked in "[a-c]") {
        let branch = |key: &String| json!({"properties": {key: true}});
        let few: Vec<Value> = keys.iter().map(branch).collect();
        let mut many = few.clone();
        many.push(branch(&extra));
        let value = json!({asked.clone(): 1});
        let reached = reaches(json!({"anyOf": few}), value.clone(), &[&asked]);
        let still_reached = reaches(json!({"anyOf": many}), value, &[&asked]);
        prop_assert!(!reached || still_reached);
    }
}
