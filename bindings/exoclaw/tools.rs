//! The server's bindings as tools of a model, and `eval` beside them.
//!
//! Providers allow fewer characters in a name than a binding may have, and want an object as input. So a tool has a
//! name of its own, which leads back to its binding, and an input that is no object is wrapped in one.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::model::Tool;
use crate::protocol::plain::FUNCTION_TAG;

/// Tools that a model is told of: the most that providers take.
pub(super) const TOOLS_MAX: usize = 128;

/// Longest name that providers take.
const TOOL_NAME_BYTES_MAX: usize = 64;

/// The member that holds an input which is no object.
const WRAPPED_INPUT: &str = "input";

/// The tool that runs code.
const EVAL: &str = "eval";

/// The package itself and what belongs to a session are no tools, unless an agent's configuration names them.
const NAMESPACES_LEFT_OUT: [&str; 3] = ["exoclaw.", "session.", "bindings."];

/// What a tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Call the binding of that name.
    Binding { name: String, is_wrapped: bool },
    /// Run code.
    Eval,
}

impl Action {
    /// What clients are told of it.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Binding { name, .. } => name,
            Self::Eval => EVAL,
        }
    }

    /// The code that does it.
    pub(super) fn code(&self, input: &Value) -> Result<String, String> {
        match self {
            Self::Eval => match input.get("code") {
                Some(Value::String(code)) => Ok(code.clone()),
                Some(_) | None => Err("expected `code`, a string".to_owned()),
            },
            Self::Binding { name, is_wrapped } => {
                let input =
                    if *is_wrapped { input.get(WRAPPED_INPUT).unwrap_or(&Value::Null) } else { input };
                // A literal would do for most, but `__proto__` means something else there.
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
    actions: HashMap<String, Action>,
}

impl Toolbox {
    /// Those of the declared bindings that a pattern names: `kv.get`, `kv.*` or `*`.
    pub(super) fn new(declarations: &[Value], patterns: &[String], has_eval: bool) -> Self {
        let mut toolbox = Self::default();
        if has_eval {
            toolbox.add(eval_tool(), Action::Eval);
        }
        for declaration in declarations {
            let text = |name: &str| declaration.get(name).and_then(Value::as_str).unwrap_or_default();
            let name = text("name");
            if name.is_empty() || !is_named(name, patterns) || wants_function(declaration.get("input")) {
                continue;
            }
            let (input, is_wrapped) = input_of(declaration.get("input"));
            let tool = Tool { name: safe_name(name), description: text("description").to_owned(), input };
            toolbox.add(tool, Action::Binding { name: name.to_owned(), is_wrapped });
        }
        toolbox
    }

    fn add(&mut self, mut tool: Tool, action: Action) {
        if self.tools.len() >= TOOLS_MAX {
            tracing::warn!(tool = action.name(), "left out: a model takes at most {TOOLS_MAX} tools");
            return;
        }
        let plain = tool.name.clone();
        let mut number = 1;
        while self.actions.contains_key(&tool.name) {
            number += 1;
            tool.name = numbered(&plain, number);
        }
        self.actions.insert(tool.name.clone(), action);
        self.tools.push(tool);
    }

    /// What the model means by the name of a tool.
    pub(super) fn action(&self, tool: &str) -> Option<&Action> {
        self.actions.get(tool)
    }

    /// What clients are told of the tools, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|tool| self.action(&tool.name)).map(Action::name)
    }
}

fn is_named(name: &str, patterns: &[String]) -> bool {
    let is_left_out = NAMESPACES_LEFT_OUT.iter().any(|namespace| name.starts_with(namespace));
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some("") => !is_left_out,
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    })
}

/// A model has no functions to give.
fn wants_function(input: Option<&Value>) -> bool {
    let names =
        |schema: &Value| schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(input) = input else {
        return false;
    };
    let is_function = |name: &Value| {
        let place = name.as_str().and_then(|name| input.get("properties")?.get(name));
        place.is_some_and(|place| names(place).iter().any(|name| name == FUNCTION_TAG))
    };
    names(input).iter().any(is_function)
}

fn safe_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(safe).take(TOOL_NAME_BYTES_MAX).collect()
}

fn numbered(name: &str, number: usize) -> String {
    let suffix = format!("_{number}");
    let kept: String = name.chars().take(TOOL_NAME_BYTES_MAX - suffix.len()).collect();
    format!("{kept}{suffix}")
}

/// The schema that a provider takes, and whether the input is wrapped.
fn input_of(schema: Option<&Value>) -> (Value, bool) {
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
    let description = "Runs JavaScript or TypeScript and gives back the value of its last expression. State is kept \
                       between calls while one message is answered. All bindings are global functions.";
    let code = json!({"type": "string", "description": "The code; top-level await is allowed."});
    let input = json!({"type": "object", "properties": {"code": code}, "required": ["code"]});
    Tool { name: EVAL.to_owned(), description: description.to_owned(), input }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declared(name: &str) -> Value {
        json!({"name": name, "description": "It.", "input": {"type": "object"}})
    }

    fn toolbox(names: &[&str], patterns: &[&str]) -> Toolbox {
        let declarations: Vec<Value> = names.iter().map(|name| declared(name)).collect();
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Toolbox::new(&declarations, &patterns, false)
    }

    fn names(toolbox: &Toolbox) -> Vec<&str> {
        toolbox.names().collect()
    }

    #[test]
    fn patterns_choose_among_the_bindings() {
        let all = ["kv.get", "kv.set", "echo", "exoclaw.chat", "session.info"];
        assert_eq!(names(&toolbox(&all, &["*"])), ["kv.get", "kv.set", "echo"]);
        assert_eq!(names(&toolbox(&all, &["kv.*"])), ["kv.get", "kv.set"]);
        assert_eq!(names(&toolbox(&all, &["echo", "exoclaw.chat"])), ["echo", "exoclaw.chat"]);
        assert_eq!(names(&toolbox(&all, &[])), Vec::<&str>::new());
    }

    #[test]
    fn a_binding_that_needs_a_function_is_no_tool() {
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
    fn names_that_providers_refuse_are_changed_and_lead_back() {
        let toolbox = toolbox(&["kv.get", "kv_get", "kv$get"], &["*"]);
        let offered: Vec<&str> = toolbox.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["kv_get", "kv_get_2", "kv_get_3"]);
        assert_eq!(toolbox.action("kv_get_3").map(Action::name), Some("kv$get"));
        assert_eq!(toolbox.action("nosuch"), None);
    }

    #[test]
    fn an_input_that_is_no_object_is_wrapped_and_unwrapped() {
        let declarations = [json!({"name": "twice", "input": {"type": "number"}}), json!({"name": "any"})];
        let toolbox = Toolbox::new(&declarations, &["*".to_owned()], false);
        assert_eq!(toolbox.tools[0].input["properties"]["input"], json!({"type": "number"}));
        assert_eq!(toolbox.tools[1].input, json!({"type": "object"}));
        let code = |tool: &str, input: Value| toolbox.action(tool).unwrap().code(&input).unwrap();
        assert_eq!(code("twice", json!({"input": 4})), r#"await twice(JSON.parse("4"))"#);
        assert_eq!(code("any", json!({"a": "\""})), r#"await any(JSON.parse("{\"a\":\"\\\"\"}"))"#);
    }

    #[test]
    fn eval_is_there_only_if_it_is_configured() {
        let toolbox = Toolbox::new(&[], &[], true);
        assert_eq!(names(&toolbox), ["eval"]);
        let action = toolbox.action("eval").unwrap();
        assert_eq!(action.code(&json!({"code": "1+1"})), Ok("1+1".to_owned()));
        assert!(action.code(&json!({})).is_err());
    }

    #[test]
    fn a_model_is_told_of_a_bounded_number() {
        let many: Vec<String> = (0..=TOOLS_MAX).map(|n| format!("t{n}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(toolbox(&names[..TOOLS_MAX], &["*"]).tools.len(), TOOLS_MAX);
        assert_eq!(toolbox(&names, &["*"]).tools.len(), TOOLS_MAX);
    }

    proptest! {
        #[test]
        fn every_tool_has_a_name_that_providers_take_and_its_own(bindings in proptest::collection::hash_set("[a-c.$_]{1,70}", 0..20)) {
            let declarations: Vec<Value> = bindings.iter().map(|name| declared(name)).collect();
            let toolbox = Toolbox::new(&declarations, &["*".to_owned()], false);
            let offered: std::collections::HashSet<&str> = toolbox.tools.iter().map(|tool| tool.name.as_str()).collect();
            prop_assert_eq!(offered.len(), bindings.len());
            for name in offered {
                prop_assert!(name.len() <= TOOL_NAME_BYTES_MAX && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            }
        }
    }
}
