//! Schemas and values made to exhaust stack or clock, on the stack that a coroutine of the runtime leaves.

use super::*;

/// What the runtime promises a check at the least.
const STACK_LEFT_BYTES: usize = 1 << 20;

fn nested(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |inner, _| json!({ "next": inner }))
}

fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_LEFT_BYTES).spawn(run).unwrap().join().unwrap();
}

#[test]
fn circular_references_end() {
    let circles = [
        (json!({"$ref": "#"}), true),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            true,
        ),
        (json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}), true),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}),
            false,
        ),
        (json!({"anyOf": [{"$ref": "#"}, {"$dynamicRef": "#"}], "unevaluatedProperties": false}), false),
    ];
    on_small_stack(|| {
        for (circle, holds) in circles {
            assert_eq!(compile(circle.clone()).check(&json!({"a": [1]})).is_ok(), holds, "{circle}");
        }
    });
}

#[test]
fn deep_values_fit_the_stack_that_is_left() {
    let plain = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let tower = json!({"allOf": [{"anyOf": [{"oneOf": [{"type": "object", "properties": {
        "next": {"allOf": [{"allOf": [{"not": {"not": {"allOf": [{"$ref": "#"}]}}}]}]}}}]}, {"type": "null"}]}]});
    let evaluating = json!({"$dynamicAnchor": "n", "unevaluatedProperties": false,
        "anyOf": [{"type": "object", "properties": {"next": {"$dynamicRef": "#n"}}}, {"type": "null"}]});
    on_small_stack(move || {
        for schema in [plain, tower, evaluating].map(compile) {
            let deep = INSTANCE_DEPTH_MAX - 1;
            assert_eq!(schema.check(&nested(deep, json!({}))), Ok(()));
            assert!(schema.check(&nested(deep, json!(1))).is_err());
            let too_deep = schema.check(&nested(INSTANCE_DEPTH_MAX, json!({}))).unwrap_err();
            assert_eq!(too_deep[0].message, format!("expected at most {INSTANCE_DEPTH_MAX} levels"));
        }
    });
}

#[test]
fn deep_schemas_compile_up_to_the_limit() {
    let tower = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    let wide = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"properties": {"next": inner}}));
    on_small_stack(move || {
        compile(tower(work::IN_PLACE_DEPTH_MAX));
        assert!(refusal(tower(work::IN_PLACE_DEPTH_MAX + 1)).1.contains("nested on one value"));
        compile(wide(SCHEMA_DEPTH_MAX / 2 - 1)).check(&nested(60, json!(1))).unwrap();
        assert!(refusal(wide(SCHEMA_DEPTH_MAX / 2)).1.contains("levels"));
    });
}

/// `d0` applies `d1` twice, that `d2` twice, and so on, each time after the step that `link` makes of the reference.
fn doubling(levels: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = link(json!({"$ref": format!("#/$defs/d{}", level + 1)}));
        defs.insert(format!("d{level}"), json!({"allOf": [next, next]}));
    }
    defs.insert(format!("d{levels}"), json!({"type": ["object", "string"]}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn exponential_schemas_are_refused() {
    assert!(compile(doubling(8, |next| next)).check(&json!("a")).is_ok());
    assert!(refusal(doubling(20, |next| next)).1.contains("too many subschemas"));
    let everyone: Vec<Value> = (0..30).map(|other| json!({"$ref": format!("#/$defs/{other}")})).collect();
    let defs: serde_json::Map<_, _> =
        (0..30).map(|name| (name.to_string(), json!({"allOf": everyone}))).collect();
    assert!(refusal(json!({"$ref": "#/$defs/0", "$defs": defs})).1.contains("too many subschemas"));
    let evaluating = (0..30)
        .fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": {"type": "object"}}));
    assert!(refusal(evaluating).1.contains("too many subschemas"));
}

#[test]
fn schema_that_doubles_at_every_level_is_not_run_on_a_deep_value() {
    let schema = compile(doubling(40, |next| json!({"properties": {"next": next}})));
    let failures = schema.check(&nested(40, json!({}))).unwrap_err();
    assert_eq!(failures, [Failure::at_root("too large a value for a schema with so many alternatives")]);
}

#[test]
fn listing_the_failures_of_a_doubling_recursion_ends() {
    let next = json!({"properties": {"next": {"$ref": "#"}}});
    let schema = json!({"type": "object", "allOf": [next, next]});
    assert_eq!(
        only_failure(schema.clone(), nested(100, json!(1))).1,
        "does not match the schema; too large to say where"
    );
    assert_eq!(only_failure(schema, nested(4, json!(1))).0, "/next/next/next/next");
}

#[test]
fn runaway_pattern_is_a_failure() {
    let schema = json!({"pattern": "^(?=a)(a*)*b\\1$"});
    assert_eq!(only_failure(schema, json!("a".repeat(60))).1, "the pattern takes too long to match");
}

#[test]
fn doubling_recursion_through_a_dynamic_reference_ends() {
    let next = json!({"properties": {"next": {"$dynamicRef": "#n"}}});
    let schema = compile(json!({"$dynamicAnchor": "n", "type": "object", "allOf": [next, next]}));
    assert_eq!(schema.check(&nested(100, json!({}))), Ok(()));
}

#[test]
fn references_that_could_mean_many_places_are_bounded() {
    let crowd = |count: usize| {
        let anchors: Vec<Value> = (0..count).map(|_| json!({"$anchor": "a", "$ref": "#a"})).collect();
        json!({"$defs": {"all": {"prefixItems": anchors}}})
    };
    let refused = refusal(crowd(1000));
    assert!(refused.1.contains("with all they could mean"), "{}", refused.1);
}
