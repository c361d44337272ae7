//! The envelope of holon-web: one JSON object a frame, with exactly the fields that its shape allows.
//!
//! Read in two steps, so that a frame that breaks a rule still gives up its id: whoever sent it can then be told.

use serde_json::{Map, Value, json};

/// The fields that may stand at the top.
const FIELDS: [&str; 5] = ["id", "method", "payload", "result", "error"];

/// Malformed, as a status.
pub(super) const INVALID_ARGUMENT: i64 = 3;
/// It took too long.
pub(super) const DEADLINE_EXCEEDED: i64 = 4;
/// Not allowed.
pub(super) const PERMISSION_DENIED: i64 = 7;
/// Too many at once.
pub(super) const RESOURCE_EXHAUSTED: i64 = 8;
/// Nobody serves that method.
pub(super) const UNIMPLEMENTED: i64 = 12;
/// A fault of whoever serves it.
pub(super) const INTERNAL: i64 = 13;
/// The peer is not there.
pub(super) const UNAVAILABLE: i64 = 14;

/// An error on the wire.
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

/// A frame that keeps the rules.
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
    /// Only an id: what a handler that returns nothing makes of its answer in the real client.
    Bare {
        id: String,
    },
}

/// A frame that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not one JSON text.
    Malformed,
    /// JSON, but no envelope; with its id if that can be used.
    Invalid { id: Option<String>, is_response: bool, why: &'static str },
}

/// Reads a frame.
pub(super) fn read(text: &str) -> Result<Envelope, Fault> {
    let value: Value = serde_json::from_str(text).map_err(|_| Fault::Malformed)?;
    let Value::Object(mut fields) = value else {
        return Err(Fault::Invalid { id: None, is_response: false, why: "the envelope must be an object" });
    };
    // Ids are counted for each direction, so what tries to be a response must not be taken for a request.
    let has = |field: &str| fields.contains_key(field);
    let is_response = !has("method") && (has("result") || has("error"));
    let id = match fields.remove("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => id,
        Some(_) | None => {
            return Err(Fault::Invalid { id: None, is_response, why: "id must be a non-empty string" });
        }
    };
    shape(id.clone(), fields).map_err(|why| Fault::Invalid { id: Some(id), is_response, why })
}

fn shape(id: String, mut fields: Map<String, Value>) -> Result<Envelope, &'static str> {
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
        (Some(_), _, _, _) => Err("a request has no result and no error"),
        (None, Some(_), _, _) => Err("a response has no payload"),
        (None, None, Some(_), Some(_)) => Err("a response has a result or an error, not both"),
        (None, None, Some(result), None) => Ok(Envelope::Response { id, outcome: Ok(result) }),
        (None, None, None, Some(error)) => Ok(Envelope::Response { id, outcome: Err(status(&error)?) }),
        (None, None, None, None) => Ok(Envelope::Bare { id }),
    }
}

/// An error needs a whole code and a text; more in it does no harm.
fn status(error: &Value) -> Result<Status, &'static str> {
    let code = error.get("code").and_then(whole).ok_or("error.code must be an integer")?;
    let message = error.get("message").and_then(Value::as_str).ok_or("error.message must be a string")?;
    Ok(Status::new(code, message))
}

/// `12` and `12.0` are the same number in JavaScript.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15)?;
        #[allow(clippy::cast_possible_truncation)]
        Some(number as i64)
    })
}

/// The text of a request.
pub(super) fn request(id: &str, method: &str, payload: &Value) -> String {
    json!({"id": id, "method": method, "payload": payload}).to_string()
}

/// The text of an answer. A result is always there, even when it is null: a strict client closes without it.
pub(super) fn response(id: &str, outcome: &Result<Value, Status>) -> String {
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

    fn fault(text: &str) -> Fault {
        read(text).unwrap_err()
    }

    #[test]
    fn a_request_without_payload_has_an_empty_one_and_null_stays_null() {
        let payload_of = |text: &str| match read(text).unwrap() {
            Envelope::Request { payload, .. } => payload,
            Envelope::Response { .. } | Envelope::Bare { .. } => json!("no request"),
        };
        assert_eq!(payload_of(r#"{"id":"1","method":"a.B/C"}"#), json!({}));
        assert_eq!(payload_of(r#"{"id":"1","method":"a.B/C","payload":null}"#), json!(null));
    }

    #[test]
    fn a_null_result_is_an_answer() {
        let answer = Envelope::Response { id: "1".to_owned(), outcome: Ok(Value::Null) };
        assert_eq!(read(r#"{"id":"1","result":null}"#), Ok(answer));
    }

    #[test]
    fn a_fault_keeps_an_id_that_can_be_used() {
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
            assert!(matches!(fault(text), Fault::Invalid { id: Some(id), .. } if id == "7"), "{text}");
        }
    }

    #[test]
    fn an_id_that_is_no_text_or_blank_cannot_be_used() {
        for text in [r#"{"id":7,"result":1}"#, r#"{"id":"  ","result":1}"#, r#"{"result":1}"#, "[]", "42"] {
            assert!(matches!(fault(text), Fault::Invalid { id: None, .. }), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_json_text_is_malformed() {
        for text in ["", "{bad", r#"{"id":"1","result":1}{"id":"2","result":1}"#, "\u{feff}{}"] {
            assert_eq!(fault(text), Fault::Malformed, "{text}");
        }
    }

    #[test]
    fn a_code_may_be_negative_or_written_as_a_fraction() {
        let code_of = |text: &str| match read(text) {
            Ok(Envelope::Response { outcome: Err(status), .. }) => status.code,
            _ => 0,
        };
        assert_eq!(code_of(r#"{"id":"1","error":{"code":-32601,"message":""}}"#), -32601);
        assert_eq!(code_of(r#"{"id":"1","error":{"code":12.0,"message":"","data":1}}"#), 12);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(id in "\\S.{0,8}", method in "[a-z./]{1,9}", code: i32, number: i64) {
            let payload = json!({"n": number});
            let asked = Envelope::Request { id: id.clone(), method: method.clone(), payload: payload.clone() };
            prop_assert_eq!(read(&request(&id, &method, &payload)), Ok(asked));
            for outcome in [Ok(payload), Ok(Value::Null), Err(Status::new(i64::from(code), method))] {
                let answer = Envelope::Response { id: id.clone(), outcome: outcome.clone() };
                prop_assert_eq!(read(&response(&id, &outcome)), Ok(answer));
            }
        }

        #[test]
        fn no_text_is_too_strange_to_be_judged(text in ".{0,60}") {
            let _ = read(&text);
        }
    }
}
