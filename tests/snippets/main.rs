//! Code as language models write it, right and wrong: each snippet has its value, or a report from which the repair is clear.
//!
//! In the tables, lines with `>` are the code, a line with `=` is its value as JSON (`=~` a part of its JSON), and
//! lines with `!` are parts of the report. Every snippet has a session of its own.
#![allow(clippy::unwrap_used, missing_docs)]

use scomp::binding::{BindingLimits, handler};
use scomp::client::Client;
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use scomp::server::Server;
use serde_json::{Value, json};

struct Snippet {
    code: String,
    value: Option<String>,
    part: Option<String>,
    report: Vec<String>,
}

fn snippets(table: &str) -> Vec<Snippet> {
    let blocks = table.split("\n\n").map(|block| block.lines().filter(|line| !line.starts_with('#')));
    let mut snippets = Vec::new();
    for block in blocks {
        let mut snippet = Snippet { code: String::new(), value: None, part: None, report: Vec::new() };
        for line in block {
            match line.split_at_checked(2) {
                Some(("> ", code)) => snippet.code.push_str(&format!("{code}\n")),
                Some(("= ", value)) => snippet.value = Some(value.to_owned()),
                Some(("=~", part)) => snippet.part = Some(part.trim().to_owned()),
                Some(("! ", part)) => snippet.report.push(part.to_owned()),
                _ if line.trim() == ">" => snippet.code.push('\n'),
                _ if line.trim().is_empty() => {}
                _ => panic!("not a line of a table: {line}"),
            }
        }
        if !snippet.code.is_empty() {
            snippet.code.pop();
            snippets.push(snippet);
        }
    }
    snippets
}

fn declared(value: Value) -> Declaration {
    serde_json::from_value(value).unwrap()
}

fn package() -> Package {
    let text = json!({"type": "string"});
    let key = json!({"type": "object", "properties": {"key": text}, "required": ["key"], "additionalProperties": false});
    let limits = BindingLimits::default;
    Package::new("snippets")
        .with(declared(json!({"name": "kv.get", "input": key})), limits(), handler(|input, _| async move {
            Ok(if input["key"] == "a" { json!({"value": [1, 2]}) } else { Value::Null })
        }))
        .with(declared(json!({"name": "kv.set"})), limits(), handler(|_, _| async move { Ok(Value::Null) }))
        .with(declared(json!({"name": "kv.delete", "input": key})), limits(), handler(|_, _| async move { Ok(Value::Null) }))
        .with(declared(json!({"name": "kv.list"})), limits(), handler(|_, _| async move { Ok(json!(["a", "b"])) }))
        .with(declared(json!({"name": "crm.search", "input": {"type": "object", "properties": {"query": text,
            "since": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "items": text}, "limit": {"type": "integer"}}}})),
            limits(), handler(|input, _| async move { Ok(input) }))
        .with(declared(json!({"name": "getOrder"})), limits(), handler(|_, _| async move { Ok(json!({"total": 142.5})) }))
}

async fn check(server: &Server, snippet: &Snippet) -> Result<(), String> {
    let client =
        Client::builder().connect_transport(server.connect()).await.map_err(|error| error.to_string())?;
    let outcome = client.eval(&snippet.code).await;
    client.close().await;
    match (outcome, &snippet.value, &snippet.part) {
        (Ok(output), Some(value), _) => {
            let expected: Value = serde_json::from_str(value).map_err(|error| format!("{value}: {error}"))?;
            if output.value == expected {
                Ok(())
            } else {
                Err(format!("is {}, expected {expected}", output.value))
            }
        }
        (Ok(output), None, Some(part)) if output.value.to_string().contains(part.as_str()) => Ok(()),
        (Ok(output), _, _) => Err(format!("is {}", output.value)),
        (Err(error), None, None) => {
            let report = error.report();
            match snippet.report.iter().find(|part| !report.contains(part.as_str())) {
                Some(missing) => Err(format!("the report lacks {missing:?}:\n{report}")),
                None => Ok(()),
            }
        }
        (Err(error), _, _) => Err(format!("fails:\n{}", error.report())),
    }
}

async fn check_table(table: &str, least: usize) {
    let server = Server::builder().shards(1).package(package()).build().unwrap();
    let snippets = snippets(table);
    assert!(snippets.len() >= least, "{} snippets", snippets.len());
    let mut failures = Vec::new();
    for snippet in &snippets {
        if let Err(why) = check(&server, snippet).await {
            failures.push(format!("--- {}\n{why}", snippet.code));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), snippets.len(), failures.join("\n"));
}

#[tokio::test]
async fn right_snippets_have_their_values() {
    check_table(include_str!("values.txt"), 70).await;
}

#[tokio::test]
async fn wrong_snippets_have_reports_to_repair_them() {
    check_table(include_str!("errors.txt"), 80).await;
}
