//! Streamable HTTP with limits.
//!
//! The protocol library owns sessions, event streams and their resumption. What it sends its messages with is this
//! client: answers have a limit, no redirect is followed, because the headers of the operator are for the configured
//! server alone, and a server that cannot be reached ends the connection, so that calls fail immediately.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::package::CALLS_IN_FLIGHT_MAX;
use super::routes::Routes;
use super::stdio::{MESSAGE_BYTES_MAX, TREE_BYTES_MAX};
use crate::protocol::shape::Shape;

/// How long a TCP and TLS connection may take.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Longest body of a refusal that is read for its reason.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

const SESSION_HEADER: &str = "mcp-session-id";

type PostError = StreamableHttpError<reqwest::Error>;

/// The HTTP client of one connection.
#[derive(Clone)]
pub(super) struct BoundedClient {
    client: reqwest::Client,
    routes: Arc<Routes>,
}

/// The transport to a server.
pub(super) fn transport(
    url: &url::Url,
    headers: &BTreeMap<String, String>,
    routes: Arc<Routes>,
) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
    // Fails if a provider is installed already, which is then the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_WAIT_MAX)
        .user_agent(concat!("scomp-serve/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(header_map(headers)?)
        .max_concurrent_requests(CALLS_IN_FLIGHT_MAX)
        .max_sse_event_size(MESSAGE_BYTES_MAX);
    Ok(StreamableHttpClientTransport::with_client(BoundedClient { client, routes }, config))
}

fn header_map(headers: &BTreeMap<String, String>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut map = HashMap::new();
    for (name, value) in headers {
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("headers: invalid name `{name}`"))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| format!("headers: the value of `{name}` is invalid"))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}

impl BoundedClient {
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, PostError> {
        request.send().await.map_err(|error| {
            if error.is_connect() {
                self.routes.close("the server cannot be reached");
            }
            // Its URL may hold a secret.
            StreamableHttpError::Client(error.without_url())
        })
    }
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, PostError> {
        let mut request =
            self.client.post(uri.as_ref()).header(ACCEPT, "text/event-stream, application/json");
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        let has_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(SESSION_HEADER, session.as_ref());
        }
        let body = serde_json::to_vec(&message).map_err(|error| unexpected(error.to_string()))?;
        if body.len() > MESSAGE_BYTES_MAX {
            let message =
                format!("expected a message of at most {MESSAGE_BYTES_MAX} bytes, got {}", body.len());
            return Err(unexpected(message));
        }
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let response = self.send(request).await?;
        read_response(response, &message, has_session, &self.routes).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _: usize,
    ) -> Result<StreamableHttpPostResponse, PostError> {
        self.post_message(uri, message, session_id, auth_header, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), PostError> {
        let deleted = self.client.delete_session(uri, session_id, auth_header, custom_headers);
        deleted.await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, PostError> {
        let events = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MESSAGE_BYTES_MAX,
        );
        Ok(events.await.map_err(without_url)?.map(measured).boxed())
    }
}

fn without_url(error: PostError) -> PostError {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        other => other,
    }
}

async fn read_response(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
    routes: &Routes,
) -> Result<StreamableHttpPostResponse, PostError> {
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && has_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let (content_type, session) = (header(CONTENT_TYPE.as_str()).unwrap_or_default(), header(SESSION_HEADER));
    let request = match message {
        JsonRpcMessage::Request(request) => Some(request),
        JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
    };
    if !status.is_success() {
        let is_probe = request.is_some_and(|request| {
            !has_session && matches!(request.request, ClientRequest::DiscoverRequest(_))
        });
        let session = has_session.then_some(routes);
        return refusal(response, request.map(|request| &request.id), is_probe, session).await;
    }
    if content_type.starts_with("text/event-stream") {
        let events = SseStream::from_bytes_stream(bounded_events(response.bytes_stream(), MESSAGE_BYTES_MAX));
        return Ok(StreamableHttpPostResponse::Sse(events.map(measured).boxed(), session));
    }
    let body = read_body(response, MESSAGE_BYTES_MAX).await?;
    let text = std::str::from_utf8(&body).unwrap_or_default();
    if Shape::of(text).tree_bytes > TREE_BYTES_MAX {
        return Err(unexpected(format!("the answer takes more than {TREE_BYTES_MAX} bytes in memory")));
    }
    match serde_json::from_str(text) {
        Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
        // Nothing waits for the answer to a notification.
        Err(_) if request.is_none() => Ok(StreamableHttpPostResponse::Accepted),
        Err(_) => Err(unexpected(format!("the answer is not a message (content type `{content_type}`)"))),
    }
}

/// What a failed request means. Servers that do not know the probe for the newest revision refuse it in their own ways,
/// and all of them mean that the older handshake comes next. An error without the id of the request is no answer to it:
/// passed on, it would leave the call waiting.
async fn refusal(
    response: Response,
    request: Option<&RequestId>,
    is_probe: bool,
    session: Option<&Routes>,
) -> Result<StreamableHttpPostResponse, PostError> {
    let status = response.status();
    let is_about_access = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = read_body(response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let stated = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) if !is_about_access => Some(error),
        _ => None,
    };
    match (request, stated) {
        (Some(id), stated) if is_probe && status.is_client_error() && !is_about_access => {
            let error =
                stated.map_or_else(|| ErrorData::invalid_request("not known", None), |error| error.error);
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, Some(id.clone())), None))
        }
        (Some(id), Some(error)) if error.id.as_ref() == Some(id) => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error.error, error.id), None))
        }
        _ if status.is_redirection() => {
            Err(unexpected(format!("the server answered with a redirect ({status}), which is not followed")))
        }
        _ => {
            // A server that was restarted does not know the session; not all of them say so with 404.
            if let Some(routes) = session.filter(|_| status == StatusCode::BAD_REQUEST) {
                routes.close("the server refused the session");
            }
            Err(unexpected(format!("the server answered with {status}")))
        }
    }
}

async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, PostError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.without_url())? {
        if body.len() + chunk.len() > bytes_max {
            return Err(unexpected(format!("the answer is longer than {bytes_max} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn unexpected(message: String) -> PostError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(message))
}

#[derive(Debug, thiserror::Error)]
#[error("an event is longer than {0} bytes")]
struct EventTooLong(usize);

/// The bytes of an event stream, which fails at an event that is too long. Events end with an empty line.
fn bounded_events<B: AsRef<[u8]>, E: std::error::Error + Send + Sync + 'static>(
    bytes: impl Stream<Item = Result<B, E>>,
    event_bytes_max: usize,
) -> impl Stream<Item = std::io::Result<B>> {
    let (mut event_bytes, mut line_bytes) = (0_usize, 0_usize);
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        for byte in chunk.as_ref() {
            event_bytes += 1;
            match byte {
                b'\n' if line_bytes == 0 => event_bytes = 0,
                b'\n' => line_bytes = 0,
                b'\r' => {}
                _ => line_bytes += 1,
            }
            if event_bytes > event_bytes_max {
                return Err(std::io::Error::other(EventTooLong(event_bytes_max)));
            }
        }
        Ok(chunk)
    })
}

/// An event whose message would take too much memory is an error of its stream.
fn measured(event: Result<Sse, SseError>) -> Result<Sse, SseError> {
    let event = event?;
    let tree_bytes = event.data.as_deref().map_or(0, |data| Shape::of(data).tree_bytes);
    match tree_bytes > TREE_BYTES_MAX {
        true => Err(SseError::Body(EventTooLong(TREE_BYTES_MAX).into())),
        false => Ok(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn passes(chunks: &[&str], event_bytes_max: usize) -> bool {
        let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            chunks.iter().map(|chunk| Ok(chunk.as_bytes().to_vec())).collect();
        bounded_events(stream::iter(chunks), event_bytes_max).all(|chunk| async move { chunk.is_ok() }).await
    }

    #[tokio::test]
    async fn events_are_limited_one_by_one() {
        assert!(passes(&["data: 1\n\ndata: 2\n\n", "data: 3\r\n\r\n"], 12).await);
        assert!(passes(&["12345", "67890"], 10).await);
        assert!(!passes(&["12345", "678901"], 10).await);
        assert!(!passes(&["a\n", "b\n", "c\n"], 5).await);
    }

    #[test]
    fn invalid_headers_are_named_without_their_values() {
        let map = |name: &str, value: &str| header_map(&[(name.to_owned(), value.to_owned())].into());
        assert!(map("X-Key", "v").unwrap()[&HeaderName::from_static("x-key")].is_sensitive());
        assert_eq!(map("a b", "v").unwrap_err(), "headers: invalid name `a b`");
        assert_eq!(map("X-Key", "s3cret\n").unwrap_err(), "headers: the value of `X-Key` is invalid");
    }
}
