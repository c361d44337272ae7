//! One request with its redirects, from the check of its URL to the last byte of the answer.

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

/// Headers that belong to the connection and not to the caller: with them a request could be split in two, or go to
/// another host than the one that was checked.
const HEADERS_REFUSED: [&str; 9] = [
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

/// What is sent next.
struct Step {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Fetcher {
    pub(super) async fn fetch(&self, input: RequestInput) -> Result<ResponseOutput, ErrorObject> {
        let late =
            || ErrorObject::new(Kind::Timeout, format!("no answer within {} ms", self.timeout.as_millis()));
        tokio::time::timeout(self.timeout, self.follow(input)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn follow(&self, input: RequestInput) -> Result<ResponseOutput, ErrorObject> {
        let redirect = input.redirect;
        let mut step = self.first_step(input)?;
        let mut redirects = 0;
        loop {
            self.check(&step)?;
            let response = self.send(&step).await?;
            let next = match redirect {
                Redirect::Follow => redirected(&step, &response)?,
                Redirect::Manual => None,
            };
            let Some(next) = next else {
                return self.read(step.url, response).await;
            };
            redirects += 1;
            if redirects > self.redirects_max {
                let message = format!("more than {} redirects", self.redirects_max);
                return Err(ErrorObject::new(Kind::BindingError, message));
            }
            step = next;
        }
    }

    fn first_step(&self, input: RequestInput) -> Result<Step, ErrorObject> {
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
        Ok(Step { url, method, headers: headers(&input.headers)?, body })
    }

    fn check(&self, step: &Step) -> Result<(), ErrorObject> {
        if !self.methods.iter().any(|method| method == step.method.as_str()) {
            let message = format!("{} is not among the allowed methods", step.method);
            return Err(ErrorObject::new(Kind::PermissionDenied, message));
        }
        self.allowed.check(&step.url).map_err(|why| ErrorObject::new(Kind::PermissionDenied, why))
    }

    async fn send(&self, step: &Step) -> Result<Response, ErrorObject> {
        let mut request =
            self.client.request(step.method.clone(), step.url.clone()).headers(step.headers.clone());
        if let Some(body) = &step.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(failed)
    }

    async fn read(&self, url: Url, mut response: Response) -> Result<ResponseOutput, ErrorObject> {
        let status = response.status().as_u16();
        let headers = readable(response.headers());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > self.body_bytes_max {
                let message = format!("the answer is longer than {} bytes", self.body_bytes_max);
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

fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, ErrorObject> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = |why: &str| invalid("/headers", &format!("`{name}` {why}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("is no header"))?;
        if HEADERS_REFUSED.contains(&name.as_str()) {
            return Err(bad("cannot be set"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| bad("has a value that no header can have"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Several headers of one name become one, as the standard allows; bytes beyond ASCII are shown as they can be.
fn readable(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut readable = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        readable
            .entry(name.as_str().to_owned())
            .and_modify(|earlier| {
                earlier.push_str(", ");
                earlier.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    readable
}

/// The request that a redirect asks for; `None` if it is none.
fn redirected(step: &Step, response: &Response) -> Result<Option<Step>, ErrorObject> {
    let keeps_method = match response.status() {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => step.method != Method::POST,
        StatusCode::SEE_OTHER => step.method == Method::GET || step.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return Ok(None),
    };
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let unusable = || ErrorObject::new(Kind::BindingError, "the redirect leads to something that is no URL");
    let location = location.to_str().map_err(|_| unusable())?;
    let url = step.url.join(location).map_err(|_| unusable())?;
    let mut headers = step.headers.clone();
    if url.origin() != step.url.origin() {
        headers.remove(AUTHORIZATION);
        headers.remove(COOKIE);
    }
    let (method, body) = if keeps_method {
        (step.method.clone(), step.body.clone())
    } else {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        (Method::GET, None)
    };
    Ok(Some(Step { url, method, headers, body }))
}

fn invalid(path: &str, message: &str) -> ErrorObject {
    let errors = serde_json::json!([{"path": path, "message": message}]);
    ErrorObject::new(Kind::InvalidInput, format!("http.request: input{path}: {message}"))
        .with("errors", errors)
}

/// The innermost cause says what happened; those around it say only that something did.
fn failed(error: reqwest::Error) -> ErrorObject {
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
