//! Schemas of documents, translated.

use super::*;

fn document(version: &str, components: &Value) -> Document {
    Document::parse(&json!({"openapi": version, "components": {"schemas": components}}).to_string()).unwrap()
}

fn translate(document: &Document, direction: Direction, schema: &Value) -> Result<Value, String> {
    let mut translator = Translator::new(document, direction, Looseness::default());
    let root = translator.translate(schema)?;
    translator.finish(root)
}

fn of_3_0(schema: Value) -> Value {
    translate(&document("3.0.3", &json!({})), Direction::Input, &schema).unwrap()
}

#[test]
fn keywords_of_3_0_become_those_of_json_schema() {
    for (old, new) in [
        (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
        (json!({"type": "string", "nullable": false}), json!({"type": "string"})),
        (
            json!({"type": "string", "enum": ["a"], "nullable": true}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"nullable": true, "allOf": [{"type": "object"}]}),
            json!({"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]}),
        ),
        (json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1})),
        (json!({"maximum": 1, "exclusiveMaximum": false}), json!({"maximum": 1})),
        (json!({"exclusiveMaximum": true}), json!({})),
        (
            json!({"type": "object", "example": {}, "xml": {}, "externalDocs": {}, "x-a": 1, "deprecated": true}),
            json!({"type": "object"}),
        ),
        (
            json!({"properties": {"example": {"type": "string"}}}),
            json!({"properties": {"example": {"type": "string"}}}),
        ),
    ] {
        assert_eq!(of_3_0(old.clone()), new, "{old}");
    }
}

#[test]
fn definitions_are_named_and_cycles_end() {
    let components = json!({
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "other": {"$ref": "#/components/schemas/a~1b"}}},
        "a/b": {"$ref": "#/components/schemas/Node"},
    });
    let schema = json!({"type": "array", "items": {"$ref": "#/components/schemas/Node", "description": "beside", "minLength": 5}});
    let of_version =
        |version: &str| translate(&document(version, &components), Direction::Input, &schema).unwrap();
    let definitions = json!({
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "other": {"$ref": "#/$defs/a_1b"}}},
        "a_1b": {"$ref": "#/$defs/Node"},
    });
    // In 3.1 keywords beside a reference count.
    let items = json!({"$ref": "#/$defs/Node", "description": "beside"});
    assert_eq!(of_version("3.0.0"), json!({"type": "array", "items": items, "$defs": definitions}));
    let items = json!({"$ref": "#/$defs/Node", "description": "beside", "minLength": 5});
    assert_eq!(of_version("3.1.0"), json!({"type": "array", "items": items, "$defs": definitions}));
}

#[test]
fn reference_may_point_anywhere_in_the_document() {
    let components = json!({"A": {"properties": {"id": {"type": "string"}}}, "B": {"properties": {"id": {"type": "number"}}}});
    let document = document("3.1.0", &components);
    let schema = json!({"anyOf": [
        {"$ref": "#/components/schemas/A/properties/id"}, {"$ref": "#/components/schemas/B/properties/id"},
    ]});
    assert_eq!(
        translate(&document, Direction::Input, &schema).unwrap(),
        json!({
            "anyOf": [{"$ref": "#/$defs/id"}, {"$ref": "#/$defs/id_2"}],
            "$defs": {"id": {"type": "string"}, "id_2": {"type": "number"}},
        })
    );
    for reference in ["#/components/schemas/None", "other.json", "#name"] {
        assert!(translate(&document, Direction::Input, &json!({"$ref": reference})).is_err(), "{reference}");
    }
}

#[test]
fn properties_of_the_other_direction_are_left_out() {
    let schema = json!({
        "properties": {"id": {"readOnly": true}, "password": {"writeOnly": true}, "name": {}},
        "required": ["id", "password", "name"],
    });
    let document = document("3.0.0", &json!({}));
    let translated = |direction| translate(&document, direction, &schema).unwrap();
    assert_eq!(
        translated(Direction::Input),
        json!({"properties": {"password": {}, "name": {}}, "required": ["password", "name"]})
    );
    assert_eq!(
        translated(Direction::Output),
        json!({"properties": {"id": {}, "name": {}}, "required": ["id", "name"]})
    );
}

#[test]
fn discriminator_distinguishes_the_alternatives() {
    let components = json!({"Cat": {"type": "object"}, "Dog": {"type": "object"}});
    let document = document("3.0.0", &components);
    let branches = json!([{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]);
    let discriminator =
        json!({"propertyName": "kind", "mapping": {"dog": "#/components/schemas/Dog", "puppy": "Dog"}});
    let schema = json!({"oneOf": branches, "discriminator": discriminator});
    let condition = |value: Value| json!({"properties": {"kind": value}, "required": ["kind"]});
    let expected = json!([
        {"allOf": [{"$ref": "#/$defs/Cat"}, condition(json!({"const": "Cat"}))]},
        {"allOf": [{"$ref": "#/$defs/Dog"}, condition(json!({"enum": ["dog", "puppy"]}))]},
    ]);
    assert_eq!(translate(&document, Direction::Input, &schema).unwrap()["oneOf"], expected);
    // A response may fit two alternatives.
    assert_eq!(translate(&document, Direction::Output, &schema).unwrap()["anyOf"], expected);
}

#[test]
fn files_are_bytes_in_forms_only() {
    let document = document("3.1.0", &json!({}));
    let schema = json!({"properties": {"a": {"type": "string", "format": "binary"}, "b": {"contentMediaType": "image/png"}}});
    let mut translator = Translator::new(&document, Direction::Input, Looseness::default());
    assert_eq!(
        translator.translate(&schema).unwrap()["properties"]["a"],
        json!({"type": "string", "format": "binary"})
    );
    translator.takes_files = true;
    let form = translator.translate(&schema).unwrap();
    assert_eq!(form["properties"]["a"], file_schema());
    assert_eq!(form["properties"]["b"], file_schema());
}

#[test]
fn schema_past_its_length_accepts_any_value() {
    let wide = |count: usize| {
        let properties: Map<String, Value> =
            (0..count).map(|at| (format!("property{at:04}"), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties})
    };
    let components = json!({"Wide": wide(3_000), "Near": {"type": "string"}, "Far": {"type": "string"}});
    let document = document("3.1.0", &components);
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let schema =
        json!({"oneOf": [reference("Near"), reference("Wide"), reference("Far")], "not": {"type": "null"}});
    let mut translator = Translator::new(&document, Direction::Input, Looseness::default());
    let root = translator.translate(&schema).unwrap();
    let cut = translator.finish(root).unwrap();
    assert!(translator.is_cut);
    assert_eq!(cut["$defs"], json!({"Near": {"type": "string"}, "Wide": {}, "Far": {}}));
    // With holes in it, nothing may depend on a value that does not fit.
    let looseness = Looseness { is_cut: true, ..Looseness::default() };
    let mut loose = Translator::new(&document, Direction::Input, looseness);
    let root = loose.translate(&schema).unwrap();
    assert!(root.get("anyOf").is_some() && root.get("oneOf").is_none() && root.get("not").is_none());
    let mut small = Translator::new(&document, Direction::Input, Looseness::default());
    small.translate(&wide(500)).unwrap();
    assert!(!small.is_cut && small.bytes() > 15_000);
}

#[test]
fn deep_or_wrong_schemas_are_refused() {
    let nested = |depth: usize| (0..depth).fold(json!({}), |schema, _| json!({"items": schema}));
    let document = document("3.1.0", &json!({}));
    assert!(translate(&document, Direction::Input, &nested(SCHEMA_DEPTH_MAX)).is_ok());
    let error = translate(&document, Direction::Input, &nested(SCHEMA_DEPTH_MAX + 1)).unwrap_err();
    assert!(error.contains("64 levels"), "{error}");
    assert!(translate(&document, Direction::Input, &json!({"items": 5})).is_err());
    assert!(translate(&document, Direction::Input, &json!("x")).is_err());
}
