//! Responses: what a successful one looks like, and a response as a value or an error.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::super::http::fetch::FetchedResponse;
use super::super::http::request::join_headers;
use super::config::ResponseForm;
use super::document::{Document, brief};
use super::media::{self, MediaKind};
use super::operations::Operation;
use super::schemas::{Translator, bytes_schema};
use crate::binding::BindingError;
use crate::package::Secrets;
use crate::protocol::plain::from_plain;
use crate::rpc::{ErrorObject, Kind};

/// Bytes of a failed response that an error keeps. A reason fits; a page of HTML need not.
pub(super) const ERROR_BODY_BYTES_MAX: usize = 4 << 10;

/// Bytes of it in the message, which people read.
const ERROR_MESSAGE_BYTES_MAX: usize = 400;

/// The code of an error is the status, whose kind is this.
const HTTP_ERROR: &str = "HttpError";

/// What successful responses are, and which media types are asked for.
#[derive(Debug, Default)]
pub(super) struct MappedResponses {
    /// Absent: any value.
    pub(super) schema: Option<Value>,
    pub(super) accept: Vec<String>,
}

/// Maps the responses with a status of 2xx.
pub(super) fn map(
    document: &Document,
    operation: &Operation<'_>,
    translator: &mut Translator<'_>,
) -> Result<MappedResponses, String> {
    let mut mapped = MappedResponses::default();
    let mut alternatives: Vec<Value> = Vec::new();
    let mut is_any = false;
    let stated = operation.value.get("responses").and_then(Value::as_object);
    for (status, response) in stated.into_iter().flatten().filter(|(status, _)| is_success(status)) {
        let response =
            document.resolve(response).map_err(|reason| format!("responses/{}: {reason}", brief(status)))?;
        let content = response.get("content").and_then(Value::as_object);
        let best = content.into_iter().flatten().min_by_key(|(media_type, _)| media::kind(media_type));
        let schema = match best {
            None => Some(json!({"type": "null"})),
            Some((media_type, value)) => {
                mapped.accept.push(media_type.clone());
                success_schema(media_type, value, translator)
                    .map_err(|reason| format!("responses/{}: {reason}", brief(status)))?
            }
        };
        match schema {
            Some(schema) if !alternatives.contains(&schema) => alternatives.push(schema),
            Some(_) => {}
            None => is_any = true,
        }
    }
    mapped.accept.dedup();
    mapped.schema = match alternatives.len() {
        _ if is_any => None,
        0 => None,
        1 => alternatives.pop(),
        _ => Some(json!({"anyOf": alternatives})),
    };
    Ok(mapped)
}

fn success_schema(
    media_type: &str,
    value: &Value,
    translator: &mut Translator<'_>,
) -> Result<Option<Value>, String> {
    match media::kind(media_type) {
        MediaKind::Json => value.get("schema").map(|schema| translator.translate(schema)).transpose(),
        MediaKind::Text | MediaKind::Form => Ok(Some(json!({"type": "string"}))),
        MediaKind::Bytes | MediaKind::Multipart => Ok(Some(bytes_schema())),
    }
}

/// `200`, `2XX` and the like; `default` stands for errors where there is one of these, and for anything otherwise.
fn is_success(status: &str) -> bool {
    status.len() == 3 && status.starts_with('2')
}

/// The schema of a call's value.
pub(super) fn output(schema: Option<Value>, form: ResponseForm) -> Option<Value> {
    match form {
        ResponseForm::Body => schema,
        ResponseForm::Full => Some(json!({
            "type": "object",
            "properties": {
                "status": {"type": "integer"},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": schema.unwrap_or_else(|| json!({})),
            },
            "required": ["status", "headers", "body"],
        })),
    }
}

/// The value of a response, or its error. `place` is the operation, for messages.
pub(super) fn value_of(
    place: &str,
    response: FetchedResponse,
    form: ResponseForm,
    secrets: &Secrets,
) -> Result<Value, BindingError> {
    if !response.status.is_success() {
        return Err(error_of(place, &response, secrets));
    }
    let mut value = body_of(&response).map_err(|reason| {
        BindingError::of_kind(Kind::InvalidOutput, secrets.redact(&format!("{place}: {reason}")))
    })?;
    if form == ResponseForm::Full {
        let headers = join_headers(&response.headers);
        value = json!({"status": response.status.as_u16(), "headers": headers, "body": value});
    }
    secrets.redact_value(&mut value);
    Ok(value)
}

fn body_of(response: &FetchedResponse) -> Result<Value, String> {
    let media_type = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let body = &response.body;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let text = || std::str::from_utf8(body).ok().map(Value::from);
    let bytes = || json!({"$bytes": BASE64.encode(body)});
    match media_type.map(media::kind) {
        Some(MediaKind::Json) => match serde_json::from_slice(body) {
            Ok(value) => Ok(from_plain(value)),
            Err(error) => Err(format!("the response is not JSON: {error}")),
        },
        Some(MediaKind::Text | MediaKind::Form) => Ok(text().unwrap_or_else(bytes)),
        Some(MediaKind::Bytes | MediaKind::Multipart) => Ok(bytes()),
        // Without a type it is what it looks like.
        None => Ok(serde_json::from_slice(body).map(from_plain).ok().or_else(text).unwrap_or_else(bytes)),
    }
}

/// The error of a response that is not a success: `e.code` is the status, `e.data.body` the beginning of the body.
fn error_of(place: &str, response: &FetchedResponse, secrets: &Secrets) -> BindingError {
    // Redacted before it is cut: half a secret would not be found.
    let text = secrets.redact(&String::from_utf8_lossy(&response.body));
    let cut = |bytes_max: usize| &text[..text.floor_char_boundary(bytes_max)];
    let status = response.status;
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let mut message = format!("{place}: {} {reason}", status.as_u16());
    if !text.trim().is_empty() {
        message.push_str(": ");
        message.push_str(cut(ERROR_MESSAGE_BYTES_MAX).trim());
    }
    let is_whole = text.len() <= ERROR_BODY_BYTES_MAX;
    let json = is_whole.then(|| serde_json::from_str(&text).ok()).flatten();
    let body = json.map_or_else(|| Value::from(cut(ERROR_BODY_BYTES_MAX)), from_plain);
    let code = i64::from(status.as_u16());
    let data = json!({"kind": HTTP_ERROR, "status": code, "body": body});
    BindingError::from(ErrorObject { code, message, data: Some(data) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;
    use reqwest::header::{HeaderMap, HeaderValue};

    fn response(status: u16, media_type: Option<&'static str>, body: &[u8]) -> FetchedResponse {
        let mut headers = HeaderMap::new();
        if let Some(media_type) = media_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        let url = "http://a.example/".parse().unwrap();
        FetchedResponse { status: StatusCode::from_u16(status).unwrap(), url, headers, body: body.to_vec() }
    }

    fn value(media_type: Option<&'static str>, body: &[u8]) -> Result<Value, BindingError> {
        value_of("GET /", response(200, media_type, body), ResponseForm::Body, &Secrets::default())
    }

    #[test]
    fn body_is_a_value_by_its_media_type() {
        for (media_type, body, expected) in [
            (Some("application/json"), &b"{\"$date\":1}"[..], json!({"$object": {"$date": 1}})),
            (Some("application/json"), b"", Value::Null),
            (Some("text/plain"), b"[1]", json!("[1]")),
            (Some("text/plain"), b"\xff", json!({"$bytes": "/w=="})),
            (Some("image/png"), b"hi", json!({"$bytes": "aGk="})),
            (None, b"[1]", json!([1])),
            (None, b"hi", json!("hi")),
        ] {
            assert_eq!(value(media_type, body).unwrap(), expected, "{media_type:?}");
        }
        let garbage = value(Some("application/json"), b"<html>").unwrap_err();
        assert_eq!(garbage.kind(), Some("InvalidOutput"));
        let deep = value(Some("application/json"), "[".repeat(100_000).as_bytes()).unwrap_err();
        assert_eq!(deep.kind(), Some("InvalidOutput"));
    }

    #[test]
    fn failed_status_is_an_error_with_the_body() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "s3cret-key");
        let failed = |body: &str| {
            let response = response(404, Some("application/json"), body.as_bytes());
            value_of("GET /pets/{id}", response, ResponseForm::Body, &secrets).unwrap_err().into_object()
        };
        let error = failed(r#"{"reason": "no s3cret-key"}"#);
        assert_eq!(error.message, r#"GET /pets/{id}: 404 Not Found: {"reason": "no ${KEY}"}"#);
        assert_eq!(error.code, 404);
        assert_eq!(
            error.data.unwrap(),
            json!({"kind": "HttpError", "status": 404, "body": {"reason": "no ${KEY}"}})
        );
        let long = failed(&"x".repeat(ERROR_BODY_BYTES_MAX + 1));
        assert_eq!(long.data.unwrap()["body"], json!("x".repeat(ERROR_BODY_BYTES_MAX)));
        assert!(long.message.len() < 2 * ERROR_MESSAGE_BYTES_MAX);
        assert_eq!(failed("").message, "GET /pets/{id}: 404 Not Found");
    }
}
