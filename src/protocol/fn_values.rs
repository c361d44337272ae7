//! Functions in values on the wire: objects with `$fn`, at any depth.
//!
//! An object that is escaped with `$object` is not a function, whatever its keys are, but it may contain some.

#[cfg(feature = "server")]
mod rewrite;

use serde_json::{Map, Value};

#[cfg(feature = "server")]
pub(crate) use rewrite::{names, rename, replace, scope_to_connection};

/// Calls `see` with every function in a value.
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

/// Calls `see` with the id of every function in a value, as often as it occurs.
pub(crate) fn visit_ids(value: &Value, see: &mut impl FnMut(&str)) {
    visit(value, &mut |function| id_of(function).into_iter().for_each(&mut *see));
}

/// The id of a function.
pub(crate) fn id_of(function: &Value) -> Option<&str> {
    function.get("$fn").and_then(Value::as_str)
}

fn escaped(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    fields.get("$object").filter(|_| fields.len() == 1).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_found_at_any_depth_and_not_in_escaped_objects() {
        let value = json!({"a": [{"$fn": "f1"}], "b": {"$object": {"$fn": "f1", "c": {"$fn": "f2"}}}});
        let mut found = Vec::new();
        visit_ids(&value, &mut |id| found.push(id.to_owned()));
        assert_eq!(found, ["f1", "f2"]);
    }
}
