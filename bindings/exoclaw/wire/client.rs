//! The frames from the client's side: encodes what it sends, and parses what a gateway sends.
//!
//! Parsing is lenient: a gateway may omit the unused one of `result` and `error` or send it as
//! null, and may send unknown events. Only frames without any meaning are rejected.

use serde_json::{Map, Value, json};

/// A frame from a gateway.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    /// The gateway accepts requests.
    Hello,
    /// The gateway rejected the token and closes the connection.
    AuthFailed,
    /// The complete response to a request.
    Response { id: String, outcome: Result<Value, String> },
    /// A part of a streamed answer.
    Event { id: String, event: String, data: Option<Value> },
}

impl Reply {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut frame: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))?;
        let Some(id) = frame.remove("id") else {
            return Self::parse_greeting(&frame);
        };
        let id = match id {
            Value::String(id) => id,
            Value::Number(id) => id.to_string(),
            other => return Err(format!("expected `id` to be a string, got {other}")),
        };
        if let Some(event) = frame.remove("event") {
            let Value::String(event) = event else {
                return Err(format!("expected `event` to be a string, got {event}"));
            };
            return Ok(Self::Event { id, event, data: frame.remove("data") });
        }
        match (frame.remove("result"), frame.remove("error")) {
            (_, Some(Value::String(error))) => Ok(Self::Response { id, outcome: Err(error) }),
            (Some(result), None | Some(Value::Null)) => Ok(Self::Response { id, outcome: Ok(result) }),
            (None, None | Some(Value::Null)) => Err("expected `event`, `result` or `error`".to_owned()),
            (_, Some(error)) => Ok(Self::Response { id, outcome: Err(error.to_string()) }),
        }
    }

    fn parse_greeting(frame: &Map<String, Value>) -> Result<Self, String> {
        if frame.get("ok") == Some(&Value::Bool(true)) {
            return Ok(Self::Hello);
        }
        match frame.get("error") {
            Some(error) if error == "auth_failed" => Ok(Self::AuthFailed),
            Some(_) | None => Err("expected a hello or a frame with an `id`".to_owned()),
        }
    }
}

/// Encodes the first frame to a gateway that requires a token.
pub(crate) fn encode_auth(token: &str) -> String {
    json!({"token": token}).to_string()
}

/// Without parameters, the member is omitted.
pub(crate) fn encode_request(id: &str, method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"id": id, "method": method, "params": params}).to_string(),
        None => json!({"id": id, "method": method}).to_string(),
    }
}
