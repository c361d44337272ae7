//! Whole texts, as a model reads them.

use super::*;
use serde_json::{Value, json};

fn binding(name: &str, input: Value, output: Value) -> Declaration {
    Declaration { input: Some(input), output: Some(output), ..Declaration::named(name) }
}

/// The type that an output schema is written as.
fn type_of(schema: Value) -> String {
    let text = declarations(&[binding("f", json!(true), schema)]);
    let promise = text.split_once("f(input?: unknown): Promise<").unwrap().1;
    promise.strip_suffix(">;\n").unwrap().to_owned()
}

#[test]
fn worked_example_matches_its_expected_text() {
    let order = json!({"type": "object", "description": "An order.", "required": ["id", "total"], "properties": {
        "id": {"type": "string"},
        "total": {"type": "number", "description": "In the shop's currency."},
        "placed": {"type": "string", "format": "date-time"},
        "replaces": {"$ref": "#/$defs/Order"}
    }});
    let get_order = Declaration {
        description: Some("Fetch an order by ID. Returns null if not found.".into()),
        effects: vec!["read".into()],
        ..binding(
            "getOrder",
            json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}),
            json!({"oneOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}], "$defs": {"Order": order}}),
        )
    };
    let expected = "\
declare namespace Types {
  /** An order. */
  interface Order {
    id: string;
    /** In the shop's currency. */
    total: number;
    /** @format date-time */
    placed?: string;
    replaces?: Order;
  }
}

/**
 * Fetch an order by ID. Returns null if not found.
 * @effects read
 */
declare function getOrder(input: { id: string }): Promise<Types.Order | null>;
";
    assert_eq!(declarations(&[get_order]), expected);
}

#[test]
fn dotted_names_become_namespaces_with_reserved_words() {
    let names = ["kv.get", "kv.delete", "kv._delete", "kv.new.item", "a.b.c", "ping"];
    let bindings: Vec<Declaration> = names.map(Declaration::named).into();
    let expected = "\
declare function ping(input?: unknown): Promise<unknown>;

declare namespace a.b {
  function c(input?: unknown): Promise<unknown>;
}

declare namespace kv {
  export function _delete(input?: unknown): Promise<unknown>;
  function __delete(input?: unknown): Promise<unknown>;
  export function get(input?: unknown): Promise<unknown>;
  namespace _new {
    function item(input?: unknown): Promise<unknown>;
  }
  export { __delete as delete, _new as new };
}
";
    assert_eq!(declarations(&bindings), expected);
}

#[test]
fn simple_schemas() {
    let cases = [
        (json!(true), "unknown"),
        (json!(false), "never"),
        (json!({}), "unknown"),
        (json!({"type": "null"}), "null"),
        (json!({"type": "integer"}), "number"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (json!({"type": ["number", "integer"]}), "number"),
        (json!({"const": "a\"b"}), r#""a\"b""#),
        (json!({"enum": ["a", 1, null, true]}), r#""a" | 1 | null | true"#),
        (json!({"enum": []}), "never"),
        (json!({"not": {"type": "string"}}), "unknown"),
        (json!({"if": {}, "then": false}), "unknown"),
        (json!({"anyOf": [{"type": "string"}, {"required": ["a"]}]}), "unknown"),
        (
            json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            "{ [key: string]: unknown }",
        ),
        (
            json!({"allOf": [{"type": "string"}, {"anyOf": [{"const": "a"}, {"const": "b"}]}]}),
            r#"string & ("a" | "b")"#,
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(type_of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn arrays_and_tuples() {
    let (number, string) = (json!({"type": "number"}), json!({"type": "string"}));
    let cases = [
        (json!({"type": "array"}), "unknown[]"),
        (json!({"items": {"type": ["string", "null"]}}), "(string | null)[]"),
        (json!({"type": "array", "items": false}), "[]"),
        (json!({"prefixItems": [number, string], "items": false, "minItems": 2}), "[number, string]"),
        (
            json!({"prefixItems": [number, string], "items": string, "minItems": 1}),
            "[number, string?, ...string[]]",
        ),
        (json!({"prefixItems": [{"type": ["number", "null"]}]}), "[(number | null)?, ...unknown[]]"),
    ];
    for (schema, expected) in cases {
        assert_eq!(type_of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn objects() {
    let (number, string) = (json!({"type": "number"}), json!({"type": "string"}));
    let cases = [
        (json!({"type": "object"}), "{ [key: string]: unknown }"),
        (json!({"type": "object", "additionalProperties": false}), "Record<string, never>"),
        (json!({"type": "object", "additionalProperties": number}), "{ [key: string]: number }"),
        (json!({"properties": {"a": number}, "additionalProperties": false}), "{ a?: number }"),
        (
            json!({"properties": {"a": number}, "required": ["a"], "additionalProperties": string}),
            "{ a: number; [key: string]: number | string }",
        ),
        (
            json!({"properties": {"a": number}, "additionalProperties": string}),
            "{ a?: number; [key: string]: number | undefined | string }",
        ),
        (
            json!({"properties": {"a": number}, "additionalProperties": true}),
            "{ a?: number; [key: string]: unknown }",
        ),
        (
            json!({"type": "object", "patternProperties": {"^x": number}, "additionalProperties": false}),
            "{ [key: string]: number }",
        ),
        (json!({"type": "object", "required": ["a-b"]}), r#"{ "a-b": unknown }"#),
        (
            json!({"type": ["object", "null"], "properties": {"a": {"type": "object", "properties": {"b": string}}}}),
            "{ a?: { b?: string } } | null",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(type_of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn function_params_become_function_types() {
    let bare = json!({"type": "object", "required": ["$fn"]});
    assert_eq!(type_of(bare.clone()), "(input?: unknown) => unknown");
    assert_eq!(type_of(json!({"items": bare})), "((input?: unknown) => unknown)[]");
    let typed = json!({"type": "object", "required": ["$fn"], "x-fn": {"input": {"type": "string"}, "output": {"type": "null"}}});
    assert_eq!(
        type_of(json!({"anyOf": [typed, {"type": "null"}]})),
        "((input: string) => Promise<null>) | null"
    );
}

#[test]
fn input_that_may_be_empty_is_optional() {
    let parameter = |schema: Value| {
        let text = declarations(&[binding("f", schema, json!(true))]);
        text.contains("function f(input?: ")
    };
    for schema in [
        json!(true),
        json!({}),
        json!({"properties": {"a": {}}}),
        json!({"anyOf": [{"type": "string"}, {"type": "object"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        json!({"$ref": "#"}),
    ] {
        assert!(parameter(schema.clone()), "{schema}");
    }
    for schema in [
        json!(false),
        json!({"type": "string"}),
        json!({"required": ["a"]}),
        json!({"minProperties": 1}),
        json!({"allOf": [{"required": ["a"]}]}),
        json!({"enum": [{"a": 1}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}),
    ] {
        assert!(!parameter(schema.clone()), "{schema}");
    }
}

#[test]
fn only_equal_definitions_of_one_name_are_shared() {
    let uses = |item: Value| json!({"$ref": "#/$defs/List", "$defs": {"List": {"type": "array", "items": {"$ref": "#/$defs/Item"}}, "Item": item}});
    let (one, other) = (json!({"type": "string"}), json!({"type": "number"}));
    let bindings =
        [binding("a", uses(one.clone()), uses(one)), binding("b", uses(other.clone()), uses(other))];
    let expected = "\
declare namespace Types {
  type BInputItem = number;
  type BInputList = BInputItem[];
  type Item = string;
  type List = Item[];
}

declare function a(input: Types.List): Promise<Types.List>;

declare function b(input: Types.BInputList): Promise<Types.BInputList>;
";
    assert_eq!(declarations(&bindings), expected);
}

#[test]
fn type_that_contains_itself_directly_is_unknown() {
    let text = declarations(&[
        binding(
            "a",
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}}),
            json!({"$ref": "#"}),
        ),
        binding(
            "b",
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"type": "array", "items": {"$ref": "#"}}),
        ),
    ]);
    assert!(text.contains("type A = unknown;"), "{text}");
    assert!(text.contains("type AOutput = unknown;"), "{text}");
    assert!(text.contains("interface BInput { next?: BInput }"), "{text}");
    assert!(text.contains("type BOutput = BOutput[];"), "{text}");
}

#[test]
fn types_namespace_avoids_the_name_of_a_binding() {
    let named = json!({"$ref": "#/$defs/Promise", "$defs": {"Promise": {"type": "string"}}});
    let text = declarations(&[binding("Types.get", json!(true), named)]);
    assert!(text.contains("declare namespace Types_ {\n  type TypesGetOutputPromise = string;\n}"), "{text}");
    assert!(text.contains("Promise<Types_.TypesGetOutputPromise>"), "{text}");
}

#[test]
fn depth_and_length_are_bounded() {
    let tower =
        |levels: usize| (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"items": inner}));
    assert_eq!(
        type_of(tower(types::TYPE_DEPTH_MAX - 1)),
        format!("string{}", "[]".repeat(types::TYPE_DEPTH_MAX - 1))
    );
    assert!(type_of(tower(types::TYPE_DEPTH_MAX)).starts_with("unknown[]"));
    let members =
        |count: usize| json!({"enum": (0..count).map(|member| member.to_string()).collect::<Vec<_>>()});
    assert!(type_of(members(types::ENUM_MEMBERS_MAX)).ends_with(r#"| "199""#));
    assert_eq!(type_of(members(types::ENUM_MEMBERS_MAX + 1)), "string");
}

#[test]
fn types_beyond_the_limit_are_unknown() {
    let defs = |count: usize| {
        let name = |number: usize| format!("D{number}");
        let all: serde_json::Map<_, _> =
            (0..count).map(|number| (name(number), json!({"type": "string"}))).collect();
        let uses: Vec<Value> =
            (0..count).map(|number| json!({"$ref": format!("#/$defs/D{number}")})).collect();
        json!({"prefixItems": uses, "items": false, "minItems": count, "$defs": all})
    };
    assert!(type_of(defs(named::NAMED_TYPES_MAX)).ends_with("Types.D1999]"));
    assert!(type_of(defs(named::NAMED_TYPES_MAX + 1)).ends_with("Types.D1999, unknown]"));
}

#[test]
fn invalid_names_are_left_out() {
    assert_eq!(
        declarations(&[
            Declaration::named("class"),
            Declaration::named("a b"),
            Declaration::named("console.x")
        ]),
        "\n"
    );
}
