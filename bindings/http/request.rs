//! The input of `http.request` as a request, and its response as the output.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use super::fetch::{FetchedResponse, HEADERS_RESERVED, Redirect, Request};
use crate::rpc::{ErrorObject, Kind};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BodyEncoding {
    #[default]
    Text,
    Base64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestInput {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    #[serde(default)]
    body_encoding: BodyEncoding,
    #[serde(default)]
    pub(super) redirect: Redirect,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseOutput {
    status: u16,
    url: String,
    headers: BTreeMap<String, String>,
    body: String,
    body_encoding: BodyEncoding,
}

impl RequestInput {
    /// The request, whose body may have `body_bytes_max` bytes.
    pub(super) fn into_request(self, body_bytes_max: usize) -> Result<Request, ErrorObject> {
        let url = Url::parse(&self.url).map_err(|error| invalid("/url", &error.to_string()))?;
        let method = self.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|error| invalid("/method", &error.to_string()))?;
        let body = match (self.body, self.body_encoding) {
            (None, _) => None,
            (Some(text), BodyEncoding::Text) => Some(text.into_bytes()),
            (Some(text), BodyEncoding::Base64) => {
                Some(BASE64.decode(text).map_err(|error| invalid("/body", &error.to_string()))?)
            }
        };
        if body.as_ref().is_some_and(|body| body.len() > body_bytes_max) {
            return Err(invalid("/body", &format!("expected at most {body_bytes_max} bytes")));
        }
        Ok(Request { url, method, headers: parse_headers(&self.headers)?, body })
    }
}

impl From<FetchedResponse> for ResponseOutput {
    fn from(response: FetchedResponse) -> Self {
        let (body, body_encoding) = match String::from_utf8(response.body) {
            Ok(text) => (text, BodyEncoding::Text),
            Err(bytes) => (BASE64.encode(bytes.as_bytes()), BodyEncoding::Base64),
        };
        Self {
            status: response.status.as_u16(),
            url: response.url.into(),
            headers: join_headers(&response.headers),
            body,
            body_encoding,
        }
    }
}

fn parse_headers(input: &BTreeMap<String, String>) -> Result<HeaderMap, ErrorObject> {
    let mut headers = HeaderMap::new();
    for (name, value) in input {
        let error = |reason: &str| invalid("/headers", &format!("`{name}` {reason}"));
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| error("is not a valid header name"))?;
        if HEADERS_RESERVED.contains(&name.as_str()) {
            return Err(error("cannot be set"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| error("has an invalid value"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Joins headers of the same name with commas, as HTTP allows. Bytes that are not UTF-8 are
/// replaced.
pub(in crate::bindings) fn join_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        joined
            .entry(name.as_str().to_owned())
            .and_modify(|earlier| {
                earlier.push_str(", ");
                earlier.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    joined
}

fn invalid(path: &str, message: &str) -> ErrorObject {
    let errors = serde_json::json!([{"path": path, "message": message}]);
    ErrorObject::new(Kind::InvalidInput, format!("http.request: input{path}: {message}"))
        .with("errors", errors)
}
