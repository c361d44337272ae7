//! What a peer says about one binding: name, description, schemas, effects, hints.
//!
//! Read by hand from a JSON value rather than by a serde derive, because a refusal has to say where in the
//! declaration the fault is. A file is read strictly (an unknown field there is a typing error), a client's
//! handshake leniently (it may speak a later revision). Whether a schema is a valid one is decided where it is
//! compiled, and whether a name is free where it is registered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest description.
/// Descriptions go into every prompt; one beyond this is a document, and 10 000 bindings of it would be 640 MiB.
pub const DESCRIPTION_BYTES_MAX: usize = 64 << 10;

/// Most effects of one binding.
/// Policies name a handful (`read`, `write`, `external`); every call walks the list.
pub const EFFECTS_MAX: usize = 32;

/// Longest name of an effect, for the same reason.
pub const EFFECT_BYTES_MAX: usize = 128;

/// `limits` belongs to the package loader, which reads it itself; in a file it is no stranger.
const FILE_FIELDS: [&str; 7] = ["name", "description", "input", "output", "effects", "hints", "limits"];

/// One binding as it stands in a handshake or in a package file.
///
/// What was absent stays absent when it is written again: an absent schema means "anything" and an absent
/// description is not an empty one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Declaration {
    /// Dotted name under which scripts call the binding.
    pub name: String,
    /// What it does, for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Schema of the wire form of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Schema of the wire form of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What a call does to the world (`read`, `write`, `external`, …); policies speak of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// Anything the declaring side wants to tell; passed on unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Value>,
}

/// Why a declaration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct DeclarationError {
    /// JSON Pointer into the declaration; empty for the declaration itself.
    pub path: String,
    /// What was wrong and what was expected.
    pub message: String,
}

impl Declaration {
    /// A binding of this name about which nothing else is said.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            input: None,
            output: None,
            effects: Vec::new(),
            hints: None,
        }
    }

    /// Reads a declaration that stands in a file: an unknown field is an error.
    pub fn from_file(value: &Value) -> Result<Self, DeclarationError> {
        let fields = fields_of(value)?;
        match fields.keys().find(|key| !FILE_FIELDS.contains(&key.as_str())) {
            Some(unknown) => {
                let message = format!("unknown field; known are {}", FILE_FIELDS.join(", "));
                Err(refused(pointer_to(unknown), message))
            }
            None => Self::from_fields(fields),
        }
    }

    /// Reads a declaration that came from a peer: an unknown field is skipped.
    pub fn from_peer(value: &Value) -> Result<Self, DeclarationError> {
        Self::from_fields(fields_of(value)?)
    }

    fn from_fields(fields: &Map<String, Value>) -> Result<Self, DeclarationError> {
        Ok(Self {
            name: name(fields)?,
            description: description(fields)?,
            input: schema(fields, "input")?,
            output: schema(fields, "output")?,
            effects: effects(fields)?,
            hints: fields.get("hints").cloned(),
        })
    }
}

fn fields_of(value: &Value) -> Result<&Map<String, Value>, DeclarationError> {
    value.as_object().ok_or_else(|| unexpected("", "object", value))
}

fn name(fields: &Map<String, Value>) -> Result<String, DeclarationError> {
    match fields.get("name") {
        Some(Value::String(name)) => Ok(name.clone()),
        Some(other) => Err(unexpected("/name", "string", other)),
        None => Err(refused("/name", "missing; every binding has a name")),
    }
}

fn description(fields: &Map<String, Value>) -> Result<Option<String>, DeclarationError> {
    match fields.get("description") {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= DESCRIPTION_BYTES_MAX => Ok(Some(text.clone())),
        Some(Value::String(text)) => {
            let message = format!("expected at most {DESCRIPTION_BYTES_MAX} bytes, got {}", text.len());
            Err(refused("/description", message))
        }
        Some(other) => Err(unexpected("/description", "string", other)),
    }
}

fn schema(fields: &Map<String, Value>, field: &str) -> Result<Option<Value>, DeclarationError> {
    match fields.get(field) {
        None => Ok(None),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => Ok(Some(schema.clone())),
        Some(other) => Err(unexpected(&pointer_to(field), "a JSON Schema (object or boolean)", other)),
    }
}

fn effects(fields: &Map<String, Value>) -> Result<Vec<String>, DeclarationError> {
    let listed = match fields.get("effects") {
        None => return Ok(Vec::new()),
        Some(Value::Array(listed)) => listed,
        Some(other) => return Err(unexpected("/effects", "array of strings", other)),
    };
    if listed.len() > EFFECTS_MAX {
        let message = format!("expected at most {EFFECTS_MAX} effects, got {}", listed.len());
        return Err(refused("/effects", message));
    }
    listed.iter().enumerate().map(|(at, effect)| one_effect(at, effect)).collect()
}

fn one_effect(at: usize, effect: &Value) -> Result<String, DeclarationError> {
    let path = format!("/effects/{at}");
    match effect {
        Value::String(name) if name.is_empty() => {
            Err(refused(path, "expected the name of an effect, got \"\""))
        }
        Value::String(name) if name.len() > EFFECT_BYTES_MAX => {
            Err(refused(path, format!("expected at most {EFFECT_BYTES_MAX} bytes, got {}", name.len())))
        }
        Value::String(name) => Ok(name.clone()),
        other => Err(unexpected(&path, "string", other)),
    }
}

/// One step of a JSON Pointer, escaped.
pub(crate) fn pointer_to(field: &str) -> String {
    format!("/{}", field.replace('~', "~0").replace('/', "~1"))
}

fn unexpected(path: &str, expected: &str, got: &Value) -> DeclarationError {
    refused(path, format!("expected {expected}, got {}", type_name(got)))
}

fn refused(path: impl Into<String>, message: impl Into<String>) -> DeclarationError {
    DeclarationError { path: path.into(), message: message.into() }
}

/// What a JSON value is, for people.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn get_order() -> Value {
        json!({
            "name": "getOrder",
            "description": "Fetch an order by ID. Returns null if not found.",
            "input": { "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] },
            "output": { "oneOf": [{ "$ref": "#/$defs/Order" }, { "type": "null" }] },
            "effects": ["read"]
        })
    }

    fn refusal(declaration: Value) -> (String, String) {
        let error = Declaration::from_peer(&declaration).unwrap_err();
        (error.path, error.message)
    }

    #[test]
    fn worked_example_comes_out_as_it_went_in() {
        let wire = get_order();
        let read = Declaration::from_file(&wire).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), wire.to_string());
    }

    #[test]
    fn absent_fields_stay_absent() {
        let read = Declaration::from_peer(&json!({"name": "ping"})).unwrap();
        assert_eq!(read, Declaration::named("ping"));
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"name":"ping"}"#);
    }

    #[test]
    fn boolean_schemas_and_empty_descriptions_are_kept() {
        let wire = json!({"name": "a", "description": "", "input": false, "output": true, "hints": null});
        let read = Declaration::from_file(&wire).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), wire);
    }

    #[test]
    fn unknown_field_is_refused_in_a_file_and_skipped_from_a_peer() {
        let wire = json!({"name": "a", "in/put": {}});
        let error = Declaration::from_file(&wire).unwrap_err();
        assert_eq!(error.path, "/in~1put");
        assert!(error.message.starts_with("unknown field; known are name, description"), "{}", error.message);
        assert_eq!(Declaration::from_peer(&wire).unwrap(), Declaration::named("a"));
    }

    #[test]
    fn limits_in_a_file_are_left_to_the_loader() {
        let wire = json!({"name": "a", "limits": {"timeoutMs": 5}});
        assert_eq!(Declaration::from_file(&wire).unwrap(), Declaration::named("a"));
    }

    #[test]
    fn refusals_name_the_place() {
        let cases = [
            (json!([]), "", "expected object, got array"),
            (json!({}), "/name", "missing; every binding has a name"),
            (json!({"name": 1}), "/name", "expected string, got number"),
            (json!({"name": "a", "description": null}), "/description", "expected string, got null"),
            (
                json!({"name": "a", "input": null}),
                "/input",
                "expected a JSON Schema (object or boolean), got null",
            ),
            (
                json!({"name": "a", "output": "x"}),
                "/output",
                "expected a JSON Schema (object or boolean), got string",
            ),
            (json!({"name": "a", "effects": "read"}), "/effects", "expected array of strings, got string"),
            (json!({"name": "a", "effects": ["read", true]}), "/effects/1", "expected string, got boolean"),
            (json!({"name": "a", "effects": [""]}), "/effects/0", "expected the name of an effect, got \"\""),
        ];
        for (wire, path, message) in cases {
            assert_eq!(refusal(wire), (path.to_owned(), message.to_owned()));
        }
    }

    #[test]
    fn limits_hold_at_the_edge_and_not_past_it() {
        let described = |bytes: usize| json!({"name": "a", "description": "x".repeat(bytes)});
        assert!(Declaration::from_peer(&described(DESCRIPTION_BYTES_MAX)).is_ok());
        assert_eq!(refusal(described(DESCRIPTION_BYTES_MAX + 1)).0, "/description");
        let with_effects = |count: usize| json!({"name": "a", "effects": vec!["read"; count]});
        assert!(Declaration::from_peer(&with_effects(EFFECTS_MAX)).is_ok());
        assert_eq!(refusal(with_effects(EFFECTS_MAX + 1)).0, "/effects");
        let long_effect = |bytes: usize| json!({"name": "a", "effects": ["x".repeat(bytes)]});
        assert!(Declaration::from_peer(&long_effect(EFFECT_BYTES_MAX)).is_ok());
        assert_eq!(refusal(long_effect(EFFECT_BYTES_MAX + 1)).0, "/effects/0");
    }
}
