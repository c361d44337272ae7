//! Finding what a `$ref` that is a JSON Pointer points at, inside one schema document.
//!
//! Validation itself resolves references in the `jsonschema` crate; this is for code that only reads a schema: the
//! limits on its shape and the TypeScript writer.

use serde_json::Value;

/// The value that `#` or `#/$defs/Order` means in the resource `root`; `None` for anchors and URIs.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

/// `None` for a broken escape or one that is not UTF-8.
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
    fn pointers_are_resolved() {
        let root = json!({"$defs": {"a/b": 1, "ü": 2}});
        assert_eq!(resolve(&root, "#"), Some(&root));
        assert_eq!(resolve(&root, "#/$defs/a~1b"), Some(&json!(1)));
        assert_eq!(resolve(&root, "#/%24defs/%C3%BC"), Some(&json!(2)));
    }

    #[test]
    fn broken_references_anchors_and_uris_are_not_resolved() {
        let root = json!({"a": 1});
        for reference in ["", "a", "#/b", "#a", "#/%", "#/%zz", "#/%ff", "http://x.y/#/a"] {
            assert_eq!(resolve(&root, reference), None, "{reference}");
        }
    }
}
