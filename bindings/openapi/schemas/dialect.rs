//! Keywords of OpenAPI 3.0 that JSON Schema has other words for.

use serde_json::{Map, Value, json};

/// In 3.0 a bound is exclusive by a flag beside it.
pub(super) fn exclusive_bounds(out: &mut Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match out.get(flag) {
            Some(Value::Bool(true)) => {
                match out.shift_remove(bound) {
                    Some(number) => out.insert(flag.to_owned(), number),
                    None => out.shift_remove(flag),
                };
            }
            Some(Value::Bool(false)) => {
                out.shift_remove(flag);
            }
            _ => {}
        }
    }
}

/// A schema that also accepts null.
pub(super) fn nullable(mut out: Map<String, Value>) -> Value {
    let null = Value::from("null");
    let is_composed = ["$ref", "allOf", "anyOf", "oneOf", "const"].iter().any(|key| out.contains_key(*key));
    if is_composed {
        return json!({"anyOf": [out, {"type": "null"}]});
    }
    match out.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&null) => types.push(null),
        Some(one @ Value::String(_)) => *one = json!([one.take(), "null"]),
        Some(_) | None => {}
    }
    if let Some(Value::Array(values)) = out.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(out)
}
