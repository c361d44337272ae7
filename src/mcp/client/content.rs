//! What a server answered, as the value of a call.
//!
//! One text is a string, other content is objects with a `type`; bytes are bytes. JSON in a text stays text: only the
//! script knows whether it was meant as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::binding::BindingError;
use crate::protocol::plain::from_plain;
use crate::rpc::Kind;

/// Longest text of an error that is passed on. It goes into messages, logs and prompts.
/// Past it: the rest is left out.
pub(super) const ERROR_BYTES_MAX: usize = 16 << 10;

/// The value of a `tools/call`. `is_structured` says whether the tool declares an output schema.
pub(super) fn value_of_call(result: &Value, is_structured: bool) -> Result<Value, BindingError> {
    let content = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(error_of(content));
    }
    match result.get("structuredContent") {
        Some(structured) if is_structured || content.is_empty() => Ok(from_plain(structured.clone())),
        None if is_structured => {
            Err(invalid("the tool declares an output schema, but sent no structuredContent"))
        }
        Some(_) | None => value_of_content(content),
    }
}

/// One block is itself, several are a list, none is null.
fn value_of_content(content: &[Value]) -> Result<Value, BindingError> {
    match content {
        [] => Ok(Value::Null),
        [block] => value_of_block(block),
        blocks => blocks.iter().map(value_of_block).collect(),
    }
}

/// A content block: a text is its string, everything else an object.
pub(super) fn value_of_block(block: &Value) -> Result<Value, BindingError> {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match (field("type"), field("text"), field("data")) {
        (Some("text"), Some(text), _) => Ok(text.into()),
        (Some(kind @ ("image" | "audio")), _, Some(data)) => {
            Ok(json!({"type": kind, "mimeType": field("mimeType"), "data": bytes(data)?}))
        }
        (Some("resource"), ..) => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            let mut value = value_of_resource(resource)?;
            if let Some(fields) = value.as_object_mut() {
                fields.insert("type".to_owned(), "resource".into());
            }
            Ok(value)
        }
        (Some(_), ..) => Ok(from_plain(without_meta(block))),
        (None, ..) => Err(invalid("a content block has no type")),
    }
}

/// The contents of a resource: `uri`, `mimeType`, and `text` or `data`.
pub(super) fn value_of_resource(resource: &Value) -> Result<Value, BindingError> {
    let Value::Object(fields) = without_meta(resource) else {
        return Err(invalid("expected the contents of a resource, got something else"));
    };
    let mut out = Map::new();
    for (key, value) in fields {
        match (key.as_str(), &value) {
            ("blob", Value::String(blob)) => {
                out.insert("data".to_owned(), bytes(blob)?);
            }
            _ => {
                out.insert(key, from_plain(value));
            }
        }
    }
    Ok(Value::Object(out))
}

/// What is for the protocol alone goes to no script.
pub(super) fn without_meta(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("_meta");
    }
    value
}

fn bytes(base64: &str) -> Result<Value, BindingError> {
    match BASE64.decode(base64) {
        Ok(_) => Ok(json!({"$bytes": base64})),
        Err(error) => Err(invalid(&format!("the server sent bytes that are not base64: {error}"))),
    }
}

/// A failed tool says why in its content.
fn error_of(content: &[Value]) -> BindingError {
    let texts: Vec<&str> = content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    let text =
        if texts.is_empty() { "the tool failed without a reason".to_owned() } else { texts.join("\n") };
    BindingError::new(shortened(&text))
}

/// A text of the server, cut to [`ERROR_BYTES_MAX`].
pub(super) fn shortened(text: &str) -> String {
    match text.len() > ERROR_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(ERROR_BYTES_MAX)]),
        false => text.to_owned(),
    }
}

fn invalid(message: &str) -> BindingError {
    BindingError::of_kind(Kind::InvalidOutput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn one_text_is_a_string_and_several_blocks_are_a_list() {
        let value = |content: Value| value_of_call(&json!({"content": content}), false).unwrap();
        assert_eq!(value(json!([text("{\"a\":1}")])), json!("{\"a\":1}"));
        assert_eq!(value(json!([])), Value::Null);
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAE="});
        assert_eq!(
            value(json!([text("a"), image])),
            json!(["a", {"type": "image", "mimeType": "image/png", "data": {"$bytes": "AAE="}}])
        );
        let resource = json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AAE=", "_meta": {}}});
        assert_eq!(
            value(json!([resource])),
            json!({"uri": "a:b", "data": {"$bytes": "AAE="}, "type": "resource"})
        );
        let link = json!({"type": "resource_link", "uri": "a:b", "name": "n", "_meta": {}});
        assert_eq!(value(json!([link])), json!({"type": "resource_link", "uri": "a:b", "name": "n"}));
    }

    #[test]
    fn structured_content_is_the_value_of_a_typed_tool() {
        let result = json!({"content": [text("shown")], "structuredContent": {"$date": "x"}});
        assert_eq!(value_of_call(&result, true).unwrap(), json!({"$object": {"$date": "x"}}));
        assert_eq!(value_of_call(&result, false).unwrap(), json!("shown"));
        let missing = value_of_call(&json!({"content": [text("x")]}), true).unwrap_err();
        assert_eq!(missing.kind(), Some("InvalidOutput"));
    }

    #[test]
    fn failed_tool_throws_its_text() {
        let failed =
            |content: Value| value_of_call(&json!({"content": content, "isError": true}), true).unwrap_err();
        let error = failed(json!([text("no such"), text("issue")]));
        assert_eq!((error.kind(), error.own_message()), (Some("BindingError"), "no such\nissue"));
        assert_eq!(failed(json!([])).own_message(), "the tool failed without a reason");
    }

    #[test]
    fn error_text_is_limited() {
        assert_eq!(shortened(&"x".repeat(ERROR_BYTES_MAX)).len(), ERROR_BYTES_MAX);
        let cut = shortened(&"ä".repeat(ERROR_BYTES_MAX));
        assert!(cut.ends_with("ä…") && cut.len() <= ERROR_BYTES_MAX + "…".len());
    }

    #[test]
    fn malformed_content_is_refused() {
        for block in [json!({"type": "image", "data": "*", "mimeType": "image/png"}), json!({}), json!(5)] {
            let error = value_of_call(&json!({"content": [block]}), false).unwrap_err();
            assert_eq!(error.kind(), Some("InvalidOutput"), "{block}");
        }
    }
}
