//! The patterns of vectors: an object matches objects with its members and maybe others,
//! `{"$exact": …}` excludes others, and an object with one `$` member is an operator.

use std::collections::HashMap;

use serde_json::{Value, json};

/// The values that a vector saved, by name.
pub(crate) type Saved = HashMap<String, Value>;

/// Returns whether a value matches a pattern; `None` is an absent member.
pub(crate) fn matches(pattern: &Value, value: Option<&Value>, saved: &mut Saved, exact: bool) -> bool {
    if let Some((operator, operand)) = operator(pattern) {
        return operator_matches(operator, operand, value, saved, exact);
    }
    let Some(value) = value else { return false };
    match (pattern, value) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, one)| matches(one, found.get(key), saved, exact))
                && (!exact || found.keys().all(|key| wanted.contains_key(key)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(one, other)| matches(one, Some(other), saved, exact))
        }
        _ => pattern == value,
    }
}

fn operator(pattern: &Value) -> Option<(&str, &Value)> {
    let fields = pattern.as_object().filter(|fields| fields.len() == 1)?;
    let (key, operand) = fields.iter().next()?;
    key.starts_with('$').then_some((key.as_str(), operand))
}

fn operator_matches(
    operator: &str,
    operand: &Value,
    value: Option<&Value>,
    saved: &mut Saved,
    exact: bool,
) -> bool {
    match (operator, value) {
        ("$absent", value) => value.is_none(),
        ("$exact", value) => matches(operand, value, saved, true),
        ("$oneOf", value) => operand.as_array().unwrap().iter().any(|one| matches(one, value, saved, exact)),
        (_, None) => false,
        ("$any", Some(_)) => true,
        ("$type", Some(value)) => type_of(value) == operand,
        ("$has", Some(Value::Array(items))) => operand
            .as_array()
            .unwrap()
            .iter()
            .all(|one| items.iter().any(|item| matches(one, Some(item), saved, false))),
        ("$len", Some(Value::Array(items))) => json!(items.len()) == *operand,
        ("$prefix", Some(Value::String(text))) => text.starts_with(operand.as_str().unwrap()),
        ("$contains", Some(Value::String(text))) => text.contains(operand.as_str().unwrap()),
        ("$save", Some(value)) => {
            saved.insert(operand.as_str().unwrap().to_owned(), value.clone());
            true
        }
        ("$ref", Some(value)) => saved.get(operand.as_str().unwrap()) == Some(value),
        ("$has" | "$len" | "$prefix" | "$contains", Some(_)) => false,
        (unknown, _) => panic!("unknown operator {unknown}"),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Replaces `{"$ref": …}` by saved values.
pub(crate) fn resolve_refs(value: &Value, saved: &Saved) -> Value {
    match (operator(value), value) {
        (Some(("$ref", name)), _) => saved[name.as_str().unwrap()].clone(),
        (_, Value::Object(fields)) => {
            fields.iter().map(|(key, value)| (key.clone(), resolve_refs(value, saved))).collect()
        }
        (_, Value::Array(items)) => items.iter().map(|item| resolve_refs(item, saved)).collect(),
        _ => value.clone(),
    }
}
