//! Sends one request, follows its redirects, and reads the response, within limits of size and
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;

use super::allow::AllowList;
use super::{BodyEncoding, Redirect, RequestInput, ResponseOutput};
use crate::rpc::{ErrorObject, Kind};

/// Headers that callers cannot set. They control the connection: with them a request could be split
/// in two, or reach another host than the one that was checked.
const HEADERS_RESERVED: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "proxy-authorization",
];

pub(super) struct Fetcher {
    pub(super) client: Client,
    pub(super) allowed: AllowList,
    pub(super) methods: Vec<String>,
    pub(super) body_bytes_max: usize,
    pub(super) timeout: Duration,
    pub(super) redirects_max: usize,
}

/// The first request, or the one that a redirect leads to.
struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Fetcher {
    pub(super) async fn fetch(&self, input: RequestInput) -> Result<ResponseOutput, ErrorObject> {
        let timed_out =
            || ErrorObject::new(Kind::Timeout, format!("no response within {} ms", self.timeout.as_millis()));
        tokio::time::timeout(self.timeout, self.follow_redirects(input))
            .await
            .unwrap_or_else(|_| Err(timed_out()))
    }

    async fn follow_redirects(&self, input: RequestInput) -> Result<ResponseOutput, ErrorObject> {
        let redirect = input.redirect;
        let mut hop = self.first_hop(input)?;
        let mut redirects = 0;
        loop {
            self.check(&hop)?;
            let response = self.send(&hop).await?;
            let next = match redirect {
                Redirect::Follow => next_hop(&hop, &response)?,
                Redirect::Manual => None,
            };
            let Some(next) = next else {
                return self.read_response(hop.url, response).await;
            };
            redirects += 1;
            if redirects > self.redirects_max {
                let message = format!("more than {} redirects", self.redirects_max);
                return Err(ErrorObject::new(Kind::BindingError, message));
            }
            hop = next;
        }
    }

    fn first_hop(&self, input: RequestInput) -> Result<Hop, ErrorObject> {
        let url = Url::parse(&input.url).map_err(|error| invalid("/url", &error.to_string()))?;
        let method = input.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|error| invalid("/method", &error.to_string()))?;
        let body = match (input.body, input.body_encoding) {
            (None, _) => None,
            (Some(text), BodyEncoding::Text) => Some(text.into_bytes()),
            (Some(text), BodyEncoding::Base64) => {
                Some(BASE64.decode(text).map_err(|error| invalid("/body", &error.to_string()))?)
            }
        };
        if body.as_ref().is_some_and(|body| body.len() > self.body_bytes_max) {
            return Err(invalid("/body", &format!("expected at most {} bytes", self.body_bytes_max)));
        }
        Ok(Hop { url, method, headers: parse_headers(&input.headers)?, body })
    }

    fn check(&self, hop: &Hop) -> Result<(), ErrorObject> {
        if !self.methods.iter().any(|method| method == hop.method.as_str()) {
            let message = format!("{} is not among the allowed methods", hop.method);
            return Err(ErrorObject::new(Kind::PermissionDenied, message));
        }
        self.allowed.check(&hop.url).map_err(|reason| ErrorObject::new(Kind::PermissionDenied, reason))
    }

    async fn send(&self, hop: &Hop) -> Result<Response, ErrorObject> {
        let mut request =
            self.client.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(to_error_object)
    }

    async fn read_response(&self, url: Url, mut response: Response) -> Result<ResponseOutput, ErrorObject> {
        let status = response.status().as_u16();
        let headers = join_headers(response.headers());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(to_error_object)? {
            if bytes.len() + chunk.len() > self.body_bytes_max {
                let message = format!("response body exceeds {} bytes", self.body_bytes_max);
                return Err(ErrorObject::new(Kind::ResultTooLarge, message));
            }
            bytes.extend_from_slice(&chunk);
        }
        let (body, body_encoding) = match String::from_utf8(bytes) {
            Ok(text) => (text, BodyEncoding::Text),
            Err(bytes) => (BASE64.encode(bytes.as_bytes()), BodyEncoding::Base64),
        };
        Ok(ResponseOutput { status, url: url.into(), headers, body, body_encoding })
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
fn join_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
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

/// The request that a redirect leads to; `None` if the response is not a redirect.
fn next_hop(hop: &Hop, response: &Response) -> Result<Option<Hop>, ErrorObject> {
    let keeps_method = match response.status() {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => hop.method != Method::POST,
        StatusCode::SEE_OTHER => hop.method == Method::GET || hop.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return Ok(None),
    };
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let invalid_url = || ErrorObject::new(Kind::BindingError, "redirect: the location is not a valid URL");
    let location = location.to_str().map_err(|_| invalid_url())?;
    let url = hop.url.join(location).map_err(|_| invalid_url())?;
    let mut headers = hop.headers.clone();
    if url.origin() != hop.url.origin() {
        headers.remove(AUTHORIZATION);
        headers.remove(COOKIE);
    }
    let (method, body) = if keeps_method {
        (hop.method.clone(), hop.body.clone())
    } else {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        (Method::GET, None)
    };
    Ok(Some(Hop { url, method, headers, body }))
}

fn invalid(path: &str, message: &str) -> ErrorObject {
    let errors = serde_json::json!([{"path": path, "message": message}]);
    ErrorObject::new(Kind::InvalidInput, format!("http.request: input{path}: {message}"))
        .with("errors", errors)
}

/// Takes the message of the innermost cause: the outer ones say only that a request failed.
fn to_error_object(error: reqwest::Error) -> ErrorObject {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let kind = if error.is_connect() && cause.to_string().ends_with("not a public address") {
        Kind::PermissionDenied
    } else {
        Kind::BindingError
    };
    ErrorObject::new(kind, cause.to_string())
}
