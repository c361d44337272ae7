//! The schemas of tools in the one dialect that is checked here.
//!
//! Servers name older drafts, mostly because their libraries do, and use little of them. What differs is rewritten:
//! a list of schemas in `items`, and `definitions`, which need no rewriting because references are pointers.

use serde_json::{Map, Value, json};

/// Deepest schema that is rewritten; the check of schemas refuses deeper ones.
const DEPTH_MAX: usize = 128;

/// Members whose values are not schemas, whatever they look like.
const OPAQUE: [&str; 5] = ["enum", "const", "default", "examples", "example"];

/// Members whose values are maps from names to schemas.
const SCHEMA_MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// A schema of a tool in Draft 2020-12.
pub(super) fn modernize(schema: &Value) -> Value {
    rewritten(schema, 0)
}

fn rewritten(schema: &Value, depth: usize) -> Value {
    match schema {
        Value::Object(fields) if depth < DEPTH_MAX => Value::Object(rewritten_fields(fields, depth)),
        Value::Array(items) if depth < DEPTH_MAX => {
            items.iter().map(|item| rewritten(item, depth + 1)).collect()
        }
        other => other.clone(),
    }
}

fn rewritten_fields(fields: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let is_tuple = fields.get("items").is_some_and(Value::is_array);
    let mut out = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            // Which draft is meant is settled here.
            "$schema" => {}
            "items" if is_tuple => {
                out.insert("prefixItems".to_owned(), rewritten(value, depth + 1));
            }
            "additionalItems" if is_tuple => {
                out.insert("items".to_owned(), rewritten(value, depth + 1));
            }
            "additionalItems" => {}
            name if OPAQUE.contains(&name) => {
                out.insert(key.clone(), value.clone());
            }
            name if SCHEMA_MAPS.contains(&name) => {
                out.insert(key.clone(), rewritten_map(value, depth + 1));
            }
            _ => {
                out.insert(key.clone(), rewritten(value, depth + 1));
            }
        }
    }
    out
}

/// The names in a map of schemas are the server's own: a property may be called `$schema`.
fn rewritten_map(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, schema)| (name.clone(), rewritten(schema, depth + 1)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// The input of a tool with room for `onProgress`. A tool that has a member of that name keeps its own.
pub(super) fn with_progress(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.entry(ON_PROGRESS).or_insert_with(|| {
            json!({
                "description": "Called with what the server reports while the call runs.",
                "type": "object",
                "required": ["$fn"],
                "x-fn": {"input": {"type": "object", "properties": {
                    "progress": {"type": "number"}, "total": {"type": "number"}, "message": {"type": "string"},
                }, "required": ["progress"]}},
            })
        });
    }
    schema
}

/// Whether a schema declares `onProgress` itself.
pub(super) fn has_own_progress(schema: &Value) -> bool {
    schema.pointer("/properties/onProgress").is_some()
}

/// The member of the input that takes the function.
pub(super) const ON_PROGRESS: &str = "onProgress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_drafts_are_rewritten() {
        let old = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {
                "pair": {"type": "array", "items": [{"type": "string"}, true], "additionalItems": false},
                "$schema": {"type": "string"},
            },
            "definitions": {"x": {"$schema": "other", "const": {"$schema": 1}}},
        });
        assert_eq!(
            modernize(&old),
            json!({
                "type": "object",
                "properties": {
                    "pair": {"type": "array", "prefixItems": [{"type": "string"}, true], "items": false},
                    "$schema": {"type": "string"},
                },
                "definitions": {"x": {"const": {"$schema": 1}}},
            })
        );
    }

    #[test]
    fn progress_is_added_unless_the_tool_has_its_own() {
        let plain = with_progress(json!({"type": "object", "additionalProperties": false}));
        assert_eq!(plain["properties"]["onProgress"]["required"], json!(["$fn"]));
        let own = json!({"properties": {"onProgress": {"type": "string"}}});
        assert!(has_own_progress(&own));
        assert_eq!(with_progress(own.clone()), own);
        assert_eq!(with_progress(json!(true)), json!(true));
    }
}
