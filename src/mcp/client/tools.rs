//! Tools as declarations of bindings.
//!
//! Pure: a list of tools as the server sent it and the operator's rules lead to declarations and to a list of what could
//! not be mapped. One bad tool is no reason to refuse the others.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::config::ToolRules;
use super::schemas;
use crate::catalog::CompiledSchemas;
use crate::package::{Secrets, UnmappedItem, identifiers};
use crate::protocol::declaration::{DESCRIPTION_BYTES_MAX, Declaration};
use crate::protocol::names::check as check_name;
use crate::schema::SchemaSource;

/// Names beside the tools: `package.resources.read`, `package.prompts.get`.
const NAMESPACES: [&str; 2] = ["resources", "prompts"];

/// A tool that became a binding.
#[derive(Debug, Clone)]
pub(super) struct MappedTool {
    /// Its name at the server.
    pub(super) tool: String,
    pub(super) declaration: Declaration,
    /// Whether its results are `structuredContent`.
    pub(super) is_structured: bool,
    /// Whether `onProgress` of its input is ours.
    pub(super) takes_progress: bool,
}

/// What became of the tools of a server.
#[derive(Debug, Default)]
pub(super) struct MappedTools {
    pub(super) tools: Vec<MappedTool>,
    pub(super) unmapped: Vec<UnmappedItem>,
}

/// Maps the tools of `package`.
pub(super) fn map(package: &str, listed: &[Value], rules: &ToolRules, secrets: &Secrets) -> MappedTools {
    let mut mapped = MappedTools::default();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut admitted: Vec<(&str, &Value)> = Vec::new();
    for (at, tool) in listed.iter().enumerate() {
        match tool.get("name").and_then(Value::as_str) {
            None => mapped.skip(&format!("tools[{at}]"), "the tool has no name"),
            Some(name) if !seen.insert(name) => mapped.skip(name, "the tool is listed twice"),
            Some(name) if rules.admits(name) => admitted.push((name, tool)),
            Some(_) => {}
        }
    }
    let known: Vec<&str> = seen.iter().copied().collect();
    for name in rules.unknown_names(&known) {
        mapped.skip(name, "named in `allow`, `deny` or `effects`, but the server has no such tool");
    }
    let identifiers = identifiers::assign(admitted.iter().map(|(name, _)| *name), &NAMESPACES);
    for (name, tool) in admitted {
        let Some(identifier) = identifiers.get(name) else {
            mapped.skip(name, "no identifier could be found that another tool does not have");
            continue;
        };
        match map_tool(name, &format!("{package}.{identifier}"), tool, rules, secrets) {
            Ok(tool) => mapped.tools.push(tool),
            Err(reason) => mapped.skip(name, &secrets.redact(&reason)),
        }
    }
    mapped
}

impl MappedTools {
    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        self.unmapped.push(UnmappedItem { name: name.to_owned(), reason: reason.to_owned() });
    }
}

fn map_tool(
    name: &str,
    binding: &str,
    tool: &Value,
    rules: &ToolRules,
    secrets: &Secrets,
) -> Result<MappedTool, String> {
    check_name(binding).map_err(|error| error.to_string())?;
    let schema = |field: &str| match tool.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => Ok(Some(schemas::modernize(schema))),
        Some(_) => Err(format!("/{field}: expected a JSON Schema")),
    };
    let input = schema("inputSchema")?.unwrap_or_else(|| json!({"type": "object"}));
    let output = schema("outputSchema")?;
    let takes_progress = !schemas::has_own_progress(&input);
    let declaration = Declaration {
        description: describe(name, binding, tool, secrets),
        input: Some(schemas::with_progress(input)),
        output,
        effects: rules.effects.get(name).cloned().unwrap_or_else(|| effects(tool.get("annotations"))),
        hints: Some(json!({"mcp": {"tool": name}})),
        ..Declaration::named(binding)
    };
    // Registered later, where a refusal would be a problem of the start.
    CompiledSchemas::compile(&declaration, SchemaSource::Executable)
        .map_err(|error| format!("{}: {}", error.path, error.message))?;
    let is_structured = declaration.output.is_some();
    Ok(MappedTool { tool: name.to_owned(), declaration, is_structured, takes_progress })
}

/// The tool's own words, and its name where the binding has another.
fn describe(name: &str, binding: &str, tool: &Value, secrets: &Secrets) -> Option<String> {
    let field = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let own = field("description").or_else(|| field("title"));
    let is_renamed = !binding.ends_with(&format!(".{name}"));
    let text = match (own, is_renamed) {
        (None, false) => return None,
        (None, true) => format!("The tool `{name}`."),
        (Some(own), false) => own.to_owned(),
        (Some(own), true) => format!("{own}\n\nThe tool `{name}`."),
    };
    let text = secrets.redact(&text);
    Some(text[..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)].to_owned())
}

/// The hints of a server as effects. Without hints a tool may do anything: that is what the protocol says.
fn effects(annotations: Option<&Value>) -> Vec<String> {
    let hint = |name: &str| annotations.and_then(|hints| hints.get(name)).and_then(Value::as_bool);
    let (is_read_only, is_open) = (hint("readOnlyHint") == Some(true), hint("openWorldHint"));
    let is_additive = hint("destructiveHint") == Some(false);
    let effects: &[&str] = match (is_read_only, is_open) {
        (true, Some(true)) => &["read", "external"],
        (true, Some(false) | None) => &["read"],
        (false, Some(false)) if is_additive => &["write"],
        (false, _) => &["external"],
    };
    effects.iter().map(|effect| (*effect).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_one(tool: Value) -> MappedTools {
        map("p", &[tool], &ToolRules::default(), &Secrets::default())
    }

    #[test]
    fn annotations_become_effects() {
        for (annotations, expected) in [
            (json!(null), vec!["external"]),
            (json!({}), vec!["external"]),
            (json!({"readOnlyHint": true}), vec!["read"]),
            (json!({"readOnlyHint": true, "openWorldHint": true}), vec!["read", "external"]),
            (json!({"destructiveHint": false}), vec!["external"]),
            (json!({"destructiveHint": false, "openWorldHint": false}), vec!["write"]),
            (json!({"destructiveHint": true, "openWorldHint": false}), vec!["external"]),
        ] {
            assert_eq!(effects(Some(&annotations)), expected, "{annotations}");
        }
    }

    #[test]
    fn tool_becomes_a_declaration_that_names_it() {
        let tool = json!({"name": "make-it", "description": "Makes it.", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
        let MappedTools { tools, unmapped } = map_one(tool);
        assert!(unmapped.is_empty(), "{unmapped:?}");
        let declaration = &tools[0].declaration;
        assert_eq!((declaration.name.as_str(), tools[0].tool.as_str()), ("p.make_it", "make-it"));
        assert_eq!(declaration.description.as_deref(), Some("Makes it.\n\nThe tool `make-it`."));
        assert_eq!(declaration.hints, Some(json!({"mcp": {"tool": "make-it"}})));
        assert!(tools[0].is_structured && tools[0].takes_progress);
    }

    #[test]
    fn bad_tools_are_listed_and_the_others_kept() {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        let bad =
            json!({"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "strng"}}}});
        let odd = json!({"name": "odd", "inputSchema": 5});
        let long = json!({"name": "x".repeat(200)});
        let listed = [json!({}), good.clone(), bad, odd, long, good];
        let mapped = map("p", &listed, &ToolRules::default(), &Secrets::default());
        let names: Vec<_> = mapped.tools.iter().map(|tool| tool.tool.as_str()).collect();
        assert_eq!(names, ["good"]);
        let skipped: Vec<_> = mapped.unmapped.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(skipped, ["tools[0]", "good", "bad", "odd", &"x".repeat(200)]);
        assert!(mapped.unmapped[2].reason.starts_with("/input/properties/a/type"), "{mapped:?}");
    }

    #[test]
    fn operator_overrides_effects_and_learns_of_unknown_names() {
        let rules = ToolRules {
            deny: vec!["b".to_owned(), "gone".to_owned()],
            effects: [("a".to_owned(), vec!["write".to_owned()])].into(),
            ..ToolRules::default()
        };
        let mapped = map("p", &[json!({"name": "a"}), json!({"name": "b"})], &rules, &Secrets::default());
        assert_eq!(mapped.tools.len(), 1);
        assert_eq!(mapped.tools[0].declaration.effects, ["write"]);
        assert_eq!(mapped.unmapped[0].name, "gone");
    }
}
