//! The JSON Schema of a settings file, for editors that complete and check while one types.

use serde_json::{Map, Value, json};

use super::fields;
use crate::settings_file::{Field, Kind, Unit};

/// The JSON Schema of a settings file.
pub fn json_schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of scomp-serve",
    });
    merge(&mut schema, table(&fields()));
    schema
}

fn table(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.clone(), field_schema(field))).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let required: Vec<&str> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str()).collect();
    if !required.is_empty() {
        merge(&mut schema, json!({"required": required}));
    }
    schema
}

fn field_schema(field: &Field) -> Value {
    let mut schema = json!({"description": field.doc});
    merge(&mut schema, kind_schema(&field.kind, field.unit()));
    if let Some(default) = field.default.as_ref().filter(|_| !matches!(field.kind, Kind::Table(_))) {
        merge(&mut schema, json!({"default": default}));
    }
    if let Some(example) = &field.example {
        merge(&mut schema, json!({"examples": [example]}));
    }
    schema
}

fn kind_schema(kind: &Kind, unit: Option<Unit>) -> Value {
    match kind {
        Kind::Table(fields) => table(fields),
        Kind::Map(values) => json!({"type": "object", "additionalProperties": kind_schema(values, None)}),
        Kind::List(items) => json!({"type": "array", "items": kind_schema(items, None)}),
        Kind::Integer { max } => {
            let mut number = json!({"type": "integer", "minimum": 0});
            if *max < i64::MAX {
                merge(&mut number, json!({"maximum": max}));
            }
            match unit {
                Some(unit) => {
                    let pattern = format!("^[0-9_]+ *({})$", unit.words().collect::<Vec<_>>().join("|"));
                    json!({"anyOf": [number, {"type": "string", "pattern": pattern}]})
                }
                None => number,
            }
        }
        Kind::Number => json!({"type": "number"}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Text => json!({"type": "string"}),
        Kind::Path => json!({"type": "string", "minLength": 1}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::Unknown => Value::Bool(true),
    }
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(schema), Value::Object(more)) = (schema, more) {
        schema.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn schema_agrees_with_the_reader() {
        let validator = jsonschema::validator_for(&json_schema()).unwrap();
        let accepted = |text: &str| {
            let value: toml::Table = toml::from_str(text).unwrap();
            validator.is_valid(&serde_json::to_value(value).unwrap())
        };
        // By way of TOML, which leaves out what is not set.
        assert!(accepted(&toml::to_string(&Settings::default()).unwrap()));
        for text in
            ["drain_ms = '5s'", "[limits]\nmemory_bytes_max = '64MiB'", "[tls]\ncert = 'a'\nkey = 'b'"]
        {
            assert!(accepted(text), "{text}");
        }
        for text in [
            "lisen = 'x'",
            "drain_ms = '5MiB'",
            "drain_ms = -1",
            "stdio = 'yes'",
            "log.format = 'xml'",
            "limits.invoke_depth_max = 4294967296",
            "[tls]\ncert = 'a'",
            "[[auth.tokens]]\nprincipal = 'a'",
            "[[auth.tokens]]\nprincipal = 'a'\nsha256 = 'b'\nroles = ['root']",
        ] {
            assert!(!accepted(text), "{text}");
        }
    }
}
