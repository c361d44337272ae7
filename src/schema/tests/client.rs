//! Schemas of clients: what they may contain, and the budget that they are charged to.

use super::*;

const BUDGET_BYTES: usize = 16 << 20;

fn client(schema: &Value, budget: &SchemaBudget) -> Result<Schema, SchemaError> {
    Schema::compile(schema, SchemaSource::Client(budget))
}

#[test]
fn look_around_of_a_client_is_refused_with_the_place() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    for (schema, path) in [
        (json!({"properties": {"s": {"pattern": "(?=.*x)(?=.*y)a"}}}), "/properties/s/pattern"),
        (json!({"patternProperties": {"(a)\\1": {}}}), "/patternProperties/(a)\\1"),
        (json!({"propertyNames": {"pattern": "(?<!a)b"}}), "/propertyNames/pattern"),
        (json!({"$defs": {"a/b": {"pattern": "(?!x)"}}}), "/$defs/a~1b/pattern"),
    ] {
        let error = client(&schema, &budget).unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.message.contains("look-around"), "{}", error.message);
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn schemas_are_charged_until_they_are_dropped() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    let plain = client(&json!({"type": "string"}), &budget).unwrap();
    let used = budget.used();
    assert!((1_000..4_000).contains(&used), "{used}");
    let letters = client(&json!({"pattern": "^\\p{L}{1,20}$"}), &budget).unwrap();
    assert!(budget.used() > used + (1 << 20), "{}", budget.used());
    assert_eq!(letters.check(&json!("Zoë")), Ok(()));
    drop(letters);
    assert_eq!(budget.used(), used);
    drop(plain);
    assert_eq!(budget.used(), 0);
}

#[test]
fn budget_is_one_for_all_schemas_of_a_client() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    let patterned = |most: usize| json!({"pattern": format!("^\\p{{L}}{{1,{most}}}$")});
    let kept: Vec<Schema> = (1..20).map_while(|more| client(&patterned(10 + more), &budget).ok()).collect();
    assert!((5..19).contains(&kept.len()), "{}", kept.len());
    let error = client(&patterned(20), &budget).unwrap_err();
    assert!(error.message.contains("bytes compiled for a connection"), "{}", error.message);
    drop(kept);
    assert!(client(&patterned(20), &budget).is_ok());
}

#[test]
fn document_past_the_budget_is_refused_before_it_is_read() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    let options =
        |count: usize| json!({"enum": (0..count).map(|n| format!("option {n}")).collect::<Vec<_>>()});
    assert!(client(&options(10_000), &budget).is_ok());
    assert!(client(&options(100_000), &budget).unwrap_err().message.contains("bytes compiled"));
}

#[test]
fn missing_definition_of_a_client_accepts_any_value() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    let schema = json!({"properties": {"a/b": {"oneOf": [{"$ref": "#/$defs/Order", "type": "object"}, {"type": "null"}]}}});
    for source in [SchemaSource::Client(&budget), SchemaSource::Executable] {
        let compiled = Schema::compile(&schema, source).unwrap();
        let [warning] = compiled.warnings() else { panic!("one warning") };
        assert_eq!(warning.path, "/properties/a~1b/oneOf/0/$ref");
        assert!(warning.message.contains("`#/$defs/Order` is missing"), "{}", warning.message);
        assert_eq!(compiled.check(&json!({"a/b": {"any": "thing"}})), Ok(()));
        // What stands beside the reference still counts.
        assert!(compiled.check(&json!({"a/b": 1})).is_err());
    }
    assert!(Schema::compile(&schema, SchemaSource::Operator).is_err());
}

#[test]
fn other_bad_references_of_a_client_stay_refused() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    for reference in
        ["#/definitions/Order", "#Order", "http://x.y/z", "other.json", "#/$def/Order", "#/properties/x"]
    {
        let error = client(&json!({ "items": {"$ref": reference} }), &budget).unwrap_err();
        assert_eq!(error.path, "/items/$ref", "{reference}");
    }
    let dynamic = json!({"items": {"$dynamicRef": "#/$defs/Order"}});
    assert_eq!(client(&dynamic, &budget).unwrap_err().path, "/items/$dynamicRef");
}

#[test]
fn warnings_are_listed_up_to_the_limit() {
    let budget = SchemaBudget::new(BUDGET_BYTES);
    let missing = |count: usize| json!({"allOf": vec![json!({"$ref": "#/$defs/none"}); count]});
    for (count, listed) in
        [(WARNINGS_LISTED_MAX, WARNINGS_LISTED_MAX), (WARNINGS_LISTED_MAX + 1, WARNINGS_LISTED_MAX)]
    {
        assert_eq!(client(&missing(count), &budget).unwrap().warnings().len(), listed);
    }
}
