//! The message codec: one text, one message, decoded in two steps.
//!
//! First a loose frame with every member still raw, then a decision by which members are there. An untagged enum
//! would take a frame with both `method` and `result` for a request and explain nothing. Members stay raw until
//! their type is known, so a deep or huge `params` costs nothing before the method is known.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{ErrorObject, Id, Kind};

/// A well-formed message.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are named as in JSON-RPC")]
pub enum Message<'a> {
    /// Expects an answer.
    Request { id: Id, method: String, params: Option<&'a RawValue> },
    /// Expects no answer.
    Notification { method: String, params: Option<&'a RawValue> },
    /// The answer to a request that this side sent.
    Response { id: Id, outcome: Result<&'a RawValue, ErrorObject> },
    /// An error without an id: the peer could not read a message of this side. It is never answered, because the peer
    /// might fail to read that answer too.
    ErrorWithoutId(ErrorObject),
}

/// A text that is not a message, and how to answer it.
#[derive(Debug)]
pub struct Refusal {
    /// The request's id, where it had a usable one.
    pub id: Option<Id>,
    /// The error to answer with.
    pub error: ErrorObject,
}

/// Every member raw; `Some` means that the member was there, `null` included.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one text as one message.
pub fn decode(text: &str) -> Result<Message<'_>, Refusal> {
    decode_within(text, usize::MAX)
}

/// Reads one text as one message; `error.data` of more than `error_data_bytes_max` is left out, and the error's message
/// is cut there. All else stays raw until its type is known; this becomes a value here.
pub fn decode_within(text: &str, error_data_bytes_max: usize) -> Result<Message<'_>, Refusal> {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => {
            return Err(not_an_object(text, "batches are not supported: send one message per frame"));
        }
        Some(_) | None => return Err(not_an_object(text, "a message must be a JSON object")),
    }
    let frame: Frame<'_> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            invalid(None, format!("not a JSON-RPC message: {error}"))
        } else {
            Refusal { id: None, error: ErrorObject::new(Kind::ParseError, format!("not JSON: {error}")) }
        }
    })?;
    classify(frame, error_data_bytes_max)
}

fn classify(frame: Frame<'_>, error_data_bytes_max: usize) -> Result<Message<'_>, Refusal> {
    // A malformed response is answered without its id: that id belongs to a request of this side.
    let id_of_request = || frame.method.and(frame.id).and_then(|raw| Id::from_raw(raw).ok());
    if frame.jsonrpc.is_none_or(|raw| raw.get() != "\"2.0\"") {
        return Err(invalid(id_of_request(), "`jsonrpc` must be \"2.0\""));
    }
    match (frame.method, frame.result, frame.error) {
        (Some(method), None, None) => request(frame.id, method, frame.params),
        (Some(_), _, _) => {
            Err(invalid(id_of_request(), "a message has either `method` or `result` / `error`"))
        }
        (None, Some(_), Some(_)) => Err(invalid(None, "a response has `result` or `error`, never both")),
        (None, None, None) => Err(invalid(None, "a message has `method`, `result` or `error`")),
        (None, Some(result), None) => {
            Ok(Message::Response { id: response_id(frame.id)?, outcome: Ok(result) })
        }
        (None, None, Some(error)) => {
            let error = read_error(error, error_data_bytes_max)
                .map_err(|error| invalid(None, format!("`error` has the wrong shape: {error}")))?;
            if frame.id.is_some_and(|id| id.get() == "null") {
                return Ok(Message::ErrorWithoutId(error));
            }
            Ok(Message::Response { id: response_id(frame.id)?, outcome: Err(error) })
        }
    }
}

fn read_error(error: &RawValue, data_bytes_max: usize) -> serde_json::Result<ErrorObject> {
    if error.get().len() <= data_bytes_max {
        return serde_json::from_str(error.get());
    }
    #[derive(Deserialize)]
    struct Loose<'a> {
        code: Option<i64>,
        message: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let Loose { code, mut message, data } = serde_json::from_str(error.get())?;
    message.truncate(message.floor_char_boundary(data_bytes_max));
    let data = data.filter(|data| data.get().len() <= data_bytes_max);
    let data = data.map(|data| serde_json::from_str(data.get())).transpose()?;
    Ok(ErrorObject { code: code.unwrap_or(super::error::code::EVAL), message, data })
}

fn request<'a>(
    id: Option<&'a RawValue>,
    method: &'a RawValue,
    params: Option<&'a RawValue>,
) -> Result<Message<'a>, Refusal> {
    let id = id.map(Id::from_raw).transpose().map_err(|why| invalid(None, why))?;
    let Ok(method) = serde_json::from_str::<String>(method.get()) else {
        return Err(invalid(id, "`method` must be a string"));
    };
    if params.is_some_and(|raw| !matches!(raw.get().as_bytes().first(), Some(b'{' | b'['))) {
        return Err(invalid(id, "`params` must be an object or an array"));
    }
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn response_id(id: Option<&RawValue>) -> Result<Id, Refusal> {
    let raw = id.ok_or_else(|| invalid(None, "a response needs an `id`"))?;
    Id::from_raw(raw).map_err(|why| invalid(None, why))
}

fn not_an_object(text: &str, message: &str) -> Refusal {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => invalid(None, message),
        Err(error) => {
            Refusal { id: None, error: ErrorObject::new(Kind::ParseError, format!("not JSON: {error}")) }
        }
    }
}

fn invalid(id: Option<Id>, message: impl Into<String>) -> Refusal {
    Refusal { id, error: ErrorObject::new(Kind::InvalidRequest, message) }
}

#[derive(Serialize)]
struct RequestOut<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct FailureOut<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    error: &'a ErrorObject,
}

/// A request, or without an id a notification.
pub fn encode_request<P: Serialize>(id: Option<u64>, method: &str, params: &P) -> String {
    encode(&RequestOut { jsonrpc: "2.0", id, method, params })
}

/// The answer to a request that succeeded.
pub fn encode_success<R: Serialize>(id: &Id, result: &R) -> String {
    match to_raw_value(result) {
        Ok(result) => encode_raw_success(id, &result),
        Err(error) => encode_unwritable(&error),
    }
}

/// The same for a result that is JSON text already. That is copied once, however long it is.
pub fn encode_raw_success(id: &Id, result: &RawValue) -> String {
    [r#"{"jsonrpc":"2.0","id":"#, &id.to_json(), r#","result":"#, result.get(), "}"].concat()
}

/// The answer to a request that failed; without an id if the request could not be read.
pub fn encode_failure(id: Option<&Id>, error: &ErrorObject) -> String {
    encode(&FailureOut { jsonrpc: "2.0", id, error })
}

fn encode<T: Serialize>(message: &T) -> String {
    serde_json::to_string(message).unwrap_or_else(|error| encode_unwritable(&error))
}

/// What the peer gets in the place of a message that cannot be written. The types used here always can: they have string
/// keys and infallible `Serialize`.
fn encode_unwritable(error: &serde_json::Error) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32603,"message":{:?}}}}}"#, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> (Option<String>, i64) {
        let refusal = decode(text).expect_err(text);
        (refusal.id.map(|id| id.to_string()), refusal.error.code)
    }

    #[test]
    fn request_keeps_its_params_raw() {
        let message =
            decode(r#" {"jsonrpc":"2.0","id":1,"method":"eval","params":{"code":"1 + 1"}}"#).unwrap();
        let Message::Request { id, method, params } = message else { panic!("not a request") };
        assert_eq!((id, method.as_str()), (Id::from(1), "eval"));
        assert_eq!(params.unwrap().get(), r#"{"code":"1 + 1"}"#);
    }

    #[test]
    fn answer_keeps_the_id_as_it_was_written() {
        for id in ["7", r#""7""#, r#""a\"\\b""#, "-1", "18446744073709551616"] {
            let read: Id = serde_json::from_str(id).unwrap();
            let result = RawValue::from_string(r#"{"value":[1]}"#.to_owned()).unwrap();
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"value":[1]}}}}"#);
            assert_eq!(encode_raw_success(&read, &result), expected);
            assert_eq!(encode_success(&read, &result), expected);
        }
    }

    #[test]
    fn null_result_is_an_answer() {
        let message = decode(r#"{"jsonrpc":"2.0","id":3,"result":null}"#).unwrap();
        assert!(matches!(message, Message::Response { outcome: Ok(raw), .. } if raw.get() == "null"));
    }

    #[test]
    fn broken_text_is_a_parse_error_without_id() {
        for text in ["", "  ", "{", "nonsense", "[1,", r#"{"id":1,}"#, "{} {}"] {
            assert_eq!(refusal(text), (None, -32700), "{text}");
        }
    }

    #[test]
    fn json_that_is_not_a_message_is_refused() {
        for text in ["1", "null", "\"x\"", "[]", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eval\"}]", "{}"]
        {
            assert_eq!(refusal(text), (None, -32600), "{text}");
        }
    }

    #[test]
    fn malformed_request_is_answered_with_its_id() {
        for text in [
            r#"{"id":7,"method":"eval"}"#,
            r#"{"jsonrpc":"1.0","id":7,"method":"eval"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"eval","result":1}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"eval","params":5}"#,
        ] {
            assert_eq!(refusal(text), (Some("7".to_owned()), -32600), "{text}");
        }
    }

    #[test]
    fn malformed_response_is_answered_without_id() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","result":1}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
        ] {
            assert_eq!(refusal(text), (None, -32600), "{text}");
        }
    }

    #[test]
    fn error_response_without_id_is_accepted() {
        let message = decode(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#);
        assert!(matches!(message, Ok(Message::ErrorWithoutId(error)) if error.code == -32700));
    }

    #[test]
    fn bad_id_is_refused_without_id() {
        for id in ["null", "1.5", "true", "{}"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eval"}}"#);
            assert_eq!(refusal(&text), (None, -32600), "{text}");
        }
    }

    #[test]
    fn depth_costs_nothing_before_the_method_is_known() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"nothing","params":{deep}}}"#);
        assert!(matches!(decode(&text), Ok(Message::Request { .. })));
        assert_eq!(refusal(&deep).1, -32600);
    }

    proptest! {
        #[test]
        fn any_text_is_a_message_or_a_refusal(text in ".{0,200}") {
            let _ = decode(&text);
        }

        #[test]
        fn requests_survive_the_round_trip(id in any::<u64>(), method in "[a-z_]{1,12}", code in ".{0,60}") {
            let text = encode_request(Some(id), &method, &serde_json::json!({ "code": code }));
            match decode(&text) {
                Ok(Message::Request { id: read, method: name, params: Some(params) }) => {
                    prop_assert_eq!(read, Id::from(id));
                    prop_assert_eq!(name, method);
                    let params: serde_json::Value = serde_json::from_str(params.get()).unwrap();
                    prop_assert_eq!(params["code"].as_str(), Some(code.as_str()));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
