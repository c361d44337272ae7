//! Documents as declarations.

use super::*;

fn map_with(document: &Value, rules: &OperationRules) -> MappedOperations {
    let document = Document::parse(&document.to_string()).unwrap();
    let base = Base::choose(Some("https://a.example/v1"), &document).unwrap();
    let credentials = Credentials::default();
    Mapping { package: "p", document: &document, base: &base, rules, credentials: &credentials }.map()
}

fn map(paths: Value) -> MappedOperations {
    map_with(&json!({"openapi": "3.1.0", "paths": paths}), &OperationRules::default())
}

fn names(mapped: &MappedOperations) -> Vec<&str> {
    mapped.operations.iter().map(|(declaration, _)| declaration.name.as_str()).collect()
}

fn listed(items: &[UnmappedItem]) -> Vec<(&str, &str)> {
    items.iter().map(|item| (item.name.as_str(), item.reason.as_str())).collect()
}

#[test]
fn names_come_from_ids_or_methods_and_paths() {
    let mapped = map(json!({
        "/pets": {"get": {"operationId": "listPets"}, "post": {"operationId": "pets/create"}},
        "/pets/{petId}": {"get": {}, "delete": {"operationId": "listPets"}},
        "/a-b": {"get": {}},
        "/a/b": {"get": {}},
    }));
    let names = names(&mapped);
    assert_eq!(names[..4], ["p.listPets", "p.pets_create", "p.get_pets_petId", "p.delete_pets_petId"]);
    assert_eq!(names[4..], ["p.get_a_b", "p.GET__a_b"]);
    assert_eq!(
        listed(&mapped.notes),
        [
            ("DELETE /pets/{petId}", "is `delete_pets_petId`, because `listPets` would be ambiguous"),
            ("GET /a/b", "is `GET__a_b`, because `get_a_b` would be ambiguous"),
        ]
    );
    assert_eq!(listed(&mapped.unmapped), []);
}

#[test]
fn input_has_parameters_and_the_body() {
    let mapped = map(json!({"/pets/{id}": {
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}},
            {"name": "verbose", "in": "query", "schema": {"type": "string"}},
        ],
        "put": {
            "summary": "Replaces a pet.", "description": "All of it.", "deprecated": true,
            "parameters": [
                {"name": "id", "in": "query", "schema": {"type": "string"}, "description": "Which one."},
                {"name": "verbose", "in": "query", "required": true, "schema": {"type": "boolean"}},
                {"name": "body", "in": "header", "schema": {"type": "string"}},
                {"name": "Authorization", "in": "header", "required": true},
                {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
            ],
            "requestBody": {"required": true, "content": {
                "application/xml": {}, "application/json": {"schema": {"type": "object"}},
            }},
            "responses": {
                "200": {"description": "", "content": {"application/json": {"schema": {"type": "string"}}}},
                "204": {"description": ""}, "default": {"description": ""},
            },
        },
    }}));
    let (declaration, plan) = &mapped.operations[0];
    assert_eq!(
        declaration.input,
        Some(json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "verbose": {"type": "boolean"},
                "query_id": {"type": "string", "description": "Which one. The query parameter `id`."},
                "filter": {"type": "object"},
                "header_body": {"type": "string", "description": "The header parameter `body`."},
                "body": {"type": "object"},
            },
            "additionalProperties": false,
            "required": ["id", "verbose", "body"],
        }))
    );
    assert_eq!(declaration.output, Some(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})));
    assert_eq!(declaration.description.as_deref(), Some("Deprecated.\n\nReplaces a pet.\n\nAll of it."));
    assert_eq!(declaration.effects, ["external"]);
    assert_eq!(
        declaration.hints,
        Some(json!({"openapi": {"operation": "PUT /pets/{id}", "operationId": null}}))
    );
    assert_eq!(plan.accept, "application/json, */*;q=0.1");
}

#[test]
fn methods_have_effects_that_the_operator_overrides() {
    let document = json!({"openapi": "3.0.0", "paths": {"/a": {
        "get": {"operationId": "a", "tags": ["t"]}, "head": {"operationId": "b"},
        "post": {"operationId": "c", "tags": ["t"]}, "delete": {"operationId": "d"},
    }}});
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let rules = OperationRules {
        include: Some(strings(&["tag:t", "* /a", "gone"])),
        exclude: strings(&["DELETE /a"]),
        effects: [("c".to_owned(), strings(&["write"]))].into(),
        ..OperationRules::default()
    };
    let mapped = map_with(&document, &rules);
    let effects: BTreeMap<&str, &[String]> =
        mapped.operations.iter().map(|(one, _)| (one.name.as_str(), one.effects.as_slice())).collect();
    let (read, write) = (strings(&["read"]), strings(&["write"]));
    assert_eq!(effects, [("p.a", &read[..]), ("p.b", &read[..]), ("p.c", &write[..])].into());
    assert_eq!(
        listed(&mapped.unmapped),
        [("gone", "named in `include`, `exclude` or `effects`, but no operation fits it")]
    );
}

#[test]
fn bad_operations_are_listed_and_the_others_stay() {
    let schema = |schema: Value| json!({"responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}});
    let mapped = map(json!({
        "/good": {"get": {}},
        "/wrong": 5,
        "/list": {"get": [1]},
        "/external": {"get": schema(json!({"$ref": "other.yaml#/a"}))},
        "/type": {"get": schema(json!({"type": "strin"}))},
        "/cycle": {"$ref": "#/paths/~1cycle"},
        "/in": {"get": {"parameters": [{"name": "a", "in": "body"}]}},
        "/style": {"get": {"parameters": [{"name": "a", "in": "query", "style": "matrix", "schema": {}}]}},
        "/host": {"get": {"parameters": [{"name": "Host", "in": "header", "required": true, "schema": {}}]}},
        "/server": {"get": {"servers": [{"url": "https://b.example"}]}},
        "/body": {"post": {"requestBody": {"content": 5}}},
        "no-slash": {"get": {}},
        "/pattern": {"get": schema(json!({"type": "string", "pattern": "(?i)[a-z"}))},
    }));
    assert_eq!(names(&mapped), ["p.get_good", "p.get_pattern"]);
    assert_eq!(listed(&mapped.notes), [("GET /pattern", "the patterns of its schemas are not checked")]);
    let reasons: BTreeMap<&str, &str> = listed(&mapped.unmapped).into_iter().collect();
    for (name, expected) in [
        ("/wrong", "expected an object"),
        ("GET /list", "expected an object"),
        ("GET /external", "leads to another document"),
        ("GET /type", "/output/type"),
        ("/cycle", "cycle"),
        ("GET /in", "unknown variant `body`"),
        ("GET /style", "the style Matrix is not defined there"),
        ("GET /host", "the header `Host` is required and cannot be set"),
        ("GET /server", "its own server `https://b.example`"),
        ("POST /body", "requestBody"),
        ("GET no-slash", "begins with `/`"),
    ] {
        assert!(
            reasons.get(name).is_some_and(|reason| reason.contains(expected)),
            "{name}: {:?}",
            reasons.get(name)
        );
    }
    assert_eq!(reasons.len(), 11);
}

#[test]
fn operations_past_the_limit_are_not_mapped() {
    let paths = |count: usize| -> Value {
        (0..count).map(|at| (format!("/p{at}"), json!({"get": {}}))).collect::<Map<_, _>>().into()
    };
    let mapped = map(paths(OPERATIONS_MAX));
    assert_eq!((mapped.operations.len(), mapped.unmapped.len()), (OPERATIONS_MAX, 0));
    let mapped = map(paths(OPERATIONS_MAX + UNMAPPED_LISTED_MAX + 5));
    assert_eq!((mapped.operations.len(), mapped.unmapped.len()), (OPERATIONS_MAX, UNMAPPED_LISTED_MAX + 1));
    let (first, last) = (&mapped.unmapped[0], &mapped.unmapped[UNMAPPED_LISTED_MAX]);
    assert!(first.reason.contains("has 2000 operations already"), "{first:?}");
    assert_eq!(last.reason, "5 further items are not mapped either");
}

#[test]
fn parameters_past_the_limit_refuse_the_operation() {
    let operation = |count: usize| {
        let parameter = |at: usize| json!({"name": format!("n{at}"), "in": "query", "schema": {}});
        json!({"/a": {"get": {"parameters": (0..count).map(parameter).collect::<Value>()}}})
    };
    assert_eq!(map(operation(parameters::PARAMETERS_MAX)).operations.len(), 1);
    let mapped = map(operation(parameters::PARAMETERS_MAX + 1));
    assert_eq!(listed(&mapped.unmapped), [("GET /a", "expected at most 256 parameters")]);
}
