//! Parses and encodes the frames of the Exoclaw protocol, for the gateway and for its clients.
//!
//! A request is parsed in two steps: first the frame, whose errors are sent with the id `"0"`
//! because the id itself may be invalid, then the parameters of its method. Error texts of serde
//! are visible to peers, so the names and the order of members of these types are part of the
//! protocol. Event frames have their members in alphabetical order and responses do not, as
//! existing clients expect.

mod client;
mod params;

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

pub(crate) use client::{Reply, encode_auth, encode_request};
pub(crate) use params::{ChatHistoryParams, ChatSendParams, MemorySearchParams, Origin, SessionListParams};

/// The version in the hello frame and in `status`. It is that of the protocol, not of this program.
pub(crate) const VERSION: &str = "0.1.0";

/// The code in the frame that rejects a token.
const AUTH_FAILED_CODE: u16 = 4001;

/// The id of the response to a frame that cannot be parsed.
pub(crate) const UNREADABLE_ID: &str = "0";

/// A request of a client. Its method and parameters are not checked yet.
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

/// A string, or a number, which is converted to a string.
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
        let number = Number::from_f64(id).ok_or_else(|| E::custom("expected a finite number"))?;
        Ok(RequestId(number.to_string()))
    }
}

impl Request {
    /// The error is the text for the response.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let RpcRequest { id, method, params } =
            serde_json::from_str(text).map_err(|error| format!("parse error: {error}"))?;
        Ok(Self { id: id.0, method, params })
    }

    /// Parses the parameters of the method. The error is the text for the response.
    pub(crate) fn into_call(self, methods: Methods) -> Result<Call, String> {
        let Self { method, params, .. } = self;
        match (method.as_str(), methods) {
            ("ping", _) => Ok(Call::Ping),
            ("status", _) => Ok(Call::Status),
            ("plugin.list", _) => Ok(Call::PluginList),
            ("chat.send", _) => {
                parse_with_origin(&method, params, ChatSendParams::origin).map(Call::ChatSend)
            }
            ("chat.history", Methods::Extended) => {
                parse_with_origin(&method, params, |history: &ChatHistoryParams| history.origin.clone())
                    .map(Call::ChatHistory)
            }
            ("session.list", Methods::Extended) => {
                parse_params(&method, or_empty(params)).map(Call::SessionList)
            }
            ("session.clear", Methods::Extended) => {
                parse_with_origin(&method, params, Origin::clone).map(Call::SessionClear)
            }
            ("budget.status", Methods::Extended) => match or_empty(params) {
                Value::Object(members) if members.is_empty() => Ok(Call::BudgetStatus(None)),
                origin => parse_with_origin(&method, origin, Origin::clone)
                    .map(|origin| Call::BudgetStatus(Some(origin))),
            },
            ("memory.search", Methods::Extended) => parse_params(&method, params).map(Call::MemorySearch),
            (unknown, Methods::Core | Methods::Extended) => Err(format!("unknown method: {unknown}")),
        }
    }
}

/// Also checks the lengths of the names in the origin.
fn parse_with_origin<T: DeserializeOwned>(
    method: &str,
    params: Value,
    origin: fn(&T) -> Origin,
) -> Result<T, String> {
    let params = parse_params(method, params)?;
    origin(&params).check_lengths().map_err(|reason| format!("invalid {method} params: {reason}"))?;
    Ok(params)
}

fn parse_params<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("invalid {method} params: {error}"))
}

/// For methods whose parameters are optional.
fn or_empty(params: Value) -> Value {
    if params.is_null() { json!({}) } else { params }
}

/// The set of methods that a gateway serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Methods {
    /// The methods of version 1.
    Core,
    /// Also those that the specification reserves for the future.
    Extended,
}

/// A request with valid parameters.
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

/// One frame of a streamed answer. The members of its data are declared in the order in which they
/// are sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Text(String),
    ToolUse(ToolUse),
    ToolResult(ToolResult),
    Usage(Usage),
    Error(String),
    Done,
}

/// A tool call by the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolUse {
    pub(crate) id: String,
    pub(crate) input: Value,
    pub(crate) name: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolResult {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) is_error: bool,
    pub(crate) tool_use_id: String,
}

/// The tokens that one model call used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Usage {
    pub(crate) fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub(crate) fn saturating_add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

impl Event {
    pub(crate) fn parse(name: &str, data: Value) -> Result<Self, String> {
        let invalid = |error: serde_json::Error| format!("{name}: {error}");
        match name {
            "text" => serde_json::from_value(data).map(Self::Text).map_err(invalid),
            "tool_use" => serde_json::from_value(data).map(Self::ToolUse).map_err(invalid),
            "tool_result" => serde_json::from_value(data).map(Self::ToolResult).map_err(invalid),
            "usage" => serde_json::from_value(data).map(Self::Usage).map_err(invalid),
            "error" => serde_json::from_value(data).map(Self::Error).map_err(invalid),
            "done" => Ok(Self::Done),
            unknown => Err(format!("unknown event `{unknown}`")),
        }
    }

    fn name_and_data(&self) -> (&'static str, Option<Value>) {
        match self {
            Self::Text(text) => ("text", Some(json!(text))),
            Self::ToolUse(call) => ("tool_use", Some(json!(call))),
            Self::ToolResult(result) => ("tool_result", Some(json!(result))),
            Self::Usage(usage) => ("usage", Some(json!(usage))),
            Self::Error(text) => ("error", Some(json!(text))),
            Self::Done => ("done", None),
        }
    }

    pub(crate) fn encode(&self, id: &str) -> String {
        match self.name_and_data() {
            (event, Some(data)) => json!({"data": data, "event": event, "id": id}).to_string(),
            (event, None) => json!({"event": event, "id": id}).to_string(),
        }
    }
}

/// The first frame of a gateway.
pub(crate) fn hello_frame() -> String {
    json!({"ok": true, "version": VERSION}).to_string()
}

/// The last frame to a client whose token is wrong or missing.
pub(crate) fn auth_failed_frame() -> String {
    json!({"error": "auth_failed", "code": AUTH_FAILED_CODE}).to_string()
}

/// Encodes a response that is not streamed. The unused member is omitted: clients treat any `error`
/// member as an error, even null.
pub(crate) fn encode_response(id: &str, outcome: &Result<Value, String>) -> String {
    match outcome {
        Ok(result) => json!({"id": id, "result": result}).to_string(),
        Err(error) => json!({"id": id, "error": error}).to_string(),
    }
}

/// Parses the first frame of a client; `None` if it has no token.
pub(crate) fn parse_token(text: &str) -> Option<String> {
    let mut frame: Value = serde_json::from_str(text).ok()?;
    match frame.get_mut("token").map(Value::take) {
        Some(Value::String(token)) => Some(token),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests;
