//! `docs/declaration.schema.json` accepts what the loader accepts and refuses what it refuses, where a schema can say it;
//! and the examples of `docs/bindings.md` run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jsonschema::Validator;
use serde_json::Value;

use crate::markdown::blocks;
use crate::root;

/// Refused by the schema and by the loader, which reports it at that place.
const BROKEN: &[(&str, &str)] = &[
    ("", r#"[]"#),
    ("", r#""orders""#),
    ("", r#"{"package": "orders"}"#),
    ("", r#"{"package": "orders", "rust": "orders", "command": ["true"]}"#),
    ("", r#"{"package": "orders", "rust": "orders", "mcp": {"command": ["true"]}}"#),
    ("/mcp", r#"{"package": "a", "mcp": {}}"#),
    ("/mcp", r#"{"package": "a", "mcp": {"command": ["true"], "url": "http://a.example/"}}"#),
    ("/mcp/command/0", r#"{"package": "a", "mcp": {"command": [1]}}"#),
    ("", r#"{"package": "a", "rust": "orders", "openapi": {"document": "a.yaml"}}"#),
    ("/openapi", r#"{"package": "a", "openapi": {}}"#),
    (
        "/openapi/auth/apiKey",
        r#"{"package": "a", "openapi": {"document": "a", "auth": {"apiKey": {"in": "path"}}}}"#,
    ),
    ("/package", r#"{"rust": "orders"}"#),
    ("/package", r#"{"package": "", "rust": "orders"}"#),
    ("/package", r#"{"package": 1, "rust": "orders"}"#),
    ("/description", r#"{"package": "orders", "rust": "orders", "description": ""}"#),
    ("/description", r#"{"package": "orders", "rust": "orders", "description": null}"#),
    ("/rust", r#"{"package": "orders", "rust": ["orders"]}"#),
    ("/command", r#"{"package": "a", "command": []}"#),
    ("/command", r#"{"package": "a", "command": "node a.mjs"}"#),
    ("/command/1", r#"{"package": "a", "command": ["node", 1]}"#),
    ("/command/1", r#"{"package": "a", "command": ["node", "a\u0000"]}"#),
    ("/env", r#"{"package": "orders", "rust": "orders", "env": {"A": "1"}}"#),
    ("/env/0", r#"{"package": "orders", "rust": "orders", "env": [null]}"#),
    ("/$schema", r#"{"$schema": "x", "package": "orders", "rust": "orders"}"#),
    ("/binding", r#"{"package": "orders", "rust": "orders", "binding": []}"#),
    ("/configSchema", r#"{"package": "orders", "rust": "orders", "configSchema": null}"#),
    ("/configSchema/type", r#"{"package": "orders", "rust": "orders", "configSchema": {"type": "objec"}}"#),
    ("/bindings", r#"{"package": "orders", "rust": "orders", "bindings": {}}"#),
    ("/bindings/0", r#"{"package": "orders", "rust": "orders", "bindings": ["getOrder"]}"#),
    ("/bindings/0/name", r#"{"package": "orders", "rust": "orders", "bindings": [{}]}"#),
    ("/bindings/0/name", r#"{"package": "orders", "rust": "orders", "bindings": [{"name": 1}]}"#),
];

/// The same for the fields of a binding `getOrder`.
const BROKEN_FIELDS: &[(&str, &str)] = &[
    ("/inputs", r#""inputs": {}"#),
    ("/description", r#""description": null"#),
    ("/input", r#""input": null"#),
    ("/input/type", r#""input": {"type": "strin"}"#),
    ("/output", r#""output": []"#),
    ("/output/required", r#""output": {"required": "id"}"#),
    ("/effects", r#""effects": "read""#),
    ("/effects/0", r#""effects": [""]"#),
    ("/effects/1", r#""effects": ["read", true]"#),
    ("/limits", r#""limits": 5"#),
    ("/limits", r#""limits": {"timeout": 5}"#),
    ("/limits", r#""limits": {"timeoutMs": "5s"}"#),
    ("/limits", r#""limits": {"timeoutMs": -1}"#),
    ("/limits/timeoutMs", r#""limits": {"timeoutMs": 0}"#),
    ("/limits/concurrency", r#""limits": {"concurrency": 0}"#),
];

/// Names that executables cannot offer. Those that the schema accepts are left to the loader.
const BROKEN_NAMES: &[(&str, bool)] = &[
    ("", false),
    ("get order", false),
    ("1st", false),
    ("a..b", false),
    ("a.b.c.d.e.f.g.h.i", false),
    ("a.__proto__", false),
    ("constructor.a", false),
    ("session.cancel", false),
    ("bindings", false),
    ("größe", false),
    ("Map.get", true),
    ("delete", true),
];

/// Valid by the schema, refused by the loader: it knows more.
const LEFT_TO_THE_LOADER: &[(&str, &str)] = &[
    ("/rust", r#"{"package": "orders", "rust": "ordres"}"#),
    ("/command", r#"{"package": "a", "command": ["./none"]}"#),
    ("/config/path", r#"{"package": "kv", "rust": "kv", "config": {"path": "${SCOMP_TEST_NONE}"}}"#),
    (
        "/bindings/1/name",
        r#"{"package": "orders", "rust": "orders", "bindings": [{"name": "getOrder"}, {"name": "getOrder"}]}"#,
    ),
];

/// A folder that is removed when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("scomp-docs-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn schema() -> Validator {
    let text = fs::read_to_string(root().join("docs/declaration.schema.json")).unwrap();
    jsonschema::draft202012::new(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn scomp_serve(arguments: &[&str], folder: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
    command.args(arguments).arg("--bindings").arg(folder).env("SCOMP_LOG", "error");
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Asserts that the loader refuses each of these files at its place.
fn assert_refused(name: &str, files: &[(String, String)]) {
    let folder = Folder::new(name);
    for (at, (_, text)) in files.iter().enumerate() {
        fs::write(folder.0.join(format!("{at}.json")), text).unwrap();
    }
    let (_, printed) = scomp_serve(&["check"], &folder.0);
    for (at, (place, text)) in files.iter().enumerate() {
        let place_in_file = if place.is_empty() { String::new() } else { format!("{place}: ") };
        let line = format!("{}: {place_in_file}", folder.0.join(format!("{at}.json")).display());
        assert!(printed.contains(&line), "the loader accepts {text} at {place}:\n{printed}");
    }
}

fn declaration_files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["node_modules", "target"].contains(&name.as_str()) {
            declaration_files(&path, found);
        } else if name == "declaration.json" {
            found.push(path);
        }
    }
}

#[test]
fn schema_accepts_every_declaration() {
    let schema = schema();
    let mut files = Vec::new();
    declaration_files(root(), &mut files);
    assert!(files.len() >= 7, "only {files:?} were found");
    for path in files {
        let declaration: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let errors: Vec<_> = schema.iter_errors(&declaration).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    }
}

#[test]
fn schema_and_loader_refuse_broken_declarations() {
    let binding = |(place, field): &(&str, &str)| {
        let text = format!(
            r#"{{"package": "orders", "rust": "orders", "bindings": [{{"name": "getOrder", {field}}}]}}"#
        );
        (format!("/bindings/0{place}"), text)
    };
    let whole = BROKEN.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned()));
    let files: Vec<_> = whole.chain(BROKEN_FIELDS.iter().map(binding)).collect();
    let schema = schema();
    for (_, text) in &files {
        let declaration = serde_json::from_str(text).unwrap();
        assert!(!schema.is_valid(&declaration), "the schema accepts {text}");
    }
    assert_refused("broken", &files);
}

#[test]
fn schema_limits_hold_at_the_edge_and_not_past_it() {
    let schema = schema();
    let is_valid = |field: &str, value: Value| {
        let mut binding = serde_json::json!({"name": "a"});
        binding[field] = value;
        schema.is_valid(&serde_json::json!({"package": "a", "rust": "a", "bindings": [binding]}))
    };
    for (field, of_length, max) in [
        ("name", (|count| "a".repeat(count).into()) as fn(usize) -> Value, 128),
        ("name", |count| vec!["a"; count].join(".").into(), 8),
        ("description", |count| "a".repeat(count).into(), 64 << 10),
        ("effects", |count| vec!["read"; count].into(), 32),
        ("effects", |count| vec!["a".repeat(count)].into(), 128),
    ] {
        assert!(is_valid(field, of_length(max)), "{field} of {max}");
        assert!(!is_valid(field, of_length(max + 1)), "{field} of {}", max + 1);
    }
}

/// An executable offers what its argument says, so that the name alone is wrong.
#[test]
fn schema_and_loader_agree_on_names() {
    let schema = schema();
    let folder = Folder::new("names");
    let program = "const [name] = process.argv.slice(2);
        process.stdin.once('data', (line) => console.log(JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(line).id,
            result: { protocol: '0.1', sessionId: 'a', bindings: [{ name }] } })));";
    fs::write(folder.0.join("offer.mjs"), program).unwrap();
    for (at, (name, is_left)) in BROKEN_NAMES.iter().enumerate() {
        let file = serde_json::json!({
            "package": "a", "command": ["node", "offer.mjs", name], "bindings": [{"name": name}]
        });
        assert_eq!(schema.is_valid(&file), *is_left, "{name:?}");
        fs::write(folder.0.join(format!("{at}.json")), file.to_string()).unwrap();
    }
    let (_, printed) = scomp_serve(&["check"], &folder.0);
    for (at, (name, _)) in BROKEN_NAMES.iter().enumerate() {
        let line = format!("{}: /", folder.0.join(format!("{at}.json")).display());
        assert!(printed.contains(&line), "the loader accepts the name {name:?}:\n{printed}");
    }
}

#[test]
fn loader_refuses_what_the_schema_cannot_see() {
    let schema = schema();
    for (_, text) in LEFT_TO_THE_LOADER {
        assert!(schema.is_valid(&serde_json::from_str(text).unwrap()), "the schema refuses {text}");
    }
    let files: Vec<_> =
        LEFT_TO_THE_LOADER.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned())).collect();
    assert_refused("left", &files);
}

/// Takes the declaration, the program, the command and its output from the document.
#[test]
fn executable_of_the_document_runs() {
    let document = fs::read_to_string(root().join("docs/bindings.md")).unwrap();
    let blocks = blocks(&document);
    let is_greet = |text: &str| text.contains("greet");
    let text = |language: &str| {
        &blocks.iter().find(|block| block.language == language && is_greet(&block.text)).unwrap().text
    };
    let folder = Folder::new("greet");
    fs::create_dir(folder.0.join("greet")).unwrap();
    fs::write(folder.0.join("greet/declaration.json"), text("json")).unwrap();
    fs::write(folder.0.join("greet/greet.mjs"), text("js")).unwrap();
    let (command, expected) = text("").split_once('\n').unwrap();
    let code = command.strip_prefix("$ scomp-serve eval --bindings bindings -e ").unwrap().trim_matches('"');
    let (is_success, printed) = scomp_serve(&["eval", "-e", code], &folder.0);
    assert!(is_success, "{printed}");
    assert_eq!(printed, expected);
}

#[test]
fn declarations_of_the_document_are_valid() {
    let document = fs::read_to_string(root().join("docs/bindings.md")).unwrap();
    let schema = schema();
    let mut count = 0;
    for block in blocks(&document).iter().filter(|block| block.language == "json") {
        let value: Value = serde_json::from_str(&block.text).unwrap();
        if value.get("package").is_some() {
            count += 1;
            assert!(schema.is_valid(&value), "{}", block.text);
        }
    }
    assert!(count >= 2, "only {count} declarations were found");
}
