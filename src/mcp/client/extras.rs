//! Resources and prompts of a server as bindings: `package.resources.list` and `.read`, `package.prompts.list` and `.get`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::call;
use super::content::{value_of_block, value_of_resource, without_meta};
use super::package::McpPackage;
use crate::binding::{Binding, BindingError, Call, handler};
use crate::protocol::declaration::Declaration;
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

/// `resources.list` and `resources.read`.
pub(super) fn resources(package: &Arc<McpPackage>) -> [Binding; 2] {
    let list = declaration(
        package,
        "resources.list",
        "Lists the resources of the server, a page at a time.",
        json!({"type": "object", "properties": {"cursor": {"type": "string"}}, "additionalProperties": false}),
    );
    let read = declaration(
        package,
        "resources.read",
        "Reads a resource: a list of its parts, each with `uri`, `mimeType`, and `text` or `data`.",
        json!({"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"],
            "additionalProperties": false}),
    );
    [bind(package, list, "resources/list", page), bind(package, read, "resources/read", contents)]
}

/// `prompts.list` and `prompts.get`.
pub(super) fn prompts(package: &Arc<McpPackage>) -> [Binding; 2] {
    let list = declaration(
        package,
        "prompts.list",
        "Lists the prompts of the server, a page at a time.",
        json!({"type": "object", "properties": {"cursor": {"type": "string"}}, "additionalProperties": false}),
    );
    let get = declaration(
        package,
        "prompts.get",
        "Returns the messages of a prompt.",
        json!({"type": "object", "properties": {
            "name": {"type": "string"},
            "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        }, "required": ["name"], "additionalProperties": false}),
    );
    [bind(package, list, "prompts/list", page), bind(package, get, "prompts/get", messages)]
}

fn declaration(package: &McpPackage, name: &str, description: &str, input: Value) -> Declaration {
    Declaration {
        description: Some(description.to_owned()),
        input: Some(input),
        effects: vec!["read".to_owned()],
        ..Declaration::named(format!("{}.{name}", package.name))
    }
}

fn bind(
    package: &Arc<McpPackage>,
    declaration: Declaration,
    method: &'static str,
    read: fn(&Value) -> Result<Value, BindingError>,
) -> Binding {
    let shared = Arc::clone(package);
    let handler = handler(move |input: Value, call: Call| {
        let package = Arc::clone(&shared);
        async move {
            let params = match to_plain(input) {
                Ok(Value::Null) => json!({}),
                Ok(params) => params,
                Err(error) => return Err(BindingError::of_kind(Kind::InvalidInput, error.to_string())),
            };
            read(&call::request(&package, method, params, None, call).await?)
        }
    });
    package.bind(declaration, handler)
}

/// A page of a list: its items and `nextCursor`.
fn page(result: &Value) -> Result<Value, BindingError> {
    let mut out = Map::new();
    for (key, value) in without_meta(result).as_object().into_iter().flatten() {
        if !["resultType", "ttlMs", "cacheScope"].contains(&key.as_str()) {
            out.insert(key.clone(), from_plain(value.clone()));
        }
    }
    Ok(Value::Object(out))
}

fn contents(result: &Value) -> Result<Value, BindingError> {
    let parts = result.get("contents").and_then(Value::as_array);
    parts.map(Vec::as_slice).unwrap_or_default().iter().map(value_of_resource).collect()
}

/// `description`, and `messages` with `role` and `content`.
fn messages(result: &Value) -> Result<Value, BindingError> {
    let listed = result.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let message = |message: &Value| {
        let content = value_of_block(message.get("content").unwrap_or(&Value::Null))?;
        Ok(json!({"role": message.get("role"), "content": content}))
    };
    let messages = listed.iter().map(message).collect::<Result<Vec<_>, BindingError>>()?;
    Ok(json!({"description": result.get("description"), "messages": messages}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_lose_what_is_for_the_protocol() {
        let listed = json!({"resources": [{"uri": "a:b"}], "nextCursor": "2", "_meta": {}, "ttlMs": 5});
        assert_eq!(page(&listed).unwrap(), json!({"resources": [{"uri": "a:b"}], "nextCursor": "2"}));
        let read = json!({"contents": [{"uri": "a:b", "text": "x", "_meta": {}}]});
        assert_eq!(contents(&read).unwrap(), json!([{"uri": "a:b", "text": "x"}]));
        let got = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
        assert_eq!(
            messages(&got).unwrap(),
            json!({"description": null, "messages": [{"role": "user", "content": "hi"}]})
        );
    }
}
