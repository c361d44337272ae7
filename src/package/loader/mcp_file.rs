//! `mcp.json` as other programs write it: `{"mcpServers": {"name": {"command": …, "args": […]}}}`, a package each.
//!
//! Each program has fields of its own in there, so unknown ones are left alone. An entry becomes the configuration that a
//! declaration has in `"mcp"`, and is checked as such.

use std::path::Path;

use serde_json::{Map, Value};

use super::file::{PackageFile, Source, read_text};
use super::problems::{Problems, member};
use crate::package::identifiers::identifier;
use crate::protocol::declaration::type_name;

/// Most servers of one file. Each is a process or a connection. Past it: the file is refused.
const SERVERS_MAX: usize = 100;

/// By which programs call the servers.
const ROOTS: [&str; 2] = ["mcpServers", "servers"];

/// Fields that mean the same in a declaration.
const SHARED_FIELDS: [&str; 8] = ["env", "url", "headers", "allow", "deny", "effects", "timeoutMs", "public"];

/// Reads a file: each server with what is wrong with it, or what is wrong with the file.
pub(super) fn read(path: &Path) -> Vec<(Option<PackageFile>, Problems)> {
    match read_text(path) {
        Ok(text) => parse(&text, path),
        Err(error) => vec![refused(path, "", format!("cannot be read: {error}"))],
    }
}

fn refused(path: &Path, place: &str, message: String) -> (Option<PackageFile>, Problems) {
    let mut problems = Problems::of(path);
    problems.add(place, message);
    (None, problems)
}

fn parse(text: &str, path: &Path) -> Vec<(Option<PackageFile>, Problems)> {
    let fields = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => return vec![refused(path, "", format!("expected object, got {}", type_name(&other)))],
        Err(error) => return vec![refused(path, "", format!("not JSON: {error}"))],
    };
    let Some((root, servers)) = ROOTS.into_iter().find_map(|root| Some((root, fields.get(root)?))) else {
        return vec![refused(path, "/mcpServers", "missing; expected servers by their names".to_owned())];
    };
    let place = member("", root);
    let Value::Object(servers) = servers else {
        return vec![refused(path, &place, format!("expected object, got {}", type_name(servers)))];
    };
    if servers.len() > SERVERS_MAX {
        let message = format!("expected at most {SERVERS_MAX} servers, got {}", servers.len());
        return vec![refused(path, &place, message)];
    }
    let used = servers.iter().filter(|(_, entry)| entry.get("disabled") != Some(&Value::Bool(true)));
    used.map(|(name, entry)| read_server(name, entry, member(&place, name), path)).collect()
}

fn read_server(name: &str, entry: &Value, place: String, path: &Path) -> (Option<PackageFile>, Problems) {
    let config = match entry {
        Value::Object(entry) => config(entry),
        other => Err(("", format!("expected object, got {}", type_name(other)))),
    };
    match config {
        Ok(config) => {
            let file = PackageFile {
                name: identifier(name, &[]),
                description: None,
                source: Source::Connector("mcp"),
                bindings: None,
                env: Vec::new(),
                config_schema: None,
                config: Some(Value::Object(config)),
                place: Some(place),
            };
            (Some(file), Problems::of(path))
        }
        Err((field, message)) => refused(path, &format!("{place}{field}"), message),
    }
}

/// An entry in the form of a declaration.
fn config(entry: &Map<String, Value>) -> Result<Map<String, Value>, (&'static str, String)> {
    match entry.get("type").and_then(Value::as_str) {
        None | Some("stdio" | "http" | "streamable-http" | "streamableHttp") => {}
        Some(other) => {
            return Err((
                "/type",
                format!("unsupported transport {other:?}; expected \"stdio\" or \"http\""),
            ));
        }
    }
    let mut config = Map::new();
    if let Some(command) = entry.get("command") {
        let mut words = vec![command.clone()];
        match entry.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Array(arguments)) => words.extend(arguments.iter().cloned()),
            Some(other) => return Err(("/args", format!("expected array, got {}", type_name(other)))),
        }
        config.insert("command".to_owned(), Value::Array(words));
    }
    for field in SHARED_FIELDS {
        if let Some(value) = entry.get(field) {
            config.insert(field.to_owned(), value.clone());
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_text(text: &str) -> Vec<Result<(String, Value), String>> {
        let of = |(file, problems): (Option<PackageFile>, Problems)| match file {
            Some(file) => Ok((file.name, file.config.unwrap_or_default())),
            None => {
                Err(problems.into_vec().iter().map(|one| format!("{} {}", one.path, one.message)).collect())
            }
        };
        parse(text, Path::new("mcp.json")).into_iter().map(of).collect()
    }

    #[test]
    fn servers_become_packages() {
        let text = json!({"mcpServers": {
            "my-files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "autoApprove": []},
            "far": {"type": "http", "url": "https://a.example/", "headers": {"A": "b"}, "deny": ["x"]},
            "off": {"command": "x", "disabled": true},
        }});
        let expected = [
            ("my_files", json!({"command": ["npx", "-y", "x"], "env": {"A": "b"}})),
            ("far", json!({"url": "https://a.example/", "headers": {"A": "b"}, "deny": ["x"]})),
        ];
        assert_eq!(
            read_text(&text.to_string()),
            expected.map(|(name, config)| Ok((name.to_owned(), config)))
        );
        assert_eq!(read_text(r#"{"servers": {"a": {"command": "x"}}}"#).len(), 1);
    }

    #[test]
    fn wrong_file_is_refused_with_its_place() {
        for (text, expected) in [
            ("[]", " expected object, got array"),
            ("{}", "/mcpServers missing; expected servers by their names"),
            (r#"{"mcpServers": 5}"#, "/mcpServers expected object, got number"),
            (r#"{"mcpServers": {"a/b": 5}}"#, "/mcpServers/a~1b expected object, got number"),
            (
                r#"{"mcpServers": {"a": {"command": "x", "args": 5}}}"#,
                "/mcpServers/a/args expected array, got number",
            ),
            (
                r#"{"mcpServers": {"a": {"type": "sse", "url": "x"}}}"#,
                "/mcpServers/a/type unsupported transport \"sse\"; expected \"stdio\" or \"http\"",
            ),
        ] {
            assert_eq!(read_text(text), [Err(expected.to_owned())], "{text}");
        }
    }

    #[test]
    fn servers_past_the_limit_are_refused() {
        let servers = |count: usize| {
            let entry = |at| (format!("s{at}"), json!({"command": "x"}));
            json!({"mcpServers": (0..count).map(entry).collect::<Map<_, _>>()}).to_string()
        };
        assert_eq!(read_text(&servers(SERVERS_MAX)).len(), SERVERS_MAX);
        let refused = "/mcpServers expected at most 100 servers, got 101".to_owned();
        assert_eq!(read_text(&servers(SERVERS_MAX + 1)), [Err(refused)]);
    }
}
