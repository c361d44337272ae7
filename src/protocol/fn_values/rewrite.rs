//! The functions in a value under other names: each boundary that a value crosses has its own.
//!
//! Only the server needs this; a client takes the names as they come.

use serde_json::Value;

use super::super::fn_ref::FnRef;
use super::{escaped, id_of, visit_ids};

/// Replaces functions, where `by` returns something else.
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

/// Replaces the ids of functions, where `by` returns another one.
pub(crate) fn rename(value: &mut Value, mut by: impl FnMut(&str) -> Option<String>) {
    replace(value, &mut |function| {
        let id = by(id_of(function)?)?;
        let mut renamed = function.clone();
        renamed["$fn"] = Value::from(id);
        Some(renamed)
    });
}

/// A value of a client, with its functions named as those of that connection.
pub(crate) fn scope_to_connection(mut value: Value, connection: u64) -> Value {
    rename(&mut value, |id| Some(FnRef::Client { connection, id: id.to_owned() }.to_string()));
    value
}

/// The functions in a value between a session and a handler, as often as they occur.
pub(crate) fn names(value: &Value) -> Vec<FnRef> {
    let mut found = Vec::new();
    visit_ids(value, &mut |id| found.push(FnRef::parse_or_unknown(id)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_replaced_but_not_in_escaped_objects() {
        let mut value = json!({"a": [{"$fn": "f1"}], "b": {"$object": {"$fn": "f1", "c": {"$fn": "f2"}}}});
        replace(&mut value, &mut |function| Some(json!(format!("was {}", id_of(function)?))));
        assert_eq!(value, json!({"a": ["was f1"], "b": {"$object": {"$fn": "f1", "c": "was f2"}}}));
    }

    #[test]
    fn client_ids_that_look_like_names_are_scoped_like_any_other() {
        let value =
            json!([{"$fn": "c1", "name": "x"}, {"$fn": "h3"}, {"$fn": "2:c1"}, {"$object": {"$fn": "f1"}}]);
        let scoped = scope_to_connection(value, 4);
        let expected = json!([{"$fn": "4:c1", "name": "x"}, {"$fn": "4:h3"}, {"$fn": "4:2:c1"}, {"$object": {"$fn": "f1"}}]);
        assert_eq!(scoped, expected);
        let client = |id: &str| FnRef::Client { connection: 4, id: id.to_owned() };
        assert_eq!(names(&scoped), [client("c1"), client("h3"), client("2:c1")]);
    }
}
