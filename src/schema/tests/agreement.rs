//! Limits and messages change no verdict: random schemas, compared with the validator alone.

use proptest::prelude::*;

use super::*;

fn instances() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        (-2..3).prop_map(|n| json!(n)),
        "[ab]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|members| json!(members)),
        ]
    })
}

fn leaf_schemas() -> impl Strategy<Value = Value> {
    let types = ["null", "boolean", "integer", "string", "array", "object"];
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::sample::select(types.to_vec()).prop_map(|name| json!({ "type": name })),
        prop::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#n"]).prop_map(|to| json!({ "$ref": to })),
        Just(json!({"$dynamicRef": "#n"})),
        "[ab]".prop_map(|name| json!({ "required": [name] })),
        instances().prop_map(|value| json!({ "const": value })),
        Just(json!({"pattern": "^a(?!b)"})),
        Just(json!({"pattern": "(a|b)+a"})),
        Just(json!({"maxLength": 1, "uniqueItems": true})),
        prop::collection::vec(instances(), 1..4).prop_map(|options| json!({ "enum": options })),
        Just(json!({"dependentRequired": {"a": ["b"]}, "minContains": 1})),
    ]
}

fn schemas() -> impl Strategy<Value = Value> {
    leaf_schemas().prop_recursive(4, 24, 3, |inner| {
        let lists = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let singles = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let maps = prop::sample::select(vec!["properties", "patternProperties", "dependentSchemas"]);
        let keywords = prop_oneof![
            (lists, prop::collection::vec(inner.clone(), 1..3)).prop_map(|(key, of)| (key, json!(of))),
            (singles, inner.clone()),
            (maps, prop::collection::btree_map("[ab]", inner, 0..3)).prop_map(|(key, of)| (key, json!(of))),
        ];
        prop::collection::vec(keywords, 1..3).prop_map(|keywords| {
            Value::Object(keywords.into_iter().map(|(key, of)| (key.to_owned(), of)).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn verdicts_are_the_validators(root in schemas(), a in schemas(), b in schemas(), instance in instances()) {
        let document = json!({"$dynamicAnchor": "n", "allOf": [root], "$defs": {"a": a, "b": b}});
        let theirs = jsonschema::options().offline().build(&document).unwrap();
        // A client's schema is judged alike by the other engine, if it is accepted.
        let budget = SchemaBudget::new(16 << 20);
        match Schema::compile(&document, SchemaSource::Client(&budget)) {
            Ok(ours) => prop_assert_eq!(ours.check(&instance).is_ok(), theirs.is_valid(&instance), "{}", document),
            Err(error) => {
                let is_expected = ["look-around", "too many subschemas"].iter().any(|part| error.message.contains(part));
                prop_assert!(is_expected, "{} {}", error, document);
            }
        }
        prop_assert_eq!(budget.used(), 0);
        match Schema::compile(&document, SchemaSource::Operator) {
            Ok(ours) => {
                let verdict = ours.check(&instance);
                prop_assert_eq!(verdict.is_ok(), theirs.is_valid(&instance), "{}", document);
                prop_assert!(verdict != Err(CheckError::TooCostly), "{}", document);
                let listed = verdict.err().map(CheckError::into_failures).unwrap_or_default();
                prop_assert!(listed.len() <= FAILURES_LISTED_MAX);
                prop_assert!(listed.iter().all(|failure| instance.pointer(&failure.path).is_some()), "{:?}", listed);
            }
            // Circles in place that branch are refused; nothing else of this size is.
            Err(error) => prop_assert!(error.message.contains("too many subschemas"), "{} {}", error, document),
        }
    }
}
