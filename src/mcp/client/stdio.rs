//! One MCP message a line, over the stdin and stdout of a process.
//!
//! Lines have a limit, and so has what they make of memory. A line that is no message is skipped, because programs print
//! banners; many in a row end the connection. A task of its own writes, so that no message is cut off by a caller that
//! stops waiting.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, Sink, sink};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::routes::Routes;
use crate::protocol::shape::Shape;
use crate::transport::{Frame, Lines};

/// Longest message both ways, the same as for clients. Past it: the connection ends.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What a message may take as a tree. A text of brackets takes fifty times its length.
/// Past it: the connection ends.
pub(super) const TREE_BYTES_MAX: usize = 256 << 20;

/// Lines in a row that are not messages. Enough for a banner or a stack trace.
/// Past it: the connection ends.
pub(super) const GARBAGE_LINES_MAX: usize = 100;

/// How long the process may leave a message unread. Past it: the connection ends.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Messages that wait to be written. Callers wait behind them.
const LINES_QUEUED_MAX: usize = 16;

/// A message could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct SendError(String);

struct OutgoingLine {
    bytes: Vec<u8>,
    written_tx: oneshot::Sender<()>,
}

/// The transport over a process's pipes.
pub(super) struct StdioTransport<R> {
    lines: Lines<R, Sink>,
    /// Gone once closed.
    lines_tx: Option<mpsc::Sender<OutgoingLine>>,
    garbage_lines: usize,
    routes: Arc<Routes>,
    _writer: AbortOnDropHandle<()>,
}

impl<R: AsyncRead + Unpin> StdioTransport<R> {
    pub(super) fn new(
        stdout: R,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        routes: Arc<Routes>,
    ) -> Self {
        let (lines_tx, lines_rx) = mpsc::channel(LINES_QUEUED_MAX);
        let writer = tokio::spawn(write_lines(stdin, lines_rx, Arc::clone(&routes)));
        Self {
            lines: Lines::new(stdout, sink(), MESSAGE_BYTES_MAX),
            lines_tx: Some(lines_tx),
            garbage_lines: 0,
            routes,
            _writer: AbortOnDropHandle::new(writer),
        }
    }

    /// The message of a line; `None` if it has none. The connection ends where there are too many of those.
    fn read(&mut self, text: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
        if Shape::of(text).tree_bytes > TREE_BYTES_MAX {
            self.routes
                .close(&format!("the server sent a message of more than {TREE_BYTES_MAX} bytes in memory"));
            return None;
        }
        if let Ok(message) = serde_json::from_str(text) {
            self.garbage_lines = 0;
            return Some(message);
        }
        if let Some(refusal) = malformed_answer(text) {
            return Some(refusal);
        }
        self.garbage_lines += 1;
        if self.garbage_lines > GARBAGE_LINES_MAX {
            let reason =
                format!("the server sent {} lines in a row that are not messages", self.garbage_lines);
            self.routes.close(&reason);
        }
        None
    }
}

/// An answer that cannot be read is one all the same: its caller must not wait for another.
fn malformed_answer(text: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let message: Value = serde_json::from_str(text).ok()?;
    if message.get("method").is_some() {
        return None;
    }
    let id = RequestId::deserialize(message.get("id")?).ok()?;
    let error = ErrorData::internal_error("the server sent an answer that is not valid", None);
    Some(JsonRpcMessage::error(error, Some(id)))
}

async fn write_lines(
    mut stdin: impl AsyncWrite + Unpin,
    mut lines_rx: mpsc::Receiver<OutgoingLine>,
    routes: Arc<Routes>,
) {
    while let Some(OutgoingLine { bytes, written_tx }) = lines_rx.recv().await {
        let write = async {
            stdin.write_all(&bytes).await?;
            stdin.flush().await
        };
        match timeout(WRITE_WAIT_MAX, write).await {
            Ok(Ok(())) => {
                // The caller may have stopped waiting.
                let _ = written_tx.send(());
            }
            Ok(Err(_)) => return routes.close("the server ended"),
            Err(_) => {
                let reason = format!("the server did not read its input for {} s", WRITE_WAIT_MAX.as_secs());
                return routes.close(&reason);
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for StdioTransport<R> {
    type Error = SendError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let lines_tx = self.lines_tx.clone();
        let line = serde_json::to_vec(&item);
        async move {
            let mut bytes = line.map_err(|error| SendError(error.to_string()))?;
            if bytes.len() > MESSAGE_BYTES_MAX {
                let message =
                    format!("expected a message of at most {MESSAGE_BYTES_MAX} bytes, got {}", bytes.len());
                return Err(SendError(message));
            }
            bytes.push(b'\n');
            let closed = || SendError("the connection is closed".to_owned());
            let (written_tx, written_rx) = oneshot::channel();
            let lines_tx = lines_tx.ok_or_else(closed)?;
            lines_tx.send(OutgoingLine { bytes, written_tx }).await.map_err(|_| closed())?;
            written_rx.await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while !self.routes.closed.is_cancelled() {
            match self.lines.next().await? {
                Ok(Frame::Text(text)) => {
                    if let Some(message) = self.read(&text) {
                        return Some(message);
                    }
                }
                Ok(Frame::TooLong) => {
                    let reason = format!("the server sent a message of more than {MESSAGE_BYTES_MAX} bytes");
                    self.routes.close(&reason);
                }
                Ok(_) => {}
                Err(error) => self.routes.close(&format!("the output of the server cannot be read: {error}")),
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), SendError> {
        // The process sees the end of its input.
        self.lines_tx = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    async fn received(input: Vec<u8>) -> (bool, Option<String>) {
        let routes = Arc::<Routes>::default();
        let (stdin, _unread) = duplex(64);
        let mut transport = StdioTransport::new(std::io::Cursor::new(input), stdin, Arc::clone(&routes));
        (transport.receive().await.is_some(), routes.failure())
    }

    #[tokio::test]
    async fn garbage_lines_are_skipped_up_to_the_limit() {
        let lines = |count: usize| format!("{}{PING}\n", "npm notice\n".repeat(count)).into_bytes();
        assert_eq!(received(lines(GARBAGE_LINES_MAX)).await, (true, None));
        let (passed, failure) = received(lines(GARBAGE_LINES_MAX + 1)).await;
        assert!(!passed);
        assert_eq!(failure.unwrap(), "the server sent 101 lines in a row that are not messages");
    }

    #[test]
    fn malformed_answer_is_an_error_of_its_request() {
        for text in [
            r#"{"id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":5}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
        ] {
            let Some(JsonRpcMessage::Error(error)) = malformed_answer(text) else { panic!("{text}") };
            assert_eq!(error.id, Some(RequestId::Number(7)));
        }
        for text in [r#"{"id":7,"method":5}"#, r#"{"id":{}}"#, "{}", "5", "x"] {
            assert!(malformed_answer(text).is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn long_message_ends_the_connection() {
        let mut line = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#.to_owned();
        line.push_str(&"x".repeat(MESSAGE_BYTES_MAX - line.len() - 3));
        line.push_str("\"}}");
        assert_eq!(received(line.clone().into_bytes()).await, (true, None));
        line.push_str("  ");
        let (passed, failure) = received(line.into_bytes()).await;
        assert!(!passed);
        assert_eq!(failure.unwrap(), "the server sent a message of more than 16777216 bytes");
    }

    #[tokio::test]
    async fn message_that_needs_too_much_memory_ends_the_connection() {
        let line = format!("{{\"x\":[{}[]]}}", "[],".repeat(5 << 20));
        let (passed, failure) = received(line.into_bytes()).await;
        assert!(!passed);
        assert!(failure.unwrap().ends_with("bytes in memory"));
    }

    #[tokio::test(start_paused = true)]
    async fn unread_input_ends_the_connection() {
        let routes = Arc::<Routes>::default();
        let ((stdin, _unread), (stdout, _open)) = (duplex(8), duplex(8));
        let mut transport = StdioTransport::new(stdout, stdin, Arc::clone(&routes));
        let ping = serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        transport.send(ping).await.unwrap_err();
        assert_eq!(routes.failure().unwrap(), "the server did not read its input for 10 s");
    }
}
