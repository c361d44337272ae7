//! Text frames in, text frames out: WebSocket, lines over stdio, and a pair inside the process; and the driver that
//! serves a connection over any of them.
//!
//! The only place that names a socket. Each transport is a `Stream` of [`Frame`] and a `Sink` of [`Outgoing`], so a
//! driver is written once, can feed several frames before it flushes, and can be tested over [`pair()`]. A transport
//! reports what came in and judges nothing: which close code answers a frame is the driver's decision.

mod driver;
mod metered;
mod pair;
mod stdio;
mod text;
mod websocket;

use std::io;

use futures_util::{Sink, Stream};
use tokio_tungstenite::tungstenite::Bytes;

pub use driver::Timeouts;
pub(crate) use driver::{
    Conversation, Disconnect, Driver, DriverSettings, InputEnd, Outbox, WRITE_STALL_MAX,
};
pub(crate) use metered::Metered;
pub use pair::{PairEnd, pair};
pub(crate) use stdio::{Lines, spawn, stdio};
pub use text::Text;
pub use websocket::{Dial, MessageSizes, SUBPROTOCOL, WebSocket, WebSocketClient, config, dial};

/// Close codes of RFC 6455, and those that this protocol adds.
pub mod close_code {
    /// The connection ended as intended.
    pub const NORMAL: u16 = 1000;
    /// The server or the client stops.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer broke the rules of WebSocket.
    pub const PROTOCOL: u16 = 1002;
    /// A binary frame, where only text is accepted.
    pub const UNSUPPORTED: u16 = 1003;
    /// The close frame of the peer had no code. Never sent.
    pub const NO_STATUS: u16 = 1005;
    /// The connection ended without a close frame. Never sent.
    pub const ABNORMAL: u16 = 1006;
    /// A text frame that is not UTF-8.
    pub const NOT_UTF8: u16 = 1007;
    /// The peer broke a rule that no other code names, such as a time limit.
    pub const POLICY: u16 = 1008;
    /// A message longer than is read.
    pub const TOO_LONG: u16 = 1009;
    /// A fault of this side.
    pub const INTERNAL: u16 = 1011;
    /// The peer reads too slowly, or the server has too much to do: a later connection may fare better.
    pub const TRY_AGAIN_LATER: u16 = 1013;
    /// Another connection resumed the session.
    pub const TAKEN_OVER: u16 = 4001;
}

/// A frame that was read.
#[derive(Debug)]
pub enum Frame {
    /// One message.
    Text(Text),
    /// A binary frame. Most protocols refuse it; some peers send their JSON in one.
    Binary(Bytes),
    /// A message longer than the limit. It was not kept, and nothing more is read after it.
    TooLong,
    /// A ping or a pong: no message, but the peer is alive.
    Alive,
    /// The peer closed. Only the end of the stream comes after it.
    Closed {
        /// Its close code; [`close_code::NO_STATUS`] if it gave none.
        code: u16,
        /// Its reason.
        reason: String,
    },
}

/// A frame to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// One message.
    Text(String),
    /// A ping, where the transport has such a thing.
    Ping,
    /// A close frame; nothing may be sent after it.
    Close {
        /// The close code.
        code: u16,
        /// The reason, at most [`CLOSE_REASON_BYTES_MAX`]; more is cut.
        reason: String,
    },
}

/// Longest reason of a close.
/// A control frame has 125 bytes, and two of them are the code.
pub const CLOSE_REASON_BYTES_MAX: usize = 123;

/// Why a transport cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The operating system reported an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A text frame was not UTF-8.
    #[error("a text frame is not UTF-8")]
    NotUtf8,
    /// The peer broke the rules of the transport.
    #[error("{0}")]
    Violation(String),
    /// The server refused the upgrade.
    #[error("the server refused the WebSocket with HTTP status {status}")]
    Refused {
        /// The status of its answer.
        status: u16,
    },
    /// The server cannot be reached, or the address is invalid.
    #[error("cannot connect to {url}: {message}")]
    Unreachable {
        /// As it was given.
        url: String,
        /// What went wrong.
        message: String,
    },
    /// Sending after the end.
    #[error("the connection is closed")]
    Closed,
}

impl TransportError {
    /// The code to close with; `None` when the connection is broken.
    pub fn close_code(&self) -> Option<u16> {
        match self {
            Self::NotUtf8 => Some(close_code::NOT_UTF8),
            Self::Violation(_) => Some(close_code::PROTOCOL),
            Self::Io(_) | Self::Refused { .. } | Self::Unreachable { .. } | Self::Closed => None,
        }
    }
}

/// A stream and a sink of frames. `None` from the stream means that the connection ended without a close frame.
pub trait Frames:
    Stream<Item = Result<Frame, TransportError>> + Sink<Outgoing, Error = TransportError> + Unpin
{
}

impl<T> Frames for T where
    T: Stream<Item = Result<Frame, TransportError>> + Sink<Outgoing, Error = TransportError> + Unpin
{
}

/// A connection that carries text frames both ways.
pub trait Transport: Frames + Send + 'static {}

impl<T: Frames + Send + 'static> Transport for T {}

/// Any transport.
pub type BoxTransport = Box<dyn Transport>;

/// A reason that fits into a close frame, cut between characters.
fn cut_reason(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX));
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reason_is_cut_between_characters() {
        let fits = "x".repeat(CLOSE_REASON_BYTES_MAX);
        assert_eq!(cut_reason(fits.clone()), fits);
        let two_bytes_each = "é".repeat(CLOSE_REASON_BYTES_MAX);
        assert_eq!(cut_reason(two_bytes_each), "é".repeat(CLOSE_REASON_BYTES_MAX / 2));
    }
}
