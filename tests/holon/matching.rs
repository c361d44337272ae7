//! How a vector says what it expects: an object asks for its own members only, `{"$any": true}` for anything,
//! `{"$re": …}` for a text of that form, and `{}` for an empty object.

use serde_json::{Value, json};

/// Whether a value is what a pattern asks for.
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

/// Whether an object has these members and no others.
pub(crate) fn has_keys(value: &Value, keys: &Value) -> bool {
    let mut found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted: Vec<&str> = keys.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    found == wanted
}

/// The vector's text with a placeholder filled in.
pub(crate) fn filled(value: &Value, placeholder: &str, text: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(placeholder, text)).unwrap()
}

/// Why a strict client would close on this frame, if it would.
pub(crate) fn fault(text: &str) -> Option<&'static str> {
    let Ok(Value::Object(frame)) = serde_json::from_str::<Value>(text) else { return Some("no object") };
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
            let is_whole = error["code"].is_i64() && error["message"].is_string();
            (!is_whole).then_some("error object")
        }
        _ => Some("shape"),
    }
}
