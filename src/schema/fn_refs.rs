//! Function references in a value on the wire: objects with `$fn`, at any depth.
//!
//! An object that is escaped with `$object` is not a function, whatever its keys are, but it may contain some.

use serde_json::{Map, Value};

/// Calls `see` for every reference in a value.
pub(crate) fn visit(value: &Value, see: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) if fields.contains_key("$fn") => see(value),
        Value::Object(fields) => match escaped(fields) {
            Some(inner) => inner.values().for_each(|field| visit(field, see)),
            None => fields.values().for_each(|field| visit(field, see)),
        },
        Value::Array(items) => items.iter().for_each(|item| visit(item, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces every reference for which `by` returns a value.
pub(crate) fn replace(value: &mut Value, by: &mut impl FnMut(&Value) -> Option<Value>) {
    match value {
        Value::Object(fields) if fields.contains_key("$fn") => {
            if let Some(other) = by(value) {
                *value = other;
            }
        }
        Value::Object(fields) => {
            let is_escaped = escaped(fields).is_some();
            for field in fields.values_mut() {
                match field {
                    Value::Object(inner) if is_escaped => {
                        inner.values_mut().for_each(|field| replace(field, by));
                    }
                    field => replace(field, by),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, by)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The id of a reference.
pub(crate) fn id_at(place: &Value) -> Option<&str> {
    place.get("$fn").and_then(Value::as_str)
}

/// The ids of the references in a value, repeated as they occur.
pub(crate) fn ids(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(value, &mut |place| found.extend(id_at(place).map(str::to_owned)));
    found
}

fn escaped(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    fields.get("$object").filter(|_| fields.len() == 1).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_found_at_any_depth_but_not_if_escaped() {
        let mut value = json!({"a": [{"$fn": "f1"}], "b": {"$object": {"$fn": "f1", "c": {"$fn": "f2"}}}});
        assert_eq!(ids(&value), ["f1", "f2"]);
        replace(&mut value, &mut |place| Some(json!(format!("was {}", id_at(place)?))));
        assert_eq!(value, json!({"a": ["was f1"], "b": {"$object": {"$fn": "f1", "c": "was f2"}}}));
    }
}
