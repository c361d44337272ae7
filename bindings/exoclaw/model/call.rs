//! One model call over HTTP: sends the request, and reads the answer as it streams.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Client, Response};
use tokio::time::timeout;

use super::sse::SseReader;
use super::{AnswerError, AnswerReader, Piece, Prompt, Provider};
use crate::bindings::exoclaw::wire::Usage;

/// Most bytes of an error response's body that are passed on to the client.
pub(crate) const ERROR_BODY_BYTES_MAX: usize = 16 << 10;

/// Where a model is reached, and its timeouts.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: Provider,
    pub(crate) url: String,
    pub(crate) key: String,
    /// Longest wait for the start of an answer.
    pub(crate) request_timeout: Duration,
    /// Longest pause within an answer.
    pub(crate) idle_timeout: Duration,
}

/// Why a call failed. The client of the chat gets the text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{status}: {body}")]
    ErrorStatus { status: reqwest::StatusCode, body: String },
    #[error("provider error: {}", describe_http_error(.0))]
    Http(#[from] reqwest::Error),
    #[error("provider error: no answer within {} ms", .0.as_millis())]
    RequestTimeout(Duration),
    #[error("provider error: the answer stalled for {} ms", .0.as_millis())]
    IdleTimeout(Duration),
    #[error("provider error: {0}")]
    Answer(#[from] AnswerError),
}

/// Describes the innermost cause, without the URL, which only the operator should see.
fn describe_http_error(error: &reqwest::Error) -> String {
    let summary = if error.is_connect() {
        "error sending request".to_owned()
    } else if error.is_decode() || error.is_body() {
        return "error decoding response body".to_owned();
    } else {
        "the request failed".to_owned()
    };
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("{summary}: {cause}")
}

/// The answer of a model while it arrives.
#[derive(Debug)]
pub(crate) struct AnswerStream {
    response: Response,
    sse: SseReader,
    reader: AnswerReader,
    idle_timeout: Duration,
    /// Pieces that have arrived but were not returned yet.
    pieces: VecDeque<Piece>,
    end: Option<Result<(), AnswerError>>,
}

/// Sends the prompt and waits for the start of the answer.
pub(crate) async fn call_model(
    client: &Client,
    endpoint: &Endpoint,
    prompt: &Prompt<'_>,
) -> Result<AnswerStream, CallError> {
    let mut request = client.post(&endpoint.url).json(&endpoint.provider.encode_request(prompt));
    for (name, value) in endpoint.provider.headers(&endpoint.key) {
        request = request.header(name, value);
    }
    let sent = timeout(endpoint.request_timeout, request.send()).await;
    let response = sent.map_err(|_| CallError::RequestTimeout(endpoint.request_timeout))??;
    let status = response.status();
    if !status.is_success() {
        let body = timeout(endpoint.idle_timeout, read_error_body(response)).await.unwrap_or_default();
        return Err(CallError::ErrorStatus { status, body });
    }
    Ok(AnswerStream {
        response,
        sse: SseReader::default(),
        reader: endpoint.provider.new_reader(),
        idle_timeout: endpoint.idle_timeout,
        pieces: VecDeque::new(),
        end: None,
    })
}

async fn read_error_body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() < ERROR_BODY_BYTES_MAX
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(ERROR_BODY_BYTES_MAX);
    String::from_utf8_lossy(&body).into_owned()
}

impl AnswerStream {
    /// Returns the next piece; `None` when the answer is complete. Pieces that arrived before an
    /// error are returned before it.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, CallError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if let Some(end) = self.end.take() {
                self.end = Some(Ok(()));
                return Ok(end.map(|()| None)?);
            }
            match timeout(self.idle_timeout, self.response.chunk()).await {
                Err(_) => return Err(CallError::IdleTimeout(self.idle_timeout)),
                Ok(Err(error)) => return Err(error.into()),
                Ok(Ok(None)) => self.end = Some(self.reader.on_end()),
                Ok(Ok(Some(bytes))) => {
                    if let Err(error) = self.feed(&bytes) {
                        self.end = Some(Err(error));
                    }
                }
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
        for event in self.sse.feed(bytes)? {
            for piece in self.reader.on_event(&event)? {
                if piece == Piece::End {
                    self.end = Some(Ok(()));
                    return Ok(());
                }
                self.pieces.push_back(piece);
            }
        }
        Ok(())
    }

    /// The usage that the provider has reported so far.
    pub(crate) fn usage(&self) -> Usage {
        self.reader.usage()
    }
}
