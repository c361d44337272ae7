//! Whether a message is what a transcript expects.
//!
//! `"*"` is any value, `"*text*"` a string that contains it (`"text*"`, `"*text"` likewise), `"${name}"` is
//! remembered the first time and the same ever after, a member `"...": "*"` allows members that are not named,
//! and a last item `"..."` allows further items.

use std::collections::HashMap;

use serde_json::Value;

/// What a transcript has remembered.
pub type Memory = HashMap<String, Value>;

/// Compares; an error says where and how they differ.
pub fn matches(expected: &Value, got: &Value, memory: &mut Memory, path: &str) -> Result<(), String> {
    match (expected, got) {
        (Value::String(pattern), _) => {
            text_matches(pattern, got, memory).ok_or_else(|| differ(path, expected, got))
        }
        (Value::Array(wanted), Value::Array(items)) => {
            let (wanted, is_open) = match wanted.split_last() {
                Some((last, start)) if last == "..." => (start, true),
                _ => (wanted.as_slice(), false),
            };
            if items.len() < wanted.len() || (items.len() > wanted.len() && !is_open) {
                return Err(differ(path, expected, got));
            }
            for (index, (one, other)) in wanted.iter().zip(items).enumerate() {
                matches(one, other, memory, &format!("{path}/{index}"))?;
            }
            Ok(())
        }
        (Value::Object(wanted), Value::Object(fields)) => {
            for (key, one) in wanted.iter().filter(|(key, _)| *key != "...") {
                let other = fields.get(key).ok_or_else(|| format!("{path}: no `{key}` in {got}"))?;
                matches(one, other, memory, &format!("{path}/{key}"))?;
            }
            match fields.keys().find(|key| !wanted.contains_key(*key)) {
                Some(extra) if !wanted.contains_key("...") => {
                    Err(format!("{path}: unexpected `{extra}` in {got}"))
                }
                _ => Ok(()),
            }
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => Ok(()),
        _ if expected == got => Ok(()),
        _ => Err(differ(path, expected, got)),
    }
}

fn differ(path: &str, expected: &Value, got: &Value) -> String {
    format!("{path}: expected {expected}, got {got}")
}

fn text_matches(pattern: &str, got: &Value, memory: &mut Memory) -> Option<()> {
    if pattern == "*" {
        return Some(());
    }
    if let Some(name) = pattern.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        let known = memory.entry(name.to_owned()).or_insert_with(|| got.clone());
        return (known == got).then_some(());
    }
    let text = got.as_str()?;
    let found = match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => text.contains(&pattern[1..pattern.len() - 1]),
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == pattern,
    };
    found.then_some(())
}

/// The text with everything remembered put in.
pub fn filled(text: &str, memory: &Memory) -> String {
    memory.iter().fold(text.to_owned(), |text, (name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.replace(&format!("${{{name}}}"), &value)
    })
}
