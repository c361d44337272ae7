//! Finding what a `$ref` inside one schema document points at.
//!
//! Validation itself resolves references in the `jsonschema` crate; this is for those who only look at a schema: the
//! limits on its shape and the TypeScript writer.

use serde_json::Value;

/// Most subschemas that are looked at for an anchor.
/// Anchors are rare; a document this large without the one sought does not name it.
pub const ANCHOR_VISITS_MAX: usize = 100_000;

/// The value that a reference without a URI (`#`, `#/$defs/Order`, `#order`) means in the resource `root`.
pub fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = percent_decoded(reference.strip_prefix('#')?)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment);
    }
    anchored(root, &fragment)
}

/// The subschema that calls itself `anchor`.
fn anchored<'a>(root: &'a Value, anchor: &str) -> Option<&'a Value> {
    let mut pending = vec![root];
    let mut visited = 0;
    while let Some(value) = pending.pop() {
        visited += 1;
        if visited > ANCHOR_VISITS_MAX {
            return None;
        }
        match value {
            Value::Object(fields) => {
                let named = |key: &str| fields.get(key).and_then(Value::as_str) == Some(anchor);
                if named("$anchor") || named("$dynamicAnchor") {
                    return Some(value);
                }
                let schemas = fields
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "enum" | "const"));
                pending.extend(schemas.map(|(_, value)| value));
            }
            Value::Array(items) => pending.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

/// `None` for a broken escape or one that is no UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_and_anchors_are_found() {
        let root = json!({"$defs": {"a/b": 1, "ü": 2, "x": {"$anchor": "here", "n": 3}, "y": [{"$dynamicAnchor": "dyn"}]}});
        assert_eq!(resolve(&root, "#"), Some(&root));
        assert_eq!(resolve(&root, "#/$defs/a~1b"), Some(&json!(1)));
        assert_eq!(resolve(&root, "#/%24defs/%C3%BC"), Some(&json!(2)));
        assert_eq!(resolve(&root, "#here"), root.pointer("/$defs/x"));
        assert_eq!(resolve(&root, "#dyn"), root.pointer("/$defs/y/0"));
    }

    #[test]
    fn data_in_an_enum_is_no_anchor() {
        let root = json!({"enum": [{"$anchor": "a"}], "const": {"$anchor": "a"}});
        assert_eq!(resolve(&root, "#a"), None);
    }

    #[test]
    fn broken_and_foreign_references_lead_nowhere() {
        let root = json!({"a": 1});
        for reference in ["", "a", "#/b", "#b", "#/%", "#/%zz", "#/%ff", "http://x.y/#/a"] {
            assert_eq!(resolve(&root, reference), None, "{reference}");
        }
    }
}
