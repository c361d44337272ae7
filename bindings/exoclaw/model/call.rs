//! One call of a model over HTTP: the request, and the events of its answer as they arrive.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Client, Response};
use tokio::time::timeout;

use super::sse::SseReader;
use super::{AnswerError, AnswerReader, Piece, Prompt, Provider};
use crate::bindings::exoclaw::wire::Usage;

/// How much of the body of a failure is told: it is meant for people.
pub(crate) const FAILURE_BYTES_MAX: usize = 16 << 10;

/// Where a model is, and how long it may take.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: Provider,
    pub(crate) url: String,
    pub(crate) key: String,
    /// How long it may take to begin an answer.
    pub(crate) request_max: Duration,
    /// How long it may say nothing while it answers.
    pub(crate) idle_max: Duration,
}

/// What ends a call early. The text is what the client of the chat sees.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{status}: {body}")]
    Refused { status: reqwest::StatusCode, body: String },
    #[error("provider error: {}", told(.0))]
    Http(#[from] reqwest::Error),
    #[error("provider error: no answer within {} ms", .0.as_millis())]
    NoAnswer(Duration),
    #[error("provider error: the answer stalled for {} ms", .0.as_millis())]
    Stalled(Duration),
    #[error("provider error: {0}")]
    Answer(#[from] AnswerError),
}

/// The error without its URL, which is the operator's business; for a connection that was not made, with the reason.
fn told(error: &reqwest::Error) -> String {
    let what = if error.is_connect() {
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
    format!("{what}: {cause}")
}

/// An answer that arrives.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response,
    sse: SseReader,
    reader: AnswerReader,
    idle_max: Duration,
    /// What has arrived and was not taken yet.
    pieces: VecDeque<Piece>,
    end: Option<Result<(), AnswerError>>,
}

/// Asks a model.
pub(crate) async fn ask(
    client: &Client,
    endpoint: &Endpoint,
    prompt: &Prompt<'_>,
) -> Result<Answer, CallError> {
    let mut request = client.post(&endpoint.url).json(&endpoint.provider.request(prompt));
    for (name, value) in endpoint.provider.headers(&endpoint.key) {
        request = request.header(name, value);
    }
    let asked = timeout(endpoint.request_max, request.send()).await;
    let response = asked.map_err(|_| CallError::NoAnswer(endpoint.request_max))??;
    let status = response.status();
    if !status.is_success() {
        let body = timeout(endpoint.idle_max, failure_of(response)).await.unwrap_or_default();
        return Err(CallError::Refused { status, body });
    }
    Ok(Answer {
        response,
        sse: SseReader::default(),
        reader: endpoint.provider.reader(),
        idle_max: endpoint.idle_max,
        pieces: VecDeque::new(),
        end: None,
    })
}

async fn failure_of(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() < FAILURE_BYTES_MAX
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(FAILURE_BYTES_MAX);
    String::from_utf8_lossy(&body).into_owned()
}

impl Answer {
    /// The next piece; `None` when the answer is complete. What arrived before a failure comes before it.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, CallError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if let Some(end) = self.end.take() {
                self.end = Some(Ok(()));
                return Ok(end.map(|()| None)?);
            }
            match timeout(self.idle_max, self.response.chunk()).await {
                Err(_) => return Err(CallError::Stalled(self.idle_max)),
                Ok(Err(error)) => return Err(error.into()),
                Ok(Ok(None)) => self.end = Some(self.reader.on_end()),
                Ok(Ok(Some(bytes))) => {
                    if let Err(error) = self.take(&bytes) {
                        self.end = Some(Err(error));
                    }
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
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

    /// What the provider has reported so far.
    pub(crate) fn usage(&self) -> Usage {
        self.reader.usage()
    }
}
