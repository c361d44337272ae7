//! Language models, independent of their provider.
//!
//! Each provider encodes a [`Prompt`] as a request, and has a reader that turns the events of the
//! answer into [`Piece`]s. Both are pure; `call` does the HTTP.

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

/// Longest text of one answer. No model writes as much in one call.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Most tool calls of one answer. Models make a handful, and each is a call of a binding.
pub(crate) const TOOL_USES_MAX: usize = 64;

/// Longest input of one tool call.
pub(crate) const TOOL_INPUT_BYTES_MAX: usize = 1 << 20;

/// The API that an endpoint implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    OpenAi,
}

/// A message of the conversation with a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    User(String),
    Assistant { text: String, tool_uses: Vec<ToolUse> },
    ToolResults(Vec<ToolResult>),
}

/// A tool that is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input: Value,
}

/// The input of one model call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    pub(crate) model: &'a str,
    pub(crate) tokens_max: u32,
    pub(crate) system: Option<&'a str>,
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [Tool],
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    ToolUse(ToolUse),
    /// The last piece.
    End,
}

/// Why the answer of a provider cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error(transparent)]
    EventTooLong(#[from] EventTooLong),
    #[error("event: expected a JSON object")]
    InvalidEvent,
    #[error("expected an event stream")]
    NoEvents,
    /// The provider sent an error event.
    #[error("{0}")]
    Provider(String),
    #[error("answer exceeds {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error("answer calls more than {TOOL_USES_MAX} tools")]
    TooManyTools,
    #[error("input of tool `{0}` exceeds {TOOL_INPUT_BYTES_MAX} bytes")]
    InputTooLong(String),
    #[error("input of tool `{0}`: expected a JSON object")]
    InvalidInput(String),
}

impl Provider {
    /// The name in error texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// The environment variable that conventionally holds the API key.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }

    /// The URL of the provider's own service.
    pub(crate) fn endpoint(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1/messages",
            Self::OpenAi => "https://api.openai.com/v1/chat/completions",
        }
    }

    /// The headers with the API key and the API version.
    pub(crate) fn headers(self, key: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Anthropic => {
                vec![("x-api-key", key.to_owned()), ("anthropic-version", anthropic::VERSION.to_owned())]
            }
            Self::OpenAi => vec![("authorization", format!("Bearer {key}"))],
        }
    }

    /// Returns the body of the request.
    pub(crate) fn encode_request(self, prompt: &Prompt<'_>) -> Value {
        match self {
            Self::Anthropic => anthropic::encode_request(prompt),
            Self::OpenAi => openai::encode_request(prompt),
        }
    }

    pub(crate) fn new_reader(self) -> AnswerReader {
        let reader = match self {
            Self::Anthropic => ProviderReader::Anthropic(anthropic::Reader::default()),
            Self::OpenAi => ProviderReader::OpenAi(openai::Reader::default()),
        };
        AnswerReader { reader, text_bytes: 0, tool_uses: 0, has_events: false }
    }
}

/// Reads the events of one answer, within limits.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    reader: ProviderReader,
    text_bytes: usize,
    tool_uses: usize,
    has_events: bool,
}

#[derive(Debug)]
enum ProviderReader {
    Anthropic(anthropic::Reader),
    OpenAi(openai::Reader),
}

impl AnswerReader {
    /// Returns the pieces that an event adds to the answer.
    pub(crate) fn on_event(&mut self, event: &SseEvent) -> Result<Vec<Piece>, AnswerError> {
        let pieces = match &mut self.reader {
            ProviderReader::Anthropic(reader) => reader.on_event(event)?,
            ProviderReader::OpenAi(reader) => reader.on_event(event)?,
        };
        self.has_events = true;
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

    /// The body ended without an event that ends the answer. Some providers do not send one, so the
    /// answer counts as complete if there was any event.
    pub(crate) fn on_end(&self) -> Result<(), AnswerError> {
        if self.has_events { Ok(()) } else { Err(AnswerError::NoEvents) }
    }

    /// The usage that the provider has reported so far.
    pub(crate) fn usage(&self) -> Usage {
        match &self.reader {
            ProviderReader::Anthropic(reader) => reader.usage,
            ProviderReader::OpenAi(reader) => reader.usage,
        }
    }
}

/// A tool call of which not all parts have arrived.
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

    /// An absent input is an empty object: providers omit it for tools without parameters. An
    /// invalid input is an error, because a call with an empty one is not what the model intended.
    fn finish(self) -> Result<ToolUse, AnswerError> {
        let Self { id, name, input } = self;
        let input = if input.trim().is_empty() {
            Value::Object(Map::new())
        } else {
            match serde_json::from_str(&input) {
                Ok(Value::Null) => Value::Object(Map::new()),
                Ok(input @ Value::Object(_)) => input,
                Ok(_) | Err(_) => return Err(AnswerError::InvalidInput(name)),
            }
        };
        Ok(ToolUse { id, input, name })
    }
}

fn parse_object(event: &SseEvent) -> Result<Map<String, Value>, AnswerError> {
    serde_json::from_str(&event.data).map_err(|_| AnswerError::InvalidEvent)
}

/// Converts an `error` member, which has the same form for both providers.
fn to_provider_error(error: &Value) -> AnswerError {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    AnswerError::Provider(match (text("type"), text("message")) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (None, Some(message)) => message.to_owned(),
        (_, None) => error.to_string(),
    })
}

/// Returns `None` if the count is absent or not a number.
fn read_tokens(usage: Option<&Value>, name: &str) -> Option<u64> {
    usage?.get(name)?.as_u64()
}
