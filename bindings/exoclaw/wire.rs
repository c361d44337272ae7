//! The frames of the Exoclaw protocol, read and written, for the gateway and for its clients.
//!
//! A request is read in two steps: the frame (whose failure is answered with the id `"0"`, because the id may be what
//! is broken), then the parameters of its method. The texts of serde are part of the protocol, so the types that
//! produce them keep the names and the order of members that peers see. Event frames have their members in
//! alphabetical order and plain answers do not, as existing clients receive them.

mod client;
mod params;

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

pub(crate) use client::{Reply, auth, request};
pub(crate) use params::{ChatHistoryParams, ChatSendParams, MemorySearchParams, Origin, SessionListParams};

/// What the hello and `status` say. It names the protocol and not this program, so it does not move with releases.
pub(crate) const VERSION: &str = "0.1.0";

/// The code of a refused token.
const AUTH_FAILED_CODE: u16 = 4001;

/// The id of an answer to a frame whose own id could not be read.
pub(crate) const UNREADABLE_ID: &str = "0";

/// A frame of a client that is a request, whatever its method.
#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) method: String,
    params: Value,
}

#[derive(Deserialize)]
struct RpcRequest {
    id: RequestId,
    method: String,
    #[serde(default)]
    params: Value,
}

/// A string, or a number that becomes one.
struct RequestId(String);

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RequestIdVisitor)
    }
}

struct RequestIdVisitor;

impl Visitor<'_> for RequestIdVisitor {
    type Value = RequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<RequestId, E> {
        Ok(RequestId(id.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, id: i64) -> Result<RequestId, E> {
        Ok(RequestId(id.to_string()))
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<RequestId, E> {
        Ok(RequestId(id.to_string()))
    }

    fn visit_f64<E: de::Error>(self, id: f64) -> Result<RequestId, E> {
        let number = Number::from_f64(id).ok_or_else(|| E::custom("the id is no finite number"))?;
        Ok(RequestId(number.to_string()))
    }
}

impl Request {
    /// Reads a frame; the error is the text of the answer.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let RpcRequest { id, method, params } =
            serde_json::from_str(text).map_err(|error| format!("parse error: {error}"))?;
        Ok(Self { id: id.0, method, params })
    }

    /// Reads what the request asks for; the error is the text of the answer.
    pub(crate) fn call(self, methods: Methods) -> Result<Call, String> {
        let Self { method, params, .. } = self;
        match (method.as_str(), methods) {
            ("ping", _) => Ok(Call::Ping),
            ("status", _) => Ok(Call::Status),
            ("plugin.list", _) => Ok(Call::PluginList),
            ("chat.send", _) => read(&method, params, ChatSendParams::origin).map(Call::ChatSend),
            ("chat.history", Methods::Extended) => {
                read(&method, params, |history: &ChatHistoryParams| history.origin.clone())
                    .map(Call::ChatHistory)
            }
            ("session.list", Methods::Extended) => {
                read_plain(&method, or_empty(params)).map(Call::SessionList)
            }
            ("session.clear", Methods::Extended) => {
                read(&method, params, Origin::clone).map(Call::SessionClear)
            }
            ("budget.status", Methods::Extended) => match or_empty(params) {
                Value::Object(none) if none.is_empty() => Ok(Call::BudgetStatus(None)),
                origin => read(&method, origin, Origin::clone).map(|origin| Call::BudgetStatus(Some(origin))),
            },
            ("memory.search", Methods::Extended) => read_plain(&method, params).map(Call::MemorySearch),
            (unknown, Methods::Core | Methods::Extended) => Err(format!("unknown method: {unknown}")),
        }
    }
}

/// Parameters that name an origin, with its names checked.
fn read<T: DeserializeOwned>(method: &str, params: Value, origin: fn(&T) -> Origin) -> Result<T, String> {
    let read = read_plain(method, params)?;
    origin(&read).check().map_err(|why| format!("invalid {method} params: {why}"))?;
    Ok(read)
}

fn read_plain<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("invalid {method} params: {error}"))
}

/// For methods that can be called without parameters.
fn or_empty(params: Value) -> Value {
    if params.is_null() { json!({}) } else { params }
}

/// Which methods a gateway knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Methods {
    /// Those of version 1.
    Core,
    /// Those that the specification lists as future as well.
    Extended,
}

/// A request that can be served.
#[derive(Debug, PartialEq)]
pub(crate) enum Call {
    Ping,
    Status,
    PluginList,
    ChatSend(ChatSendParams),
    ChatHistory(ChatHistoryParams),
    SessionList(SessionListParams),
    SessionClear(Origin),
    BudgetStatus(Option<Origin>),
    MemorySearch(MemorySearchParams),
}

/// One frame of a streamed answer. Members stand in the order in which they go out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Text(String),
    ToolUse(ToolUse),
    ToolResult(ToolResult),
    Usage(Usage),
    Error(String),
    Done,
}

/// A tool that the agent calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolUse {
    pub(crate) id: String,
    pub(crate) input: Value,
    pub(crate) name: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolResult {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) is_error: bool,
    pub(crate) tool_use_id: String,
}

/// What one call of a model cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Usage {
    pub(crate) fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

impl Event {
    /// The event of that name; the error says what is wrong with its data.
    pub(crate) fn read(name: &str, data: Value) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("{name}: {error}");
        match name {
            "text" => serde_json::from_value(data).map(Self::Text).map_err(wrong),
            "tool_use" => serde_json::from_value(data).map(Self::ToolUse).map_err(wrong),
            "tool_result" => serde_json::from_value(data).map(Self::ToolResult).map_err(wrong),
            "usage" => serde_json::from_value(data).map(Self::Usage).map_err(wrong),
            "error" => serde_json::from_value(data).map(Self::Error).map_err(wrong),
            "done" => Ok(Self::Done),
            unknown => Err(format!("no event is called `{unknown}`")),
        }
    }

    fn parts(&self) -> (&'static str, Option<Value>) {
        match self {
            Self::Text(text) => ("text", Some(json!(text))),
            Self::ToolUse(call) => ("tool_use", Some(json!(call))),
            Self::ToolResult(result) => ("tool_result", Some(json!(result))),
            Self::Usage(usage) => ("usage", Some(json!(usage))),
            Self::Error(text) => ("error", Some(json!(text))),
            Self::Done => ("done", None),
        }
    }

    /// The frame that carries it.
    pub(crate) fn frame(&self, id: &str) -> String {
        match self.parts() {
            (event, Some(data)) => json!({"data": data, "event": event, "id": id}).to_string(),
            (event, None) => json!({"event": event, "id": id}).to_string(),
        }
    }
}

/// The first frame of a gateway.
pub(crate) fn hello() -> String {
    json!({"ok": true, "version": VERSION}).to_string()
}

/// The last frame to a client that has no token.
pub(crate) fn auth_failed() -> String {
    json!({"error": "auth_failed", "code": AUTH_FAILED_CODE}).to_string()
}

/// The answer to a request that is not streamed. The member that is not used is left out: a client that finds `error`
/// takes it as one, whatever it is.
pub(crate) fn answer(id: &str, outcome: &Result<Value, String>) -> String {
    match outcome {
        Ok(result) => json!({"id": id, "result": result}).to_string(),
        Err(error) => json!({"id": id, "error": error}).to_string(),
    }
}

/// The token of a client's first frame.
pub(crate) fn token_of(text: &str) -> Option<String> {
    let mut frame: Value = serde_json::from_str(text).ok()?;
    match frame.get_mut("token").map(Value::take) {
        Some(Value::String(token)) => Some(token),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests;
