//! What the tools return: `structuredContent`, and the same as text.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use super::approvals::ApprovalRequest;
use super::console::NewOutput;
use super::error::ToolError;
use super::execution::{Failure, Outcome, StoredValue};

/// What resources of large values are called, before their id.
pub(super) const ARTIFACT_URI: &str = "scomp://artifact/";

/// Their form.
pub(super) const ARTIFACT_TYPE: &str = "application/json";

/// The state of an execution, as a tool returns it.
pub(super) struct Report {
    pub(super) session: String,
    pub(super) execution: String,
    /// `None` while it runs.
    pub(super) outcome: Option<Arc<Outcome>>,
    pub(super) output: NewOutput,
    /// Calls that wait for a person.
    pub(super) approvals: Vec<ApprovalRequest>,
    /// The page on which that person decides.
    pub(super) page: Option<String>,
}

impl Report {
    /// The result of `execute` and `wait`.
    pub(super) fn into_result(self) -> CallToolResult {
        let mut fields = Map::new();
        fields.insert("session".to_owned(), self.session.clone().into());
        fields.insert("execution".to_owned(), self.execution.clone().into());
        let status = match self.outcome.as_deref().map(|outcome| &outcome.result) {
            None if !self.approvals.is_empty() => "approval_required",
            None => "running",
            Some(Ok(_)) => "completed",
            Some(Err(_)) => "failed",
        };
        fields.insert("status".to_owned(), status.into());
        let mut link = None;
        let mut failure = None;
        match self.outcome.as_deref().map(|outcome| &outcome.result) {
            Some(Ok(value)) => link = add_value(&mut fields, value),
            Some(Err(error)) => {
                failure = Some(error);
                fields.insert(
                    "error".to_owned(),
                    json!({"kind": error.kind, "message": error.message, "report": error.report}),
                );
            }
            None if !self.approvals.is_empty() => {
                fields.insert("approvals".to_owned(), json!(self.approvals));
                if let Some(page) = &self.page {
                    fields.insert("url".to_owned(), page.as_str().into());
                }
            }
            None => {}
        }
        if !self.output.text.is_empty() {
            fields.insert("console".to_owned(), self.output.text.clone().into());
        }
        if self.output.dropped > 0 {
            fields.insert("consoleDropped".to_owned(), self.output.dropped.into());
        }
        match failure {
            Some(failure) => failed(&self, failure, Value::Object(fields)),
            None => {
                let mut result = CallToolResult::structured(Value::Object(fields));
                result.content.extend(link.map(ContentBlock::resource_link));
                result
            }
        }
    }
}

/// Adds the value, or what stands for it. Returns the link to a value that is kept apart.
fn add_value(fields: &mut Map<String, Value>, value: &StoredValue) -> Option<Resource> {
    match value {
        StoredValue::Undefined => None,
        StoredValue::Text(text) => {
            fields.insert("value".to_owned(), serde_json::from_str(text).unwrap_or_default());
            None
        }
        StoredValue::Artifact { id, bytes, preview } => {
            let uri = format!("{ARTIFACT_URI}{id}");
            fields.insert("artifact".to_owned(), json!({"uri": uri, "bytes": bytes, "preview": preview}));
            let link = Resource::new(uri, id.clone()).with_mime_type(ARTIFACT_TYPE);
            Some(link.with_size(*bytes as u64))
        }
    }
}

/// A failed execution: the text is what a model should see, not JSON.
fn failed(report: &Report, failure: &Failure, structured: Value) -> CallToolResult {
    let mut text = failure.report.clone();
    if !report.output.text.is_empty() {
        text.push_str("\n\nconsole:\n");
        text.push_str(&report.output.text);
    }
    text.push_str(&format!("\n\nsession: {}", report.session));
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

/// A tool that failed without an execution.
pub(super) fn refused(error: &ToolError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{}: {error}", error.kind()))])
}
