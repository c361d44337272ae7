//! The streaming Messages API of Anthropic.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::sse::SseEvent;
use super::{
    AnswerError, Message, PartialToolUse, Piece, Prompt, TOOL_USES_MAX, parse_object, read_tokens,
    to_provider_error,
};
use crate::bindings::exoclaw::wire::Usage;

/// The version of the API, sent as a header.
pub(super) const VERSION: &str = "2023-06-01";

pub(super) fn encode_request(prompt: &Prompt<'_>) -> Value {
    let mut body = json!({
        "model": prompt.model,
        "max_tokens": prompt.tokens_max,
        "messages": prompt.messages.iter().map(encode_message).collect::<Vec<_>>(),
        "stream": true,
    });
    if let Some(system) = prompt.system {
        body["system"] = json!(system);
    }
    if !prompt.tools.is_empty() {
        let tool = |tool: &super::Tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input});
        body["tools"] = prompt.tools.iter().map(tool).collect();
    }
    body
}

fn encode_message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Assistant { text, tool_uses } if tool_uses.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, tool_uses } => {
            // The API rejects an empty block of text.
            let text_block = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let tool_blocks = tool_uses.iter().map(
                |tool| json!({"type": "tool_use", "id": tool.id, "name": tool.name, "input": tool.input}),
            );
            json!({"role": "assistant", "content": text_block.into_iter().chain(tool_blocks).collect::<Vec<_>>()})
        }
        Message::ToolResults(results) => {
            let results = results.iter().map(|result| {
                json!({
                    "type": "tool_result", "tool_use_id": result.tool_use_id, "content": result.content,
                    "is_error": result.is_error,
                })
            });
            json!({"role": "user", "content": results.collect::<Vec<_>>()})
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) usage: Usage,
    /// Tool calls by the index of their block, until it stops.
    open: BTreeMap<u64, PartialToolUse>,
}

impl Reader {
    pub(super) fn on_event(&mut self, event: &SseEvent) -> Result<Vec<Piece>, AnswerError> {
        let data = parse_object(event)?;
        let kind = data.get("type").and_then(Value::as_str).unwrap_or(&event.name);
        match kind {
            "message_start" => {
                let usage = data.get("message").and_then(|message| message.get("usage"));
                self.usage.input_tokens =
                    read_tokens(usage, "input_tokens").unwrap_or(self.usage.input_tokens);
            }
            "message_delta" => {
                let output = read_tokens(data.get("usage"), "output_tokens");
                self.usage.output_tokens = output.unwrap_or(self.usage.output_tokens);
            }
            "content_block_start" => self.start_block(&data)?,
            "content_block_delta" => return Ok(self.extend_block(&data)?.into_iter().collect()),
            "content_block_stop" => {
                if let Some(tool) = self.open.remove(&index(&data)) {
                    return Ok(vec![Piece::ToolUse(tool.finish()?)]);
                }
            }
            "message_stop" => return Ok(vec![Piece::End]),
            "error" => return Err(to_provider_error(data.get("error").unwrap_or(&Value::Null))),
            // Pings, and events that later versions may add.
            _ => {}
        }
        Ok(Vec::new())
    }

    fn start_block(&mut self, data: &Map<String, Value>) -> Result<(), AnswerError> {
        let Some(block) = data.get("content_block").filter(|block| block["type"] == "tool_use") else {
            return Ok(());
        };
        if self.open.len() >= TOOL_USES_MAX {
            return Err(AnswerError::TooManyTools);
        }
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.open
            .insert(index(data), PartialToolUse { id: text("id"), name: text("name"), input: String::new() });
        Ok(())
    }

    fn extend_block(&mut self, data: &Map<String, Value>) -> Result<Option<Piece>, AnswerError> {
        let delta = data.get("delta").unwrap_or(&Value::Null);
        if let Some(text) = delta.get("text").and_then(Value::as_str) {
            return Ok(Some(Piece::Text(text.to_owned())));
        }
        if let Some(part) = delta.get("partial_json").and_then(Value::as_str)
            && let Some(tool) = self.open.get_mut(&index(data))
        {
            tool.push_input(part)?;
        }
        Ok(None)
    }
}

fn index(data: &Map<String, Value>) -> u64 {
    data.get("index").and_then(Value::as_u64).unwrap_or_default()
}
