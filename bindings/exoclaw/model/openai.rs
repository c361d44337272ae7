//! The streaming chat completions API of OpenAI, which many other servers implement.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sse::SseEvent;
use super::{
    AnswerError, Message, PartialToolUse, Piece, Prompt, TOOL_USES_MAX, parse_object, read_tokens,
    to_provider_error,
};
use crate::bindings::exoclaw::wire::{ToolResult, Usage};

/// The data of the event that ends an answer, which is not JSON.
const DONE: &str = "[DONE]";

pub(super) fn encode_request(prompt: &Prompt<'_>) -> Value {
    let system = prompt.system.map(|system| json!({"role": "system", "content": system}));
    let messages: Vec<Value> =
        system.into_iter().chain(prompt.messages.iter().flat_map(encode_message)).collect();
    let mut body = json!({
        "model": prompt.model,
        "max_tokens": prompt.tokens_max,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !prompt.tools.is_empty() {
        let tool = |tool: &super::Tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.input});
            json!({"type": "function", "function": function})
        };
        body["tools"] = prompt.tools.iter().map(tool).collect();
    }
    body
}

/// Each result of a tool becomes a message.
fn encode_message(message: &Message) -> Vec<Value> {
    match message {
        Message::User(text) => vec![json!({"role": "user", "content": text})],
        Message::Assistant { text, tool_uses } if tool_uses.is_empty() => {
            vec![json!({"role": "assistant", "content": text})]
        }
        Message::Assistant { text, tool_uses } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = tool_uses
                .iter()
                .map(|tool| {
                    let function = json!({"name": tool.name, "arguments": tool.input.to_string()});
                    json!({"id": tool.id, "type": "function", "function": function})
                })
                .collect();
            vec![json!({"role": "assistant", "content": content, "tool_calls": calls})]
        }
        Message::ToolResults(results) => results
            .iter()
            .map(|result| json!({"role": "tool", "tool_call_id": result.tool_use_id, "content": encode_result(result)}))
            .collect(),
    }
}

/// The API has no member for a failed tool, so the text says it.
fn encode_result(result: &ToolResult) -> String {
    if result.is_error { format!("error: {}", result.content) } else { result.content.clone() }
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) usage: Usage,
    open: BTreeMap<u64, PartialToolUse>,
}

impl Reader {
    pub(super) fn on_event(&mut self, event: &SseEvent) -> Result<Vec<Piece>, AnswerError> {
        if event.data.trim() == DONE {
            let mut pieces = self.finish_tools()?;
            pieces.push(Piece::End);
            return Ok(pieces);
        }
        let data = parse_object(event)?;
        if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
            return Err(to_provider_error(error));
        }
        let usage = data.get("usage");
        self.usage.input_tokens = read_tokens(usage, "prompt_tokens").unwrap_or(self.usage.input_tokens);
        self.usage.output_tokens =
            read_tokens(usage, "completion_tokens").unwrap_or(self.usage.output_tokens);
        match data.get("choices").and_then(|choices| choices.get(0)) {
            Some(choice) => self.on_choice(choice),
            None => Ok(Vec::new()),
        }
    }

    fn on_choice(&mut self, choice: &Value) -> Result<Vec<Piece>, AnswerError> {
        let mut pieces = Vec::new();
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        if let Some(text) = delta.get("content").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            pieces.push(Piece::Text(text.to_owned()));
        }
        for part in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.extend_tool(part)?;
        }
        // Not every server gives the reason `tool_calls` after tool calls, so any reason counts.
        if choice.get("finish_reason").is_some_and(|reason| !reason.is_null()) {
            pieces.extend(self.finish_tools()?);
        }
        Ok(pieces)
    }

    fn extend_tool(&mut self, part: &Value) -> Result<(), AnswerError> {
        let index = part.get("index").and_then(Value::as_u64).unwrap_or_default();
        if !self.open.contains_key(&index) && self.open.len() >= TOOL_USES_MAX {
            return Err(AnswerError::TooManyTools);
        }
        let tool = self.open.entry(index).or_insert_with(|| PartialToolUse {
            // Some servers send no id, but the result has to refer to one.
            id: format!("call_{index}"),
            ..PartialToolUse::default()
        });
        let function = part.get("function").unwrap_or(&Value::Null);
        let text = |of: &Value, name: &str| {
            of.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if let Some(id) = text(part, "id") {
            tool.id = id;
        }
        if let Some(name) = text(function, "name") {
            tool.name = name;
        }
        tool.push_input(function.get("arguments").and_then(Value::as_str).unwrap_or_default())
    }

    fn finish_tools(&mut self) -> Result<Vec<Piece>, AnswerError> {
        std::mem::take(&mut self.open).into_values().map(|tool| tool.finish().map(Piece::ToolUse)).collect()
    }
}
