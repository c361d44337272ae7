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
            let too_deep = schema.check(&nested(INSTANCE_DEPTH_MAX, json!({}))).unwrap_err().into_failures();
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
fn doubling_schema_is_not_run_on_a_deep_value() {
    let schema = compile(doubling(40, |next| json!({"properties": {"next": next}})));
    assert_eq!(schema.check(&nested(40, json!({}))), Err(CheckError::TooCostly));
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
    assert!(refused.1.contains("counting every possible target"), "{}", refused.1);
}

#[test]
fn look_around_of_the_operator_is_bounded_by_the_text() {
    let schema = compile(json!({"pattern": "(?=.*x)(?=.*y)a"}));
    assert_eq!(
        schema.check(&json!("xya")),
        Err(CheckError::Invalid(vec![Failure::at_root(
            "expected a string that matches /(?=.*x)(?=.*y)a/, got \"xya\""
        )]))
    );
    assert_eq!(schema.check(&json!("axy")), Ok(()));
    assert!(matches!(schema.check(&json!("x".repeat(4_000))), Err(CheckError::Invalid(_))));
    assert_eq!(schema.check(&json!("x".repeat(4_000_000))), Err(CheckError::TooCostly));
}

#[test]
fn pattern_is_charged_for_the_texts_it_is_matched_with() {
    let schema = compile(
        json!({"properties": {"code": {"pattern": "(a|b)*a(a|b){18}c"}, "text": {"type": "string"}}}),
    );
    let text = "ab".repeat(2_000_000);
    assert!(schema.check(&json!({"code": "abba", "text": text})).is_err());
    assert_eq!(schema.check(&json!({"code": format!("a{}c", "b".repeat(18)), "text": text})), Ok(()));
    assert_eq!(schema.check(&json!({"code": text})), Err(CheckError::TooCostly));
}

#[test]
fn plain_pattern_fits_the_largest_message() {
    let schema = compile(json!({"pattern": "^[A-Za-z0-9+/]*={0,2}$"}));
    assert_eq!(schema.check(&json!("Aa0/".repeat(4 << 20))), Ok(()));
}

/// Each keyword whose cost is not in the number of visits, with a value that multiplies it.
#[test]
fn keywords_with_long_lists_are_counted() {
    let names = |count: usize| (0..count).map(|name| format!("name{name}")).collect::<Vec<_>>();
    let members: serde_json::Map<_, _> = names(3000).into_iter().map(|name| (name, json!(true))).collect();
    let dependents: serde_json::Map<_, _> =
        names(50).into_iter().map(|name| (name, json!(names(60)))).collect();
    let objects: Vec<Value> = (0..3000).map(|n| json!({ "n": n })).collect();
    let items = [
        json!({ "enum": objects }),
        json!({ "required": names(3000) }),
        json!({ "properties": members }),
        json!({ "dependentRequired": dependents }),
        json!({ "dependentSchemas": members }),
        json!({"const": objects}),
        json!({"allOf": vec![json!({"minLength": 1}); 2000]}),
    ];
    for schema in items {
        let schema = compile(json!({ "items": schema }));
        assert_ne!(schema.check(&json!(vec![json!({}); 100])), Err(CheckError::TooCostly), "{schema:?}");
        assert_eq!(schema.check(&json!(vec![json!({}); 100_000])), Err(CheckError::TooCostly));
    }
}

#[test]
fn names_count_as_texts() {
    let name = "ab".repeat(500_000);
    for keyword in [
        json!({"patternProperties": {"(a|b)*a(a|b){18}c": true}}),
        json!({"propertyNames": {"pattern": "(a|b)*a(a|b){18}c"}}),
    ] {
        let schema = compile(keyword);
        assert_ne!(schema.check(&json!({"short": 1})), Err(CheckError::TooCostly));
        assert_eq!(schema.check(&json!({name.clone(): 1})), Err(CheckError::TooCostly));
    }
}

#[test]
fn unique_items_are_counted_by_what_is_compared() {
    let schema = compile(json!({"uniqueItems": true}));
    let numbers: Vec<u32> = (0..300_000).collect();
    assert_eq!(schema.check(&json!(numbers)), Ok(()));
    let objects = |count: u32| (0..count).map(|n| json!({ "n": n })).collect::<Vec<_>>();
    assert_eq!(schema.check(&json!(objects(5_000))), Ok(()));
    assert_eq!(schema.check(&json!(objects(20_000))), Err(CheckError::TooCostly));
    let nested = compile(json!({"items": {"items": {"uniqueItems": true}}, "uniqueItems": true}));
    assert_eq!(nested.check(&json!([[[1, 2]], [[1, 2], [3]]])), Ok(()));
}

/// A failed alternative keeps a copy of the value for every branch.
#[test]
fn failures_of_large_values_are_not_listed() {
    let branches: Vec<Value> = (0..900).map(|least| json!({"type": "number", "minimum": least})).collect();
    let (_, message) = only_failure(json!({ "anyOf": branches }), json!("x".repeat(4_000_000)));
    assert_eq!(message, "does not match the schema; too large to say where");
}

#[test]
fn copies_for_unevaluated_are_bounded_before_they_are_made() {
    let document = |users: usize, parts: usize| {
        let part = json!({"properties": {"x": true}});
        let user = json!({"$ref": "#/$defs/all", "unevaluatedProperties": false});
        json!({"$defs": {"all": {"allOf": vec![part; parts]}}, "prefixItems": vec![user; users]})
    };
    assert!(compile(document(10, 90)).check(&json!([{"x": 1}])).is_ok());
    assert!(refusal(document(200, 1000)).1.contains("unevaluated"));
}

#[test]
fn marking_is_counted_for_every_level() {
    // Each level is validated again for every level above it, for each property.
    let tower = (0..30).fold(json!({"properties": {"a": true}}), |inner, _| json!({"allOf": [inner]}));
    let schema = compile(json!({"allOf": [tower], "unevaluatedProperties": {"type": "number"}}));
    let members =
        |count: usize| (0..count).map(|name| (name.to_string(), json!(1))).collect::<serde_json::Map<_, _>>();
    assert_eq!(schema.check(&json!(members(100))), Ok(()));
    assert_eq!(schema.check(&json!(members(1_000_000))), Err(CheckError::TooCostly));
}

#[test]
fn dynamic_references_through_many_resources_are_refused() {
    let resources = |count: usize| {
        let defs: serde_json::Map<_, _> = (0..count)
            .map(|n| {
                let next = json!({"$ref": format!("r{}", n + 1)});
                let of = if n + 1 < count {
                    json!({"properties": {"a": next, "b": next}})
                } else {
                    json!({"properties": {"a": {"$dynamicRef": "#d"}}})
                };
                let mut of = of;
                of["$id"] = json!(format!("r{n}"));
                of["$dynamicAnchor"] = json!("d");
                (n.to_string(), of)
            })
            .collect();
        json!({"$ref": "r0", "$defs": defs})
    };
    compile(resources(shape::DYNAMIC_RESOURCES_MAX));
    assert!(refusal(resources(shape::DYNAMIC_RESOURCES_MAX + 1)).1.contains("$dynamicRef"));
}

#[test]
fn multiple_of_fraction_is_charged_for_long_divisions() {
    let tiny: Vec<Value> = (250..290).map(|places| format!("1e-{places}").parse().unwrap()).collect();
    let tiny: Vec<Value> = tiny.into_iter().map(|divisor: Value| json!({ "multipleOf": divisor })).collect();
    let schema = compile(json!({"items": {"allOf": tiny}}));
    assert_eq!(schema.check(&json!(vec![1.7e308; 100])), Ok(()));
    assert_eq!(schema.check(&json!(vec![1.7e308; 20_000])), Err(CheckError::TooCostly));
    let tenths = compile(json!({"items": {"multipleOf": 0.1}}));
    assert_eq!(tenths.check(&json!(vec![1e300; 1_000])), Ok(()));
    assert_eq!(tenths.check(&json!(vec![1e300; 1_000_000])), Err(CheckError::TooCostly));
    let smallest = compile(json!({"items": {"multipleOf": 5e-324}}));
    assert_eq!(smallest.check(&json!(vec![1; 1_000_000])), Err(CheckError::TooCostly));
}

#[test]
fn multiple_of_cent_fits_long_lists_of_prices() {
    let schema = compile(json!({"items": {"multipleOf": 0.01}}));
    assert_eq!(schema.check(&json!(vec![19.99; 200_000])), Ok(()));
    let integers = compile(json!({"items": {"multipleOf": 5}}));
    assert_eq!(integers.check(&json!(vec![1_000_000_000_000_000_i64; 200_000])), Ok(()));
}

/// Drafts before 2019-09 assert `format` and `contentEncoding`, whose costs are not counted.
#[test]
fn other_drafts_are_refused_in_parts_of_the_document() {
    let part =
        json!({"$id": "part", "$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"});
    let (path, message) = refusal(json!({"properties": {"a": part}}));
    assert_eq!(path, "/properties/a/$schema");
    assert!(message.contains("2020-12"), "{message}");
}
