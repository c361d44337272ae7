//! The patterns of vectors: an object matches by the members that it has, `{"$any": true}` matches
//! anything, `{"$re": …}` a string by a regular expression, and `{}` only an empty object.

use serde_json::{Value, json};

pub(crate) fn matches(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Object(fields) if fields.contains_key("$any") => true,
        Value::Object(fields) if fields.contains_key("$re") => {
            jsonschema::is_valid(&json!({"type": "string", "pattern": fields["$re"]}), value)
        }
        Value::Object(fields) if fields.is_empty() => value == pattern,
        Value::Object(fields) => {
            fields.iter().all(|(key, wanted)| value.get(key).is_some_and(|found| matches(wanted, found)))
        }
        other => other == value,
    }
}

/// Whether an object has exactly these members.
pub(crate) fn has_keys(value: &Value, keys: &Value) -> bool {
    let mut found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted: Vec<&str> = keys.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    found == wanted
}

/// Replaces a placeholder in a part of a vector.
pub(crate) fn fill_in(value: &Value, placeholder: &str, text: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(placeholder, text)).unwrap()
}

/// Returns why a strict client would close the connection on this frame; `None` if it would not.
pub(crate) fn find_fault(text: &str) -> Option<&'static str> {
    let Ok(Value::Object(frame)) = serde_json::from_str::<Value>(text) else { return Some("not an object") };
    let has = |key: &str| frame.contains_key(key);
    if frame.keys().any(|key| !["id", "method", "payload", "result", "error"].contains(&key.as_str())) {
        return Some("unknown field");
    }
    if frame.get("id").and_then(Value::as_str).is_none_or(|id| id.trim().is_empty()) {
        return Some("id");
    }
    match (has("method"), has("payload"), has("result"), has("error")) {
        (true, _, false, false) | (false, false, true, false) => None,
        (false, false, false, true) => {
            let error = &frame["error"];
            let is_valid = error["code"].is_i64() && error["message"].is_string();
            (!is_valid).then_some("error object")
        }
        _ => Some("shape"),
    }
}
