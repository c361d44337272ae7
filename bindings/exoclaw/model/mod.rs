//! What a language model is asked and what it answers, whoever provides it.
//!
//! A provider is two pure things: a request made from a [`Prompt`], and a reader that makes [`Piece`]s of the events
//! of the answer. Everything here is JSON in and JSON out; the HTTP between them is in `call`.

mod anthropic;
pub(crate) mod call;
mod openai;
pub(crate) mod sse;

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::sse::{EventTooLong, SseEvent};
use super::wire::{ToolResult, ToolUse, Usage};

/// Longest text of one answer: a book, and beyond what any model writes at once.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Tools that one answer may call. Models call a handful; each costs a call of a binding.
pub(crate) const TOOL_USES_MAX: usize = 64;

/// Longest input of one tool: two pages of data.
pub(crate) const TOOL_INPUT_BYTES_MAX: usize = 1 << 20;

/// Whose shapes are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    OpenAi,
}

/// A part of a conversation with a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    User(String),
    Assistant { text: String, tool_uses: Vec<ToolUse> },
    ToolResults(Vec<ToolResult>),
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input: Value,
}

/// All that a model is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    pub(crate) model: &'a str,
    pub(crate) tokens_max: u32,
    pub(crate) system: Option<&'a str>,
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [Tool],
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    ToolUse(ToolUse),
    /// Nothing comes after it.
    End,
}

/// What makes an answer unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error(transparent)]
    EventTooLong(#[from] EventTooLong),
    #[error("an event is no JSON object")]
    Unreadable,
    #[error("expected an event stream")]
    NoAnswer,
    #[error("{0}")]
    Reported(String),
    #[error("the answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error("the answer calls more than {TOOL_USES_MAX} tools")]
    TooManyTools,
    #[error("the input of `{0}` is longer than {TOOL_INPUT_BYTES_MAX} bytes")]
    InputTooLong(String),
    #[error("the input of `{0}` is no JSON object")]
    BadInput(String),
}

impl Provider {
    /// What errors and the environment call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// Where the key is looked for by convention.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }

    /// Where its own service is.
    pub(crate) fn endpoint(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1/messages",
            Self::OpenAi => "https://api.openai.com/v1/chat/completions",
        }
    }

    /// The headers that carry the key and the version.
    pub(crate) fn headers(self, key: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Anthropic => {
                vec![("x-api-key", key.to_owned()), ("anthropic-version", anthropic::VERSION.to_owned())]
            }
            Self::OpenAi => vec![("authorization", format!("Bearer {key}"))],
        }
    }

    /// The body of the request.
    pub(crate) fn request(self, prompt: &Prompt<'_>) -> Value {
        match self {
            Self::Anthropic => anthropic::request(prompt),
            Self::OpenAi => openai::request(prompt),
        }
    }

    /// What reads the answer.
    pub(crate) fn reader(self) -> AnswerReader {
        let dialect = match self {
            Self::Anthropic => Dialect::Anthropic(anthropic::Reader::default()),
            Self::OpenAi => Dialect::OpenAi(openai::Reader::default()),
        };
        AnswerReader { dialect, text_bytes: 0, tool_uses: 0, has_begun: false }
    }
}

/// Reads the events of one answer, within limits.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    dialect: Dialect,
    text_bytes: usize,
    tool_uses: usize,
    has_begun: bool,
}

#[derive(Debug)]
enum Dialect {
    Anthropic(anthropic::Reader),
    OpenAi(openai::Reader),
}

impl AnswerReader {
    /// What an event adds to the answer.
    pub(crate) fn on_event(&mut self, event: &SseEvent) -> Result<Vec<Piece>, AnswerError> {
        let pieces = match &mut self.dialect {
            Dialect::Anthropic(reader) => reader.on_event(event)?,
            Dialect::OpenAi(reader) => reader.on_event(event)?,
        };
        self.has_begun = true;
        for piece in &pieces {
            match piece {
                Piece::Text(text) => self.text_bytes += text.len(),
                Piece::ToolUse(_) => self.tool_uses += 1,
                Piece::End => {}
            }
        }
        if self.text_bytes > ANSWER_BYTES_MAX {
            return Err(AnswerError::TooLong);
        }
        if self.tool_uses > TOOL_USES_MAX {
            return Err(AnswerError::TooManyTools);
        }
        Ok(pieces)
    }

    /// The body ended in good order before the answer said so. Some providers leave that out, so what came is the
    /// answer, unless nothing came at all.
    pub(crate) fn on_end(&self) -> Result<(), AnswerError> {
        if self.has_begun { Ok(()) } else { Err(AnswerError::NoAnswer) }
    }

    /// What the provider has reported so far.
    pub(crate) fn usage(&self) -> Usage {
        match &self.dialect {
            Dialect::Anthropic(reader) => reader.usage,
            Dialect::OpenAi(reader) => reader.usage,
        }
    }
}

/// A tool call while its parts arrive.
#[derive(Debug, Default)]
struct PartialToolUse {
    id: String,
    name: String,
    input: String,
}

impl PartialToolUse {
    fn push_input(&mut self, part: &str) -> Result<(), AnswerError> {
        self.input.push_str(part);
        if self.input.len() > TOOL_INPUT_BYTES_MAX {
            return Err(AnswerError::InputTooLong(std::mem::take(&mut self.name)));
        }
        Ok(())
    }

    /// A tool without parameters may come with no input at all. A broken one is no empty one: what a tool would do
    /// with that is not what the model asked for.
    fn finish(self) -> Result<ToolUse, AnswerError> {
        let Self { id, name, input } = self;
        let input = if input.trim().is_empty() {
            Value::Object(Map::new())
        } else {
            match serde_json::from_str(&input) {
                Ok(Value::Null) => Value::Object(Map::new()),
                Ok(input @ Value::Object(_)) => input,
                Ok(_) | Err(_) => return Err(AnswerError::BadInput(name)),
            }
        };
        Ok(ToolUse { id, input, name })
    }
}

/// The data of an event as an object.
fn object_of(event: &SseEvent) -> Result<Map<String, Value>, AnswerError> {
    serde_json::from_str(&event.data).map_err(|_| AnswerError::Unreadable)
}

/// The text of an `error` member, as both providers send it.
fn reported(error: &Value) -> AnswerError {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    AnswerError::Reported(match (text("type"), text("message")) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (None, Some(message)) => message.to_owned(),
        (_, None) => error.to_string(),
    })
}

/// A count that may be absent or of another type.
fn tokens(usage: Option<&Value>, name: &str) -> Option<u64> {
    usage?.get(name)?.as_u64()
}
