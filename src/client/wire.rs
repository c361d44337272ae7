//! A transport with an outbox: reads while it writes.
//!
//! If each side waited for its own writes before it read again, two full pipes would wait for each other for ever. So
//! texts go into a bounded outbox, and one poll both drains it and looks for the next text.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream};
use tokio::time::timeout;

use crate::transport::{BoxTransport, Frame, Outgoing, Text, TransportError, close_code};

/// Texts that wait to be written before nothing more is read or accepted.
/// A server that calls and never reads holds itself back; large enough that no honest one notices.
const OUTBOX_FRAMES_MAX: usize = 1024;
/// How long the goodbye may take.
/// Long enough for a slow network; afterwards the connection is dropped all the same.
const CLOSING_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why there is no next text.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// The server closed, or is gone.
    ByPeer { code: u16, reason: String },
    /// We have to close.
    ByUs { code: u16, reason: &'static str },
}

impl Ended {
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::ByPeer { code, .. } | Self::ByUs { code, .. } => *code,
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Self::ByPeer { reason, .. } => reason,
            Self::ByUs { reason, .. } => reason,
        }
    }
}

impl From<TransportError> for Ended {
    fn from(error: TransportError) -> Self {
        match error.close_code() {
            Some(code) => Self::ByUs { code, reason: "unreadable input" },
            None => Self::ByPeer { code: close_code::ABNORMAL, reason: error.to_string() },
        }
    }
}

pub(super) struct Wire {
    transport: BoxTransport,
    outbox: VecDeque<String>,
    flushed: bool,
}

impl Wire {
    pub(super) fn new(transport: BoxTransport) -> Self {
        Self { transport, outbox: VecDeque::new(), flushed: true }
    }

    /// Puts a text into the outbox; [`Self::next`] sends it.
    pub(super) fn push(&mut self, text: String) {
        self.outbox.push_back(text);
        self.flushed = false;
    }

    /// Whether more may be pushed.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() < OUTBOX_FRAMES_MAX
    }

    /// The next text; what was pushed goes out meanwhile. Nothing is lost if it is dropped unfinished.
    pub(super) async fn next(&mut self) -> Result<Text, Ended> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Text, Ended>> {
        let written = self.poll_write(cx);
        while self.has_room() {
            let Poll::Ready(frame) = Pin::new(&mut self.transport).poll_next(cx) else {
                break;
            };
            if let Some(next) = meaning(frame) {
                return Poll::Ready(next);
            }
        }
        // Last, because a server that closed makes writing fail too, and its close frame says why.
        match written {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let mut transport = Pin::new(&mut self.transport);
        while !self.outbox.is_empty() {
            ready!(transport.as_mut().poll_ready(cx))?;
            if let Some(text) = self.outbox.pop_front() {
                transport.as_mut().start_send(Outgoing::Text(text))?;
            }
        }
        if !self.flushed {
            ready!(transport.poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Says goodbye as the end demands, and waits a little for the server's.
    pub(super) async fn close(mut self, ended: &Ended) {
        let goodbye = async {
            match ended {
                Ended::ByPeer { .. } => self.transport.flush().await,
                Ended::ByUs { code, reason } => {
                    poll_fn(|cx| self.poll_write(cx)).await?;
                    let close = Outgoing::Close { code: *code, reason: (*reason).to_owned() };
                    self.transport.send(close).await?;
                    poll_fn(|cx| poll_end(&mut self.transport, cx)).await;
                    Ok(())
                }
            }
        };
        // Whether it succeeds makes no difference: the transport is dropped either way.
        let _ = timeout(CLOSING_WAIT_MAX, goodbye).await;
    }
}

/// What a frame means: the next text, the end, or (`None`) nothing.
fn meaning(frame: Option<Result<Frame, TransportError>>) -> Option<Result<Text, Ended>> {
    let by_us = |code, reason| Some(Err(Ended::ByUs { code, reason }));
    match frame {
        Some(Ok(Frame::Text(text))) => Some(Ok(text)),
        Some(Ok(Frame::Alive)) => None,
        Some(Ok(Frame::Binary(_))) => by_us(close_code::UNSUPPORTED, "binary frame"),
        Some(Ok(Frame::TooLong)) => by_us(close_code::TOO_LONG, "message too long"),
        Some(Ok(Frame::Closed { code, reason })) => Some(Err(Ended::ByPeer { code, reason })),
        Some(Err(error)) => Some(Err(error.into())),
        None => Some(Err(Ended::ByPeer { code: close_code::ABNORMAL, reason: String::new() })),
    }
}

/// Reads and forgets until the server is gone.
fn poll_end(transport: &mut BoxTransport, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        match ready!(Pin::new(&mut *transport).poll_next(cx)) {
            Some(Ok(Frame::Closed { .. }) | Err(_)) | None => return Poll::Ready(()),
            Some(Ok(Frame::Text(_) | Frame::Binary(_) | Frame::TooLong | Frame::Alive)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_no_text_close_with_the_code_that_says_why() {
        for (frame, expected) in [(Frame::Binary(b"{}".as_slice().into()), 1003), (Frame::TooLong, 1009)] {
            let Some(Err(ended)) = meaning(Some(Ok(frame))) else {
                panic!("expected an end with {expected}");
            };
            assert!(matches!(ended, Ended::ByUs { code, .. } if code == expected));
        }
        assert!(matches!(Ended::from(TransportError::NotUtf8), Ended::ByUs { code: 1007, .. }));
        assert!(meaning(Some(Ok(Frame::Alive))).is_none());
    }
}
