//! The tools of a model: the server's bindings, and `eval`.
//!
//! Providers allow fewer characters in a name than a binding may have, and require an object as
//! input. So each tool has its own name, which maps to its binding, and an input of another type is
//! wrapped in an object.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::model::Tool;
use crate::protocol::plain::FUNCTION_TAG;

/// Most tools of a model, the limit of providers.
pub(super) const TOOLS_MAX: usize = 128;

/// Longest name of a tool, the limit of providers.
const TOOL_NAME_BYTES_MAX: usize = 64;

/// The member that holds an input that is not an object.
const WRAPPED_INPUT: &str = "input";

/// The tool that runs code.
const EVAL: &str = "eval";

/// Namespaces that the pattern `*` does not select: this package, and the control of sessions.
const NAMESPACES_EXCLUDED: [&str; 3] = ["exoclaw.", "session.", "bindings."];

/// What a tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolAction {
    CallBinding { name: String, is_wrapped: bool },
    Eval,
}

impl ToolAction {
    /// The name that clients see.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::CallBinding { name, .. } => name,
            Self::Eval => EVAL,
        }
    }

    /// Returns the code to run in a session; the error is for the model.
    pub(super) fn to_code(&self, input: &Value) -> Result<String, String> {
        match self {
            Self::Eval => match input.get("code") {
                Some(Value::String(code)) => Ok(code.clone()),
                Some(_) | None => Err("code: expected a string".to_owned()),
            },
            Self::CallBinding { name, is_wrapped } => {
                let input =
                    if *is_wrapped { input.get(WRAPPED_INPUT).unwrap_or(&Value::Null) } else { input };
                // Not an object literal, where `__proto__` would set the prototype.
                let text = Value::String(input.to_string());
                Ok(format!("await {name}(JSON.parse({text}))"))
            }
        }
    }
}

/// The tools of one agent.
#[derive(Debug, Default)]
pub(super) struct Toolbox {
    pub(super) tools: Vec<Tool>,
    actions: HashMap<String, ToolAction>,
}

impl Toolbox {
    /// Selects the declared bindings that match a pattern: `kv.get`, `kv.*` or `*`.
    pub(super) fn new(declarations: &[Value], patterns: &[String], has_eval: bool) -> Self {
        let mut toolbox = Self::default();
        if has_eval {
            toolbox.add(eval_tool(), ToolAction::Eval);
        }
        for declaration in declarations {
            let text = |name: &str| declaration.get(name).and_then(Value::as_str).unwrap_or_default();
            let name = text("name");
            if name.is_empty() || !is_selected(name, patterns) || requires_function(declaration.get("input"))
            {
                continue;
            }
            let (input, is_wrapped) = to_object_schema(declaration.get("input"));
            let tool = Tool { name: to_tool_name(name), description: text("description").to_owned(), input };
            toolbox.add(tool, ToolAction::CallBinding { name: name.to_owned(), is_wrapped });
        }
        toolbox
    }

    fn add(&mut self, mut tool: Tool, action: ToolAction) {
        if self.tools.len() >= TOOLS_MAX {
            tracing::warn!(tool = action.name(), "tool omitted: a model can have at most {TOOLS_MAX} tools");
            return;
        }
        let base_name = tool.name.clone();
        let mut number = 1;
        while self.actions.contains_key(&tool.name) {
            number += 1;
            tool.name = append_number(&base_name, number);
        }
        self.actions.insert(tool.name.clone(), action);
        self.tools.push(tool);
    }

    /// Finds a tool by the name that the model uses.
    pub(super) fn action(&self, tool: &str) -> Option<&ToolAction> {
        self.actions.get(tool)
    }

    /// The names of the tools that clients see, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|tool| self.action(&tool.name)).map(ToolAction::name)
    }
}

fn is_selected(name: &str, patterns: &[String]) -> bool {
    let is_excluded = NAMESPACES_EXCLUDED.iter().any(|namespace| name.starts_with(namespace));
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some("") => !is_excluded,
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    })
}

/// A model cannot pass functions.
fn requires_function(input: Option<&Value>) -> bool {
    let required =
        |schema: &Value| schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(input) = input else {
        return false;
    };
    let is_function = |name: &Value| {
        let property = name.as_str().and_then(|name| input.get("properties")?.get(name));
        property.is_some_and(|property| required(property).iter().any(|name| name == FUNCTION_TAG))
    };
    required(input).iter().any(is_function)
}

/// Replaces the characters that providers do not allow.
fn to_tool_name(name: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(replace).take(TOOL_NAME_BYTES_MAX).collect()
}

fn append_number(name: &str, number: usize) -> String {
    let suffix = format!("_{number}");
    let prefix: String = name.chars().take(TOOL_NAME_BYTES_MAX - suffix.len()).collect();
    format!("{prefix}{suffix}")
}

/// Returns the schema of an object, as providers require, and whether the input is wrapped in it.
fn to_object_schema(schema: Option<&Value>) -> (Value, bool) {
    match schema {
        None | Some(Value::Bool(true)) => (json!({"type": "object"}), false),
        Some(schema) if schema.get("type").is_some_and(|kind| kind == "object") => (schema.clone(), false),
        Some(schema) => {
            let properties = json!({WRAPPED_INPUT: schema});
            (json!({"type": "object", "properties": properties, "required": [WRAPPED_INPUT]}), true)
        }
    }
}

fn eval_tool() -> Tool {
    let description = "Runs JavaScript or TypeScript and returns the value of its last expression. State is kept \
                       between calls while one message is answered. All bindings are global functions.";
    let code = json!({"type": "string", "description": "The code; top-level await is allowed."});
    let input = json!({"type": "object", "properties": {"code": code}, "required": ["code"]});
    Tool { name: EVAL.to_owned(), description: description.to_owned(), input }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declaration(name: &str) -> Value {
        json!({"name": name, "description": "It.", "input": {"type": "object"}})
    }

    fn toolbox(names: &[&str], patterns: &[&str]) -> Toolbox {
        let declarations: Vec<Value> = names.iter().map(|name| declaration(name)).collect();
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Toolbox::new(&declarations, &patterns, false)
    }

    fn names(toolbox: &Toolbox) -> Vec<&str> {
        toolbox.names().collect()
    }

    #[test]
    fn patterns_select_bindings() {
        let all = ["kv.get", "kv.set", "echo", "exoclaw.chat", "session.info"];
        assert_eq!(names(&toolbox(&all, &["*"])), ["kv.get", "kv.set", "echo"]);
        assert_eq!(names(&toolbox(&all, &["kv.*"])), ["kv.get", "kv.set"]);
        assert_eq!(names(&toolbox(&all, &["echo", "exoclaw.chat"])), ["echo", "exoclaw.chat"]);
        assert_eq!(names(&toolbox(&all, &[])), Vec::<&str>::new());
    }

    #[test]
    fn binding_that_requires_a_function_is_excluded() {
        let function = json!({"type": "object", "required": ["$fn"]});
        let input = |required: Value| json!({"type": "object", "properties": {"run": function}, "required": required});
        let declarations = [
            json!({"name": "needs", "input": input(json!(["run"]))}),
            json!({"name": "takes", "input": input(json!([]))}),
        ];
        let toolbox = Toolbox::new(&declarations, &["*".to_owned()], false);
        assert_eq!(names(&toolbox), ["takes"]);
    }

    #[test]
    fn tool_names_are_unique_and_map_to_bindings() {
        let toolbox = toolbox(&["kv.get", "kv_get", "kv$get"], &["*"]);
        let offered: Vec<&str> = toolbox.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["kv_get", "kv_get_2", "kv_get_3"]);
        assert_eq!(toolbox.action("kv_get_3").map(ToolAction::name), Some("kv$get"));
        assert_eq!(toolbox.action("nosuch"), None);
    }

    #[test]
    fn input_that_is_not_an_object_is_wrapped() {
        let declarations = [json!({"name": "twice", "input": {"type": "number"}}), json!({"name": "any"})];
        let toolbox = Toolbox::new(&declarations, &["*".to_owned()], false);
        assert_eq!(toolbox.tools[0].input["properties"]["input"], json!({"type": "number"}));
        assert_eq!(toolbox.tools[1].input, json!({"type": "object"}));
        let code = |tool: &str, input: Value| toolbox.action(tool).unwrap().to_code(&input).unwrap();
        assert_eq!(code("twice", json!({"input": 4})), r#"await twice(JSON.parse("4"))"#);
        assert_eq!(code("any", json!({"a": "\""})), r#"await any(JSON.parse("{\"a\":\"\\\"\"}"))"#);
    }

    #[test]
    fn eval_is_added_if_configured() {
        let toolbox = Toolbox::new(&[], &[], true);
        assert_eq!(names(&toolbox), ["eval"]);
        let action = toolbox.action("eval").unwrap();
        assert_eq!(action.to_code(&json!({"code": "1+1"})), Ok("1+1".to_owned()));
        assert!(action.to_code(&json!({})).is_err());
    }

    #[test]
    fn tools_past_the_limit_are_omitted() {
        let many: Vec<String> = (0..=TOOLS_MAX).map(|n| format!("t{n}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(toolbox(&names[..TOOLS_MAX], &["*"]).tools.len(), TOOLS_MAX);
        assert_eq!(toolbox(&names, &["*"]).tools.len(), TOOLS_MAX);
    }

    proptest! {
        #[test]
        fn every_tool_name_is_valid_and_unique(bindings in proptest::collection::hash_set("[a-c.$_]{1,70}", 0..20)) {
            let declarations: Vec<Value> = bindings.iter().map(|name| declaration(name)).collect();
            let toolbox = Toolbox::new(&declarations, &["*".to_owned()], false);
            let offered: std::collections::HashSet<&str> = toolbox.tools.iter().map(|tool| tool.name.as_str()).collect();
            prop_assert_eq!(offered.len(), bindings.len());
            for name in offered {
                prop_assert!(name.len() <= TOOL_NAME_BYTES_MAX && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            }
        }
    }
}
