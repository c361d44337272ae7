//! The envelope of holon-web: one JSON object per frame, with exactly the fields that its shape
//! allows.
//!
//! A frame is parsed in two steps, first the id and then the rest, so that an invalid frame can be
//! answered under its id.

use serde_json::{Map, Value, json};

/// The fields that an envelope may have.
const FIELDS: [&str; 5] = ["id", "method", "payload", "result", "error"];

// Status codes, numbered as in gRPC.
pub(super) const INVALID_ARGUMENT: i64 = 3;
pub(super) const DEADLINE_EXCEEDED: i64 = 4;
pub(super) const PERMISSION_DENIED: i64 = 7;
pub(super) const RESOURCE_EXHAUSTED: i64 = 8;
pub(super) const UNIMPLEMENTED: i64 = 12;
pub(super) const INTERNAL: i64 = 13;
pub(super) const UNAVAILABLE: i64 = 14;

/// The error of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A valid frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Envelope {
    Request {
        id: String,
        method: String,
        payload: Value,
    },
    Response {
        id: String,
        outcome: Result<Value, Status>,
    },
    /// A frame without any other field. The reference client responds like this for a handler that
    /// returns nothing.
    IdOnly {
        id: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameError {
    NotJson,
    /// JSON, but not a valid envelope. `id` is set if the frame has a usable one.
    Invalid {
        id: Option<String>,
        is_response: bool,
        reason: &'static str,
    },
}

pub(super) fn parse(text: &str) -> Result<Envelope, FrameError> {
    let value: Value = serde_json::from_str(text).map_err(|_| FrameError::NotJson)?;
    let Value::Object(mut fields) = value else {
        return Err(FrameError::Invalid {
            id: None,
            is_response: false,
            reason: "the envelope must be an object",
        });
    };
    // Each side counts its own ids, so a broken response must not be taken for a request with the
    // same id.
    let has = |field: &str| fields.contains_key(field);
    let is_response = !has("method") && (has("result") || has("error"));
    let id = match fields.remove("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => id,
        Some(_) | None => {
            let reason = "id must be a non-empty string";
            return Err(FrameError::Invalid { id: None, is_response, reason });
        }
    };
    parse_fields(id.clone(), fields).map_err(|reason| FrameError::Invalid {
        id: Some(id),
        is_response,
        reason,
    })
}

fn parse_fields(id: String, mut fields: Map<String, Value>) -> Result<Envelope, &'static str> {
    if fields.keys().any(|key| !FIELDS.contains(&key.as_str())) {
        return Err("unknown field");
    }
    let [method, payload, result, error] =
        ["method", "payload", "result", "error"].map(|field| fields.remove(field));
    match (method, payload, result, error) {
        (Some(Value::String(method)), payload, None, None) if !method.trim().is_empty() => {
            Ok(Envelope::Request { id, method, payload: payload.unwrap_or_else(|| json!({})) })
        }
        (Some(_), _, None, None) => Err("method must be a non-empty string"),
        (Some(_), _, _, _) => Err("a request must not have result or error"),
        (None, Some(_), _, _) => Err("a response must not have payload"),
        (None, None, Some(_), Some(_)) => Err("a response must not have both result and error"),
        (None, None, Some(result), None) => Ok(Envelope::Response { id, outcome: Ok(result) }),
        (None, None, None, Some(error)) => Ok(Envelope::Response { id, outcome: Err(parse_status(&error)?) }),
        (None, None, None, None) => Ok(Envelope::IdOnly { id }),
    }
}

/// Unknown members of an error are ignored.
fn parse_status(error: &Value) -> Result<Status, &'static str> {
    let code = error.get("code").and_then(parse_integer).ok_or("error.code must be an integer")?;
    let message = error.get("message").and_then(Value::as_str).ok_or("error.message must be a string")?;
    Ok(Status::new(code, message))
}

/// Accepts `12.0` as `12`: JavaScript does not distinguish them.
fn parse_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15)?;
        #[allow(clippy::cast_possible_truncation)]
        Some(number as i64)
    })
}

pub(super) fn encode_request(id: &str, method: &str, payload: &Value) -> String {
    json!({"id": id, "method": method, "payload": payload}).to_string()
}

/// `result` is written even when it is null: a strict client closes the connection without it.
pub(super) fn encode_response(id: &str, outcome: &Result<Value, Status>) -> String {
    match outcome {
        Ok(result) => json!({"id": id, "result": result}).to_string(),
        Err(Status { code, message }) => {
            json!({"id": id, "error": {"code": code, "message": message}}).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_error(text: &str) -> FrameError {
        parse(text).unwrap_err()
    }

    #[test]
    fn absent_payload_is_an_empty_object_and_null_is_kept() {
        let payload_of = |text: &str| match parse(text).unwrap() {
            Envelope::Request { payload, .. } => payload,
            Envelope::Response { .. } | Envelope::IdOnly { .. } => json!("not a request"),
        };
        assert_eq!(payload_of(r#"{"id":"1","method":"a.B/C"}"#), json!({}));
        assert_eq!(payload_of(r#"{"id":"1","method":"a.B/C","payload":null}"#), json!(null));
    }

    #[test]
    fn null_result_is_a_response() {
        let response = Envelope::Response { id: "1".to_owned(), outcome: Ok(Value::Null) };
        assert_eq!(parse(r#"{"id":"1","result":null}"#), Ok(response));
    }

    #[test]
    fn invalid_frame_error_has_the_usable_id() {
        for text in [
            r#"{"id":"7","method":"m","extra":1}"#,
            r#"{"id":"7","method":""}"#,
            r#"{"id":"7","method":3}"#,
            r#"{"id":"7","method":"m","result":1}"#,
            r#"{"id":"7","method":"m","error":null}"#,
            r#"{"id":"7","result":1,"payload":{}}"#,
            r#"{"id":"7","result":null,"error":{"code":1,"message":""}}"#,
            r#"{"id":"7","error":null}"#,
            r#"{"id":"7","error":{"code":"12","message":""}}"#,
            r#"{"id":"7","error":{"code":1.5,"message":""}}"#,
            r#"{"id":"7","error":{"code":1}}"#,
        ] {
            assert!(
                matches!(parse_error(text), FrameError::Invalid { id: Some(id), .. } if id == "7"),
                "{text}"
            );
        }
    }

    #[test]
    fn blank_or_non_string_id_is_unusable() {
        for text in [r#"{"id":7,"result":1}"#, r#"{"id":"  ","result":1}"#, r#"{"result":1}"#, "[]", "42"] {
            assert!(matches!(parse_error(text), FrameError::Invalid { id: None, .. }), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_one_json_value_is_rejected() {
        for text in ["", "{bad", r#"{"id":"1","result":1}{"id":"2","result":1}"#, "\u{feff}{}"] {
            assert_eq!(parse_error(text), FrameError::NotJson, "{text}");
        }
    }

    #[test]
    fn error_code_may_be_negative_or_have_a_zero_fraction() {
        let code_of = |text: &str| match parse(text) {
            Ok(Envelope::Response { outcome: Err(status), .. }) => status.code,
            _ => 0,
        };
        assert_eq!(code_of(r#"{"id":"1","error":{"code":-32601,"message":""}}"#), -32601);
        assert_eq!(code_of(r#"{"id":"1","error":{"code":12.0,"message":"","data":1}}"#), 12);
    }

    proptest! {
        #[test]
        fn encoded_frame_parses_back(id in "\\S.{0,8}", method in "[a-z./]{1,9}", code: i32, number: i64) {
            let payload = json!({"n": number});
            let request = Envelope::Request { id: id.clone(), method: method.clone(), payload: payload.clone() };
            prop_assert_eq!(parse(&encode_request(&id, &method, &payload)), Ok(request));
            for outcome in [Ok(payload), Ok(Value::Null), Err(Status::new(i64::from(code), method))] {
                let response = Envelope::Response { id: id.clone(), outcome: outcome.clone() };
                prop_assert_eq!(parse(&encode_response(&id, &outcome)), Ok(response));
            }
        }

        #[test]
        fn parse_of_any_text_does_not_panic(text in ".{0,60}") {
            let _ = parse(&text);
        }
    }
}
