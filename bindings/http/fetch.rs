//! Sends one request, follows its redirects, and reads the response, within limits of size and
//! time.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::allow::{AllowList, GuardedResolver};
use crate::rpc::{ErrorObject, Kind};

/// Default longest body of a request or a response.
const BODY_BYTES_DEFAULT: usize = 1 << 20;

/// Default timeout of a request with its redirects; below the timeout of the binding.
const TIMEOUT_MS_DEFAULT: u64 = 30_000;

/// Default number of redirects to follow. Browsers stop at 20; few sites need more than 3.
const REDIRECTS_DEFAULT: usize = 10;

/// Headers that callers cannot set. They control the connection: with them a request could be split
/// in two, or reach another host than the one that was checked.
pub(in crate::bindings) const HEADERS_RESERVED: [&str; 9] = [
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

/// The limits of requests, as configurations have them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::bindings) struct FetchLimits {
    pub(in crate::bindings) bytes_max: Option<usize>,
    pub(in crate::bindings) timeout_ms: Option<u64>,
    pub(in crate::bindings) redirects_max: Option<usize>,
}

/// A client for the hosts of a list.
pub(in crate::bindings) struct Fetcher {
    client: Client,
    allowed: AllowList,
    methods: Vec<String>,
    /// Headers that are credentials, beside `Authorization` and `Cookie`.
    credential_headers: Vec<HeaderName>,
    body_bytes_max: usize,
    timeout: Duration,
    redirects_max: usize,
    /// Connections are pooled, so they belong to the runtime that loads packages: the shards are
    /// busy with scripts, and a stuck shard is replaced.
    runtime: Handle,
}

/// The first request, or the one that a redirect leads to.
#[derive(Debug)]
pub(in crate::bindings) struct Request {
    pub(in crate::bindings) url: Url,
    pub(in crate::bindings) method: Method,
    pub(in crate::bindings) headers: HeaderMap,
    pub(in crate::bindings) body: Option<Vec<u8>>,
}

/// What to do with a redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::bindings) enum Redirect {
    #[default]
    Follow,
    Manual,
}

/// A complete response.
#[derive(Debug)]
pub(in crate::bindings) struct FetchedResponse {
    pub(in crate::bindings) status: StatusCode,
    /// After redirects.
    pub(in crate::bindings) url: Url,
    pub(in crate::bindings) headers: HeaderMap,
    pub(in crate::bindings) body: Vec<u8>,
}

impl Fetcher {
    /// A client for these hosts and methods. Must run inside the Tokio runtime that requests are to run on.
    pub(in crate::bindings) fn new(
        allowed: AllowList,
        methods: Vec<String>,
        credential_headers: Vec<HeaderName>,
        limits: FetchLimits,
    ) -> Result<Self, String> {
        // Fails if a provider is installed already, which is then the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(GuardedResolver(allowed.clone()))
            .user_agent(concat!("scomp-serve/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            allowed,
            methods,
            credential_headers,
            body_bytes_max: limits.bytes_max.unwrap_or(BODY_BYTES_DEFAULT),
            timeout: Duration::from_millis(limits.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)),
            redirects_max: limits.redirects_max.unwrap_or(REDIRECTS_DEFAULT),
            runtime: Handle::try_current().map_err(|error| error.to_string())?,
        })
    }

    /// The longest body of a request or a response.
    pub(in crate::bindings) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Sends a request on the client's runtime. It is given up when the future is dropped.
    pub(in crate::bindings) async fn fetch(
        self: &Arc<Self>,
        request: Request,
        redirect: Redirect,
    ) -> Result<FetchedResponse, ErrorObject> {
        let fetcher = Arc::clone(self);
        let task = self.runtime.spawn(async move {
            let timeout = fetcher.timeout;
            let timed_out =
                || ErrorObject::new(Kind::Timeout, format!("no response within {} ms", timeout.as_millis()));
            tokio::time::timeout(timeout, fetcher.follow_redirects(request, redirect))
                .await
                .unwrap_or_else(|_| Err(timed_out()))
        });
        let ended = |error: tokio::task::JoinError| ErrorObject::new(Kind::BindingError, error.to_string());
        AbortOnDropHandle::new(task).await.map_err(ended)?
    }

    async fn follow_redirects(
        &self,
        mut request: Request,
        redirect: Redirect,
    ) -> Result<FetchedResponse, ErrorObject> {
        let mut redirects = 0;
        loop {
            self.check(&request)?;
            let response = self.send(&request).await?;
            let next = match redirect {
                Redirect::Follow => self.next_request(&request, &response)?,
                Redirect::Manual => None,
            };
            let Some(next) = next else {
                return self.read_response(request.url, response).await;
            };
            redirects += 1;
            if redirects > self.redirects_max {
                let message = format!("more than {} redirects", self.redirects_max);
                return Err(ErrorObject::new(Kind::BindingError, message));
            }
            request = next;
        }
    }

    fn check(&self, request: &Request) -> Result<(), ErrorObject> {
        if !self.methods.iter().any(|method| method == request.method.as_str()) {
            let message = format!("{} is not among the allowed methods", request.method);
            return Err(ErrorObject::new(Kind::PermissionDenied, message));
        }
        self.allowed.check(&request.url).map_err(|reason| ErrorObject::new(Kind::PermissionDenied, reason))
    }

    async fn send(&self, request: &Request) -> Result<Response, ErrorObject> {
        let mut sent =
            self.client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        sent.send().await.map_err(to_error_object)
    }

    async fn read_response(&self, url: Url, mut response: Response) -> Result<FetchedResponse, ErrorObject> {
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(to_error_object)? {
            if body.len() + chunk.len() > self.body_bytes_max {
                let message = format!("response body exceeds {} bytes", self.body_bytes_max);
                return Err(ErrorObject::new(Kind::ResultTooLarge, message));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(FetchedResponse { status, url, headers, body })
    }

    /// The request that a redirect leads to; `None` if the response is not a redirect.
    fn next_request(&self, request: &Request, response: &Response) -> Result<Option<Request>, ErrorObject> {
        let keeps_method = match response.status() {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method != Method::POST,
            StatusCode::SEE_OTHER => request.method == Method::GET || request.method == Method::HEAD,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(LOCATION) else {
            return Ok(None);
        };
        let invalid_url =
            || ErrorObject::new(Kind::BindingError, "redirect: the location is not a valid URL");
        let location = location.to_str().map_err(|_| invalid_url())?;
        let url = request.url.join(location).map_err(|_| invalid_url())?;
        let mut headers = request.headers.clone();
        if url.origin() != request.url.origin() {
            for name in [AUTHORIZATION, COOKIE].iter().chain(&self.credential_headers) {
                headers.remove(name);
            }
        }
        let (method, body) = if keeps_method {
            (request.method.clone(), request.body.clone())
        } else {
            headers.remove(CONTENT_TYPE);
            headers.remove(CONTENT_LENGTH);
            (Method::GET, None)
        };
        Ok(Some(Request { url, method, headers, body }))
    }
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
