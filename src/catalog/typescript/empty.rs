//! Whether a call without argument, which sends `{}`, is fine by a schema.

use serde_json::{Map, Value};

use super::types::list;
use crate::schema::reference;

/// Most references and branches one inside the other that are followed.
/// Past it the parameter counts as optional.
const HOPS_MAX: usize = 16;

/// Whether `{}` may be an input.
pub(super) fn allows_empty(root: &Value, schema: &Value) -> bool {
    allows_empty_object(root, schema, HOPS_MAX)
}

/// In doubt it may: the declaration is then too friendly, not wrong.
fn allows_empty_object(root: &Value, schema: &Value, hops_left: usize) -> bool {
    let (Some(fields), Some(hops_left)) = (schema.as_object(), hops_left.checked_sub(1)) else {
        return schema != &Value::Bool(false);
    };
    let is_object = |name: &Value| name.as_str() == Some("object");
    let typed = match fields.get("type") {
        Some(Value::Array(several)) => several.iter().any(is_object),
        Some(one) => is_object(one),
        None => true,
    };
    let named = match (fields.get("const"), fields.get("enum")) {
        (Some(constant), _) => is_empty_object(constant),
        (None, Some(Value::Array(members))) => members.iter().any(is_empty_object),
        _ => true,
    };
    let allows = |branch: &Value| allows_empty_object(root, branch, hops_left);
    let some = |keyword: &str| !fields.contains_key(keyword) || list(fields, keyword).any(allows);
    let reference = fields.get("$ref").and_then(Value::as_str);
    typed
        && named
        && list(fields, "required").next().is_none()
        && fields.get("minProperties").and_then(Value::as_u64).unwrap_or(0) == 0
        && list(fields, "allOf").all(allows)
        && some("anyOf")
        && some("oneOf")
        && reference.and_then(|reference| reference::resolve(root, reference)).is_none_or(allows)
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
