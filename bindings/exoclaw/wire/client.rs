//! The same frames from the client's side: what it sends, and what it takes from a gateway.
//!
//! A gateway may leave the unused one of `result` and `error` out or send it as null, and may send events that are not
//! known here: all of that is taken. Only what says nothing at all is refused.

use serde_json::{Map, Value, json};

/// A frame of a gateway.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    /// The connection can be used.
    Hello,
    /// The token was refused; the gateway closes now.
    AuthFailed,
    /// The whole answer to a request.
    Answer { id: String, outcome: Result<Value, String> },
    /// A part of a streamed answer.
    Event { id: String, event: String, data: Option<Value> },
}

impl Reply {
    /// Reads a frame; the error says what was expected.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut frame: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))?;
        let Some(id) = frame.remove("id") else {
            return Self::read_greeting(&frame);
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
            (_, Some(Value::String(error))) => Ok(Self::Answer { id, outcome: Err(error) }),
            (Some(result), None | Some(Value::Null)) => Ok(Self::Answer { id, outcome: Ok(result) }),
            (None, None | Some(Value::Null)) => Err("expected `event`, `result` or `error`".to_owned()),
            (_, Some(error)) => Ok(Self::Answer { id, outcome: Err(error.to_string()) }),
        }
    }

    fn read_greeting(frame: &Map<String, Value>) -> Result<Self, String> {
        if frame.get("ok") == Some(&Value::Bool(true)) {
            return Ok(Self::Hello);
        }
        match frame.get("error") {
            Some(error) if error == "auth_failed" => Ok(Self::AuthFailed),
            Some(_) | None => Err("expected a hello or a frame with an `id`".to_owned()),
        }
    }
}

/// A client's first frame to a gateway that asks for a token.
pub(crate) fn auth(token: &str) -> String {
    json!({"token": token}).to_string()
}

/// A request. Without parameters the member is left out.
pub(crate) fn request(id: &str, method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"id": id, "method": method, "params": params}).to_string(),
        None => json!({"id": id, "method": method}).to_string(),
    }
}
