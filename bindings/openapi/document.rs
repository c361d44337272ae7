//! An OpenAPI document as a tree, and the references inside of it.
//!
//! The tree stays a tree: documents of real services have mistakes, and one of them must not cost the other operations.
//! What an operation uses is resolved here and then read into the types of the crate `oas3`, piece by piece.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

/// Longest document. The largest public ones have 12 MB.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// Most values of a document in YAML, after aliases are expanded; 16 MB of JSON have about so many.
pub(super) const YAML_NODES_MAX: usize = 2_000_000;

/// Deepest nesting of a document, as in JSON.
pub(super) const DOCUMENT_DEPTH_MAX: usize = 127;

/// Stack of the thread that parses YAML: 256 KiB for each level, of which an unoptimised build takes the tenth.
const YAML_STACK_BYTES: usize = (DOCUMENT_DEPTH_MAX + 1) * (256 << 10);

/// References that lead to references.
pub(super) const REFERENCE_CHAIN_MAX: usize = 16;

/// A document of a version that is supported.
#[derive(Debug)]
pub(super) struct Document {
    root: Value,
    /// 3.0, whose schemas are not JSON Schema.
    pub(super) is_3_0: bool,
}

impl Document {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("{}: cannot be read: {error}", path.display());
        let file = fs::File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        let read = file.take(DOCUMENT_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if read as u64 > DOCUMENT_BYTES_MAX {
            return Err(format!("{}: expected at most {DOCUMENT_BYTES_MAX} bytes", path.display()));
        }
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads a text: JSON if it begins like an object, otherwise YAML.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let root: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?
        } else {
            parse_yaml(text)?
        };
        let version = match (root.get("openapi"), root.get("swagger")) {
            (Some(Value::String(version)), _) => version.as_str(),
            (None, Some(_)) => {
                return Err("Swagger 2.0 is not supported; expected OpenAPI 3.0 or 3.1".to_owned());
            }
            _ => return Err("not an OpenAPI document: expected a text in `openapi`".to_owned()),
        };
        let is_3_0 = version == "3.0" || version.starts_with("3.0.");
        let is_3_1 = version == "3.1" || version.starts_with("3.1.");
        if !is_3_0 && !is_3_1 {
            let version: String = version.chars().take(20).collect();
            return Err(format!("unsupported OpenAPI version `{version}`; expected 3.0 or 3.1"));
        }
        Ok(Self { root, is_3_0 })
    }

    /// A member of the document.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.root.get(name)
    }

    /// What a pointer such as `/components/schemas/Pet` leads to.
    pub(super) fn at(&self, pointer: &str) -> Option<&Value> {
        self.root.pointer(pointer)
    }

    /// The value itself, or what its `$ref` leads to.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..=REFERENCE_CHAIN_MAX {
            let Some(reference) = value.get("$ref") else { return Ok(value) };
            let pointer = local_pointer(reference)?;
            value = self
                .at(&pointer)
                .ok_or_else(|| format!("the reference `#{}` leads nowhere", brief(&pointer)))?;
        }
        Err(format!("expected at most {REFERENCE_CHAIN_MAX} references in a row; they may form a cycle"))
    }
}

/// The JSON Pointer of a reference into the same document.
pub(super) fn local_pointer(reference: &Value) -> Result<String, String> {
    let Value::String(reference) = reference else {
        return Err("`$ref`: expected a string".to_owned());
    };
    match reference.strip_prefix('#') {
        Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => Ok(percent_decoded(pointer)),
        Some(_) => Err(format!("the reference `{}` is not a JSON Pointer", brief(reference))),
        None => Err(format!(
            "the reference `{}` leads to another document; join the documents into one",
            brief(reference)
        )),
    }
}

/// In a URI, a pointer may have percent-encoded characters, such as the braces of a path.
fn percent_decoded(pointer: &str) -> String {
    if !pointer.contains('%') {
        return pointer.to_owned();
    }
    let mut out = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = (byte == b'%').then(|| after.get(..2)).flatten();
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| pointer.to_owned())
}

/// The beginning of a text of the document, for a message.
pub(super) fn brief(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Parses on a thread of its own: the parser recurses along the document.
fn parse_yaml(text: &str) -> Result<Value, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(YAML_STACK_BYTES);
        let thread =
            thread.spawn_scoped(scope, || parse_recursively(text)).map_err(|error| error.to_string())?;
        thread.join().map_err(|_| "the parser of YAML failed".to_owned())?
    })
}

/// YAML 1.2: `no` is a text, and aliases are counted as what they stand for.
fn parse_recursively(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: DOCUMENT_DEPTH_MAX,
            max_nodes: YAML_NODES_MAX,
            max_events: 2 * YAML_NODES_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_NODES_MAX,
        },
    };
    let parsed = serde_saphyr::from_str_with_options(text, options);
    parsed.map_err(|error| format!("not YAML: {}", brief(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(root: &Value) -> Document {
        Document::parse(&root.to_string()).unwrap()
    }

    #[test]
    fn json_and_yaml_give_the_same_tree() {
        let json = document(&json!({"openapi": "3.1.0", "a": {"200": "no", "b": [1, true, null]}}));
        let yaml = Document::parse("openapi: 3.1.0\na:\n  200: no\n  b: [1, true, ~]\n").unwrap();
        assert_eq!(json.root, yaml.root);
        assert!(!yaml.is_3_0 && Document::parse("openapi: 3.0.3").unwrap().is_3_0);
    }

    #[test]
    fn other_versions_are_refused() {
        for (text, expected) in [
            (r#"{"swagger": "2.0"}"#, "Swagger 2.0 is not supported"),
            (r#"{"openapi": "4.0"}"#, "unsupported OpenAPI version `4.0`"),
            (r#"{"openapi": "3.10.0"}"#, "unsupported OpenAPI version"),
            (r#"{"openapi": 3.1}"#, "not an OpenAPI document"),
            ("[1]", "not an OpenAPI document"),
            ("{\"a\": ", "not JSON"),
            ("a: [", "not YAML"),
        ] {
            let error = Document::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn references_are_followed_within_the_document() {
        let document = document(
            &json!({"openapi": "3.0.0", "a": {"$ref": "#/b~1c/%7Bd%7D"}, "b/c": {"{d}": {"$ref": "#/e"}}, "e": 5}),
        );
        let resolve = |reference: &str| document.resolve(&json!({"$ref": reference})).cloned();
        assert_eq!(resolve("#/a"), Ok(json!(5)));
        for (reference, expected) in [
            ("other.yaml#/a", "leads to another document"),
            ("https://a.example/x.json", "leads to another document"),
            ("#/nowhere", "leads nowhere"),
            ("#anchor", "is not a JSON Pointer"),
        ] {
            assert!(resolve(reference).unwrap_err().contains(expected), "{reference}");
        }
        assert!(document.resolve(&json!({"$ref": 5})).is_err());
    }

    #[test]
    fn cycle_of_references_ends() {
        let cyclic = document(&json!({"openapi": "3.0.0", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}));
        assert!(cyclic.resolve(&json!({"$ref": "#/a"})).unwrap_err().contains("cycle"));
        let chain = |length: usize| {
            let mut root = json!({"openapi": "3.0.0", "r0": 7});
            for at in 1..length {
                root[format!("r{at}")] = json!({"$ref": format!("#/r{}", at - 1)});
            }
            document(&root).resolve(&json!({"$ref": format!("#/r{}", length - 1)})).cloned()
        };
        assert_eq!(chain(REFERENCE_CHAIN_MAX), Ok(json!(7)));
        assert!(chain(REFERENCE_CHAIN_MAX + 1).is_err());
    }

    #[test]
    fn yaml_bombs_are_refused() {
        let mut bomb = "openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let alias = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", ")));
        }
        assert!(Document::parse(&bomb).unwrap_err().contains("not YAML"));
        let deep = |depth: usize| {
            Document::parse(&format!("openapi: 3.0.0\na: {}{}", "[".repeat(depth), "]".repeat(depth)))
        };
        assert!(deep(DOCUMENT_DEPTH_MAX - 1).is_ok());
        assert!(deep(DOCUMENT_DEPTH_MAX).is_err());
        assert!(deep(100_000).is_err());
        let json = format!("{{\"openapi\": \"3.0.0\", \"a\": {}", "[".repeat(100_000));
        assert!(Document::parse(&json).unwrap_err().contains("not JSON"));
    }
}
