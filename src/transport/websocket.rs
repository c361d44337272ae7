//! WebSocket over any byte stream, and how the client dials one.
//!
//! Pings are answered by the protocol library at the next read or flush; here they only show that the peer is alive.
//! After a message past the limit the rest of the input is read and thrown away: closing a socket that still has
//! unread bytes resets it, and the peer would see the reset instead of our close frame.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::error::{
    CapacityError, Error, ProtocolError, SubProtocolError, UrlError,
};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::{Frame, Outgoing, TransportError, close_code, cut_reason};
use crate::budget::ConnectionBudget;

/// The WebSocket subprotocol; a server may ignore it.
pub const SUBPROTOCOL: &str = "scomp.v0";

/// First size of the read buffer, which grows with a message.
/// It is held by every connection, idle ones too.
pub(super) const READ_BUFFER_BYTES: usize = 4 << 10;
/// Output collected before it is written without being flushed, so that several answers take one system call.
pub(super) const WRITE_BUFFER_BYTES: usize = 64 << 10;
/// Room for pongs, close frames and frame headers beyond a full buffer and the longest message.
const CONTROL_BYTES: usize = 4 << 10;
/// Input thrown away after a message that was too long.
/// A peer that sends even more learns of it by the reset.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// Input thrown away at one go, before other tasks have a turn.
const DISCARDED_BYTES_PER_POLL_MAX: usize = 256 << 10;

/// How long messages may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageSizes {
    /// Longest that is read.
    pub read_bytes_max: usize,
    /// Longest that can be sent.
    pub sent_bytes_max: usize,
}

impl MessageSizes {
    /// The same in both directions.
    pub fn both(bytes_max: usize) -> Self {
        Self { read_bytes_max: bytes_max, sent_bytes_max: bytes_max }
    }
}

/// Explicit limits for messages of these sizes.
pub fn config(sizes: MessageSizes) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES + sizes.sent_bytes_max + CONTROL_BYTES)
        .max_message_size(Some(sizes.read_bytes_max))
        .max_frame_size(Some(sizes.read_bytes_max))
}

/// A WebSocket as a transport.
pub struct WebSocket<S> {
    stream: WebSocketStream<S>,
    reading: Reading,
    /// Notified where messages end.
    budget: Option<Arc<ConnectionBudget>>,
}

enum Reading {
    Frames,
    Discarding { left: usize },
    Ended,
}

/// A WebSocket that the client dialled.
pub type WebSocketClient = WebSocket<MaybeTlsStream<TcpStream>>;

/// Where to dial, and what to send with the upgrade.
#[derive(Debug, Clone, Default)]
pub struct Dial {
    /// `ws://` or `wss://`, also written `http://` and `https://`.
    pub url: String,
    /// The subprotocol to offer; a server need not know it.
    pub subprotocol: Option<String>,
    /// A bearer token.
    pub token: Option<String>,
    /// Longest message that is read.
    pub message_bytes_max: usize,
}

/// Dials.
pub async fn dial(to: &Dial) -> Result<WebSocketClient, TransportError> {
    match upgrade(to, to.subprotocol.as_deref()).await {
        // A server need not know subprotocols, but the library takes the missing echo for a failure.
        Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(
            SubProtocolError::NoSubProtocol,
        ))) => upgrade(to, None).await,
        dialled => dialled,
    }
    .map(WebSocket::new)
    .map_err(|error| dial_error(&to.url, error))
}

async fn upgrade(
    to: &Dial,
    subprotocol: Option<&str>,
) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, Error> {
    let url = match to.url.split_once("://") {
        Some(("ws" | "http", rest)) => format!("ws://{rest}"),
        Some(("wss" | "https", rest)) => format!("wss://{rest}"),
        Some(_) | None => return Err(Error::Url(UrlError::UnsupportedUrlScheme)),
    };
    let mut request = ClientRequestBuilder::new(url.parse()?);
    if let Some(token) = &to.token {
        request = request.with_header("Authorization", format!("Bearer {token}"));
    }
    if let Some(subprotocol) = subprotocol {
        request = request.with_sub_protocol(subprotocol);
    }
    let (no_delay, config) = (true, config(MessageSizes::both(to.message_bytes_max)));
    let (stream, _) = connect_async_with_config(request, Some(config), no_delay).await?;
    Ok(stream)
}

fn dial_error(url: &str, error: Error) -> TransportError {
    match error {
        Error::Http(response) => TransportError::Refused { status: response.status().as_u16() },
        other => TransportError::Unreachable { url: url.to_owned(), message: other.to_string() },
    }
}

impl<S> WebSocket<S> {
    /// A WebSocket whose upgrade is done; its limits are those of [`config`].
    pub fn new(stream: WebSocketStream<S>) -> Self {
        Self { stream, reading: Reading::Frames, budget: None }
    }

    /// Reports the ends of messages to the budget of a [`Metered`](super::Metered) stream.
    #[must_use]
    pub(crate) fn with_budget(mut self, budget: Arc<ConnectionBudget>) -> Self {
        self.budget = Some(budget);
        self
    }

    fn end_partial(&self) {
        if let Some(budget) = &self.budget {
            budget.end_partial();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        while let Some(received) = ready!(Pin::new(&mut self.stream).poll_next(cx)) {
            match received.map(incoming) {
                Ok(Some(frame)) => {
                    // A ping may come between the parts of a message.
                    if matches!(frame, Frame::Text(_) | Frame::Binary(_)) {
                        self.end_partial();
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(self.end(error)),
            }
        }
        self.reading = Reading::Ended;
        Poll::Ready(None)
    }

    fn end(&mut self, error: Error) -> Option<Result<Frame, TransportError>> {
        self.end_partial();
        let last = incoming_error(error);
        self.reading = match last {
            Some(Ok(Frame::TooLong)) => Reading::Discarding { left: DISCARDED_BYTES_MAX },
            Some(_) | None => Reading::Ended,
        };
        last
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>, mut left: usize) -> Poll<()> {
        let pause_at = left.saturating_sub(DISCARDED_BYTES_PER_POLL_MAX);
        let mut waste = [0; READ_BUFFER_BYTES];
        while left > pause_at {
            let mut buffer = ReadBuf::new(&mut waste);
            self.reading = Reading::Discarding { left };
            let read = ready!(Pin::new(self.stream.get_mut()).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            left = left.saturating_sub(buffer.filled().len());
            // What is thrown away takes no room.
            self.end_partial();
        }
        if left == 0 {
            return Poll::Ready(());
        }
        self.reading = Reading::Discarding { left };
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What a message means to the driver. Raw frames are never read, only written.
fn incoming(message: Message) -> Option<Frame> {
    match message {
        Message::Text(text) => Some(Frame::Text(text.into())),
        Message::Binary(bytes) => Some(Frame::Binary(bytes)),
        Message::Ping(_) | Message::Pong(_) => Some(Frame::Alive),
        Message::Close(Some(CloseFrame { code, reason })) => {
            Some(Frame::Closed { code: code.into(), reason: reason.to_string() })
        }
        Message::Close(None) => Some(Frame::Closed { code: close_code::NO_STATUS, reason: String::new() }),
        Message::Frame(_) => None,
    }
}

/// What a failed read means: a frame that was too long, an error, or (`None`) a broken connection.
pub(super) fn incoming_error(error: Error) -> Option<Result<Frame, TransportError>> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Some(Ok(Frame::TooLong)),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        other => Some(Err(transport_error(other))),
    }
}

pub(super) fn transport_error(error: Error) -> TransportError {
    match error {
        Error::Io(error) => TransportError::Io(error),
        Error::Utf8(_) => TransportError::NotUtf8,
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::SendAfterClosing | ProtocolError::ResetWithoutClosingHandshake) => {
            TransportError::Closed
        }
        other => TransportError::Violation(other.to_string()),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for WebSocket<S> {
    type Item = Result<Frame, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.reading {
            Reading::Frames => self.poll_frame(cx),
            Reading::Discarding { left } => {
                ready!(self.poll_discard(cx, left));
                self.reading = Reading::Ended;
                Poll::Ready(None)
            }
            Reading::Ended => Poll::Ready(None),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Outgoing> for WebSocket<S> {
    type Error = TransportError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Pin::new(&mut self.stream).poll_ready(cx).map_err(transport_error)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Outgoing) -> Result<(), TransportError> {
        let message = match item {
            Outgoing::Text(text) => Message::Text(text.into()),
            Outgoing::Ping => Message::Ping(Default::default()),
            Outgoing::Close { code, reason } => {
                Message::Close(Some(CloseFrame { code: code.into(), reason: cut_reason(reason).into() }))
            }
        };
        Pin::new(&mut self.stream).start_send(message).map_err(transport_error)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Pin::new(&mut self.stream).poll_flush(cx).map_err(transport_error)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Pin::new(&mut self.stream).poll_close(cx).map_err(transport_error)
    }
}

#[cfg(test)]
mod tests;
