//! The list of tools: fixed, so that the prompt of a client that contains it stays the same.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

const TOOLS: &str = include_str!("tools.json");
const REPORT: &str = include_str!("report_schema.json");

/// The instructions that a client gets for the server as a whole.
pub(super) const INSTRUCTIONS: &str = "Code mode: instead of calling many tools, write one script and run it with `execute`. \
     Find functions with `search`, read their types with `describe`.";

/// All tools, in a fixed order.
pub(super) fn all() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let report: Arc<JsonObject> = Arc::new(serde_json::from_str(REPORT).unwrap_or_default());
        let mut tools: Vec<Tool> = serde_json::from_str(TOOLS).unwrap_or_default();
        for tool in &mut tools {
            let is_report = |schema: &Arc<JsonObject>| schema.get("$ref") == Some(&Value::from("report"));
            if tool.output_schema.as_ref().is_some_and(is_report) {
                tool.output_schema = Some(Arc::clone(&report));
            }
        }
        tools
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_the_five_with_schemas_and_short_texts() {
        let names: Vec<_> = all().iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["execute", "wait", "search", "describe", "session"]);
        for tool in all() {
            let output = tool.output_schema.as_ref().unwrap();
            assert!(output["type"] == "object" && tool.input_schema["type"] == "object", "{}", tool.name);
            assert!(tool.annotations.is_some());
            assert!(tool.description.as_ref().is_some_and(|text| text.len() < 600), "{}", tool.name);
        }
    }
}
