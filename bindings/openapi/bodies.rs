//! Bodies of requests: which of the media types is used, what the input has for it, and how a value is written.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oas3::spec::ParameterStyle;
use serde_json::{Value, json};

use super::document::{Document, brief};
use super::media::{self, MediaKind};
use super::operations::{Operation, read};
use super::parameters::ParamEncoding;
use super::schemas::{Translator, bytes_schema};
use super::styles;
use crate::protocol::plain::to_plain;

/// How the body of an operation is sent.
#[derive(Debug, Clone)]
pub(super) struct BodyPlan {
    media_type: String,
    kind: MediaKind,
    pub(super) is_required: bool,
    /// How members of a form are written, where the document says something about them.
    fields: BTreeMap<String, FieldEncoding>,
}

#[derive(Debug, Clone)]
struct FieldEncoding {
    style: ParamEncoding,
    content_type: Option<String>,
}

/// The body of an operation as its document has it.
pub(super) struct StatedBody<'a> {
    plan: BodyPlan,
    description: Option<&'a str>,
    schema: Option<&'a Value>,
}

impl<'a> StatedBody<'a> {
    /// Chooses one of the media types: JSON, then forms, then what is nearest to a value of a script.
    pub(super) fn read(document: &'a Document, operation: &Operation<'a>) -> Result<Option<Self>, String> {
        let Some(stated) = operation.value.get("requestBody") else { return Ok(None) };
        let body = document.resolve(stated)?;
        let Some(Value::Object(content)) = body.get("content") else {
            return Err("requestBody: expected an object in `content`".to_owned());
        };
        let ranked = content.iter().map(|(media_type, value)| (media::kind(media_type), media_type, value));
        let Some((kind, media_type, value)) = ranked.min_by_key(|(kind, ..)| *kind) else { return Ok(None) };
        let media_type = media::concrete(media_type, kind);
        if reqwest::header::HeaderValue::from_str(&media_type).is_err() {
            return Err(format!("requestBody: `{}` is not a media type", brief(&media_type)));
        }
        let fields = match value.get("encoding") {
            Some(Value::Object(fields)) if matches!(kind, MediaKind::Form | MediaKind::Multipart) => fields
                .iter()
                .map(|(name, value)| Ok((name.clone(), field_encoding(value)?)))
                .collect::<Result<_, String>>()?,
            _ => BTreeMap::new(),
        };
        let is_required = body.get("required") == Some(&Value::Bool(true));
        let plan = BodyPlan { media_type, kind, is_required, fields };
        let description = body.get("description").and_then(Value::as_str);
        Ok(Some(Self { plan, description, schema: value.get("schema") }))
    }

    /// The plan, and the schema of the member of the input.
    pub(super) fn map(self, translator: &mut Translator<'_>) -> Result<(BodyPlan, Value), String> {
        let mut schema = match (self.plan.kind, self.schema) {
            (MediaKind::Text, _) => json!({"type": "string"}),
            (MediaKind::Bytes, _) => json!({"anyOf": [bytes_schema(), {"type": "string"}]}),
            (MediaKind::Json, None) => json!({}),
            (MediaKind::Form | MediaKind::Multipart, None) => json!({"type": "object"}),
            (MediaKind::Json | MediaKind::Form | MediaKind::Multipart, Some(schema)) => {
                translator.takes_files = self.plan.kind != MediaKind::Json;
                translator.translate(schema).map_err(|reason| format!("requestBody: {reason}"))?
            }
        };
        if let (Some(text), Some(fields)) = (self.description, schema.as_object_mut()) {
            let text = &text[..text.floor_char_boundary(1024)];
            fields.entry("description").or_insert_with(|| text.into());
        }
        Ok((self.plan, schema))
    }
}

fn field_encoding(value: &Value) -> Result<FieldEncoding, String> {
    let spec: oas3::spec::Encoding =
        read(value, &["headers"]).map_err(|error| format!("encoding: {error}"))?;
    let style = match spec.style.as_deref() {
        Some("spaceDelimited") => ParameterStyle::SpaceDelimited,
        Some("pipeDelimited") => ParameterStyle::PipeDelimited,
        Some("deepObject") => ParameterStyle::DeepObject,
        Some(_) | None => ParameterStyle::Form,
    };
    let style = match spec.content_type.as_deref().is_some_and(media::is_json) {
        true => ParamEncoding::Json,
        false => ParamEncoding::of_style(style, spec.explode, spec.allow_reserved == Some(true)),
    };
    // One that can be sent: a document may have a list or a range here.
    let is_plain = |name: &&str| !name.contains('*') && reqwest::header::HeaderValue::from_str(name).is_ok();
    let content_type = spec.content_type.as_deref().and_then(|list| list.split(',').next());
    let content_type = content_type.map(str::trim).filter(is_plain).map(str::to_owned);
    Ok(FieldEncoding { style, content_type })
}

impl BodyPlan {
    /// The body and its `Content-Type`.
    pub(super) fn encode(&self, value: Value) -> Result<(Vec<u8>, String), String> {
        let plain = |value: Value| to_plain(value).map_err(|error| error.to_string());
        match self.kind {
            MediaKind::Json => Ok((plain(value)?.to_string().into_bytes(), self.media_type.clone())),
            MediaKind::Text => Ok((styles::text(&plain(value)?).into_bytes(), self.media_type.clone())),
            MediaKind::Bytes => Ok((raw_bytes(value)?, self.media_type.clone())),
            MediaKind::Form => Ok((self.form(&plain(value)?)?.into_bytes(), self.media_type.clone())),
            MediaKind::Multipart => self.multipart(value),
        }
    }

    fn form(&self, value: &Value) -> Result<String, String> {
        let Value::Object(fields) = value else { return Err("expected an object".to_owned()) };
        let mut pairs = Vec::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let default = ParamEncoding::of_style(ParameterStyle::Form, None, false);
            let encoding = self.fields.get(name).map_or(default, |field| field.style);
            // An exploded object would lose the name of its member.
            let encoding = match (encoding, value) {
                (ParamEncoding::Style { style: ParameterStyle::Form, .. }, Value::Object(_)) => {
                    ParamEncoding::Json
                }
                _ => encoding,
            };
            pairs.extend(styles::pairs(name, encoding, value)?);
        }
        Ok(pairs.join("&"))
    }

    fn multipart(&self, value: Value) -> Result<(Vec<u8>, String), String> {
        let Value::Object(fields) = value else { return Err("expected an object".to_owned()) };
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let mut body = Vec::new();
        for (name, value) in fields {
            let values = match value {
                Value::Array(items) => items,
                one => vec![one],
            };
            for value in values {
                let declared = self.fields.get(&name).and_then(|field| field.content_type.clone());
                let Some(part) = Part::read(value, declared).map_err(|error| format!("{name}: {error}"))?
                else {
                    continue;
                };
                part.write(&name, &boundary, &mut body);
            }
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Ok((body, format!("multipart/form-data; boundary={boundary}")))
    }
}

/// Bytes, or the bytes of a text.
fn raw_bytes(value: Value) -> Result<Vec<u8>, String> {
    match (&value, value.get("$bytes")) {
        (_, Some(Value::String(base64))) => BASE64.decode(base64).map_err(|error| error.to_string()),
        (Value::String(text), _) => Ok(text.clone().into_bytes()),
        _ => Err("expected bytes or a text".to_owned()),
    }
}

/// One part of a form.
struct Part {
    filename: Option<String>,
    content_type: Option<String>,
    data: Vec<u8>,
}

impl Part {
    /// A member of a form. `None` stands for null, which has no text.
    fn read(value: Value, declared: Option<String>) -> Result<Option<Self>, String> {
        let is_file = value.get("filename").is_some_and(Value::is_string) && value.get("data").is_some();
        if is_file {
            let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
            let content_type = field("contentType").or(declared);
            if content_type
                .as_deref()
                .is_some_and(|name| reqwest::header::HeaderValue::from_str(name).is_err())
            {
                return Err("contentType: expected a media type".to_owned());
            }
            let data = raw_bytes(value.get("data").cloned().unwrap_or_default())?;
            return Ok(Some(Self {
                filename: field("filename"),
                content_type: content_type.or_else(octets),
                data,
            }));
        }
        if value.get("$bytes").is_some() {
            let data = raw_bytes(value)?;
            return Ok(Some(Self {
                filename: Some("file".to_owned()),
                content_type: declared.or_else(octets),
                data,
            }));
        }
        let plain = to_plain(value).map_err(|error| error.to_string())?;
        let content_type = declared
            .or_else(|| (plain.is_object() || plain.is_array()).then(|| "application/json".to_owned()));
        let data = styles::text(&plain).into_bytes();
        Ok((!plain.is_null()).then_some(Self { filename: None, content_type, data }))
    }

    fn write(self, name: &str, boundary: &str, body: &mut Vec<u8>) {
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(name));
        if let Some(filename) = &self.filename {
            head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        if let Some(content_type) = &self.content_type {
            head.push_str(&format!("\r\nContent-Type: {content_type}"));
        }
        head.push_str("\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&self.data);
        body.extend_from_slice(b"\r\n");
    }
}

fn octets() -> Option<String> {
    Some("application/octet-stream".to_owned())
}

/// As browsers write names in a form.
fn quoted(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: MediaKind) -> BodyPlan {
        BodyPlan { media_type: "x/y".to_owned(), kind, is_required: true, fields: BTreeMap::new() }
    }

    fn encoded(kind: MediaKind, value: Value) -> Result<String, String> {
        plan(kind).encode(value).map(|(body, _)| String::from_utf8(body).unwrap())
    }

    #[test]
    fn bodies_are_written_by_kind() {
        assert_eq!(
            encoded(MediaKind::Json, json!({"a": {"$date": "2026-01-01"}})),
            Ok(r#"{"a":"2026-01-01"}"#.to_owned())
        );
        assert_eq!(encoded(MediaKind::Text, json!("a b")), Ok("a b".to_owned()));
        assert_eq!(encoded(MediaKind::Bytes, json!({"$bytes": "aGk="})), Ok("hi".to_owned()));
        let form = json!({"a": ["x y", 1], "b": {"c": 1}, "d": null, "e": true});
        assert_eq!(encoded(MediaKind::Form, form), Ok("a=x%20y&a=1&b=%7B%22c%22%3A1%7D&e=true".to_owned()));
        for (kind, value) in [
            (MediaKind::Json, json!({"a": {"$bytes": "aGk="}})),
            (MediaKind::Bytes, json!({"$bytes": "*"})),
            (MediaKind::Bytes, json!(5)),
            (MediaKind::Form, json!([1])),
            (MediaKind::Multipart, json!("a")),
            (MediaKind::Multipart, json!({"a": {"filename": "x", "data": "y", "contentType": "a\r\nb"}})),
        ] {
            assert!(encoded(kind, value.clone()).is_err(), "{value}");
        }
    }

    #[test]
    fn multipart_has_a_part_for_each_value() {
        let value = json!({
            "text": "a", "list": [1, {"b": 2}], "none": null, "raw": {"$bytes": "aGk="},
            "named": {"filename": "a\"b\r\n.txt", "data": "hello", "contentType": "text/plain"},
        });
        let (body, content_type) = plan(MediaKind::Multipart).encode(value).unwrap();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let body = String::from_utf8(body).unwrap().replace(boundary, "B");
        assert_eq!(
            body,
            "--B\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\na\r\n\
             --B\r\nContent-Disposition: form-data; name=\"list\"\r\n\r\n1\r\n\
             --B\r\nContent-Disposition: form-data; name=\"list\"\r\nContent-Type: application/json\r\n\r\n{\"b\":2}\r\n\
             --B\r\nContent-Disposition: form-data; name=\"raw\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\nhi\r\n\
             --B\r\nContent-Disposition: form-data; name=\"named\"; filename=\"a%22b%0D%0A.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n\
             --B--\r\n"
        );
    }
}
