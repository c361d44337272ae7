//! One JSON message a line, over any reader and writer: stdin and stdout, or a child's.
//!
//! A line is collected only up to its limit, so an endless line costs no memory. Text that is not UTF-8 is passed on
//! with replacement characters: it then fails as JSON and is answered, where an error would end the connection.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, Stream};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf, Stdin, Stdout};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Frame, Outgoing, TransportError};

/// Output collected before more is refused until some of it is written.
/// Several answers go out in one write; a reader that stopped reading cannot make us keep more than this and a message.
const OUTPUT_BUFFERED_BYTES_MAX: usize = 64 << 10;

/// A transport of lines.
pub(crate) struct Lines<R, W> {
    reader: BufReader<R>,
    /// Gone once closed: a pipe to a child ends only when it is dropped.
    writer: Option<W>,
    line: Vec<u8>,
    line_bytes_max: usize,
    ended: bool,
    output: Vec<u8>,
    /// How much of `output` the writer has taken.
    written: usize,
    closing: bool,
}

/// Lines over this process's own stdin and stdout.
pub(crate) fn stdio(line_bytes_max: usize) -> Lines<Stdin, Stdout> {
    Lines::new(tokio::io::stdin(), tokio::io::stdout(), line_bytes_max)
}

/// Starts `command` and exchanges lines with it. Its stderr stays ours; it is killed when the transport is dropped.
pub(crate) fn spawn(
    mut command: Command,
    line_bytes_max: usize,
) -> io::Result<Lines<ChildOutput, ChildStdin>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    Ok(Lines::new(ChildOutput { stdout, _child: child }, stdin, line_bytes_max))
}

/// A child's stdout, which keeps the child.
pub(crate) struct ChildOutput {
    stdout: ChildStdout,
    _child: Child,
}

impl AsyncRead for ChildOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(cx, buf)
    }
}

/// What one look at the buffered input led to.
enum Step {
    LineComplete,
    MoreNeeded,
    TooLong,
    EndOfInput,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Lines of at most `line_bytes_max` bytes, line end not counted.
    pub(crate) fn new(reader: R, writer: W, line_bytes_max: usize) -> Self {
        Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
            line: Vec::new(),
            line_bytes_max,
            ended: false,
            output: Vec::new(),
            written: 0,
            closing: false,
        }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Step>> {
        let available = ready!(Pin::new(&mut self.reader).poll_fill_buf(cx))?;
        if available.is_empty() {
            return Poll::Ready(Ok(Step::EndOfInput));
        }
        let line_end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..line_end.unwrap_or(available.len())];
        // One byte more than a line may have: it can turn out to be the `\r` of the line end.
        if self.line.len() + piece.len() > self.line_bytes_max + 1 {
            return Poll::Ready(Ok(Step::TooLong));
        }
        self.line.extend_from_slice(piece);
        let consumed = piece.len() + usize::from(line_end.is_some());
        Pin::new(&mut self.reader).consume(consumed);
        Poll::Ready(Ok(if line_end.is_some() { Step::LineComplete } else { Step::MoreNeeded }))
    }

    /// The collected line as a frame; `None` if it is empty.
    fn take_line(&mut self) -> Option<Frame> {
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.line.is_empty() {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        if line.len() > self.line_bytes_max {
            self.ended = true;
            return Some(Frame::TooLong);
        }
        let text = String::from_utf8(line)
            .unwrap_or_else(|invalid| String::from_utf8_lossy(invalid.as_bytes()).into_owned());
        Some(Frame::Text(text.into()))
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> Stream for Lines<R, W> {
    type Item = Result<Frame, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            let step = ready!(self.poll_step(cx)).inspect_err(|_| self.ended = true)?;
            let frame = match step {
                Step::MoreNeeded => None,
                Step::LineComplete => self.take_line(),
                Step::TooLong => {
                    self.ended = true;
                    Some(Frame::TooLong)
                }
                Step::EndOfInput => {
                    self.ended = true;
                    self.take_line()
                }
            };
            if let Some(frame) = frame {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        Poll::Ready(None)
    }
}

impl<R, W: AsyncWrite + Unpin> Lines<R, W> {
    /// Writes what was collected, flushes it, and ends the output if the transport is closing.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let Some(writer) = &mut self.writer else {
            return Poll::Ready(Ok(()));
        };
        let mut writer = Pin::new(writer);
        while self.written < self.output.len() {
            let taken = ready!(writer.as_mut().poll_write(cx, &self.output[self.written..]))?;
            if taken == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
            self.written += taken;
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_BUFFERED_BYTES_MAX);
        self.written = 0;
        ready!(writer.as_mut().poll_flush(cx))?;
        if self.closing {
            ready!(writer.poll_shutdown(cx))?;
            self.writer = None;
        }
        Poll::Ready(Ok(()))
    }

    fn push_line(&mut self, text: &str) {
        if text.contains(['\n', '\r']) {
            // Between the tokens of a JSON text a line end is white space; inside a string it cannot stand raw.
            self.output.extend_from_slice(text.replace(['\n', '\r'], " ").as_bytes());
        } else {
            self.output.extend_from_slice(text.as_bytes());
        }
        self.output.push(b'\n');
    }
}

impl<R: Unpin, W: AsyncWrite + Unpin> Sink<Outgoing> for Lines<R, W> {
    type Error = TransportError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        if self.output.len() < OUTPUT_BUFFERED_BYTES_MAX { Poll::Ready(Ok(())) } else { self.poll_drain(cx) }
    }

    fn start_send(mut self: Pin<&mut Self>, item: Outgoing) -> Result<(), TransportError> {
        if self.closing {
            return Err(TransportError::Closed);
        }
        match item {
            Outgoing::Text(text) => self.push_line(&text),
            Outgoing::Ping => {}
            // Lines have no close frame: the output ends instead.
            Outgoing::Close { .. } => self.closing = true,
        }
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.poll_drain(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.closing = true;
        self.poll_drain(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, SinkExt, StreamExt};
    use tokio::io::{AsyncReadExt, DuplexStream, duplex, sink};

    const LINE_MAX: usize = 8;

    fn reading(input: &'static [u8]) -> Lines<&'static [u8], tokio::io::Sink> {
        Lines::new(input, sink(), LINE_MAX)
    }

    async fn texts(input: &'static [u8]) -> Vec<String> {
        let frames = reading(input).map(|frame| match frame.unwrap() {
            Frame::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        });
        frames.collect().await
    }

    #[tokio::test]
    async fn every_line_but_an_empty_one_is_a_message() {
        assert_eq!(texts(b"{}\n\n\r\n[1]\r\n2\n").await, ["{}", "[1]", "2"]);
    }

    #[tokio::test]
    async fn last_line_needs_no_line_end() {
        assert_eq!(texts(b"1\n{}").await, ["1", "{}"]);
    }

    #[tokio::test]
    async fn line_at_the_limit_is_read_with_any_line_end() {
        assert_eq!(texts(b"12345678\n12345678\r\n12345678").await, ["12345678"; 3]);
    }

    #[tokio::test]
    async fn line_past_the_limit_ends_the_reading() {
        assert_eq!(texts(b"1\n123456789\n2\n").await, ["1", "TooLong"]);
        assert_eq!(texts(b"123456789\r\n2\n").await, ["TooLong"]);
        assert_eq!(texts(b"123456789").await, ["TooLong"]);
    }

    #[tokio::test]
    async fn endless_line_is_refused_before_it_ends() {
        let (mut far, near) = duplex(64);
        let mut lines = Lines::new(near, sink(), LINE_MAX);
        tokio::io::AsyncWriteExt::write_all(&mut far, b"1234567890").await.unwrap();
        assert!(matches!(lines.next().now_or_never(), Some(Some(Ok(Frame::TooLong)))));
    }

    #[tokio::test]
    async fn text_that_is_not_utf8_is_still_a_message() {
        assert_eq!(texts(b"a\xff\n{}\n").await, ["a\u{fffd}", "{}"]);
    }

    fn writing(buffer: usize) -> (Lines<tokio::io::Empty, DuplexStream>, DuplexStream) {
        let (near, far) = duplex(buffer);
        (Lines::new(tokio::io::empty(), near, LINE_MAX), far)
    }

    #[tokio::test]
    async fn messages_share_a_flush_and_a_close_ends_the_output() {
        let (mut lines, mut far) = writing(1024);
        lines.feed(Outgoing::Text("{}".into())).await.unwrap();
        lines.feed(Outgoing::Text("{\n1}".into())).await.unwrap();
        lines.feed(Outgoing::Ping).await.unwrap();
        lines.send(Outgoing::Close { code: 1000, reason: String::new() }).await.unwrap();
        let mut written = String::new();
        far.read_to_string(&mut written).await.unwrap();
        assert_eq!(written, "{}\n{ 1}\n");
        assert!(matches!(lines.send(Outgoing::Ping).await, Err(TransportError::Closed)));
    }

    #[tokio::test]
    async fn reader_that_stopped_holds_the_sender_back() {
        let (mut lines, _far) = writing(16);
        lines.feed(Outgoing::Text("x".repeat(OUTPUT_BUFFERED_BYTES_MAX))).await.unwrap();
        assert!(lines.feed(Outgoing::Text("y".into())).now_or_never().is_none());
    }

    #[tokio::test]
    async fn child_answers_line_by_line() {
        let mut child = spawn(Command::new("cat"), LINE_MAX).unwrap();
        child.send(Outgoing::Text("{}".into())).await.unwrap();
        assert!(matches!(child.next().await, Some(Ok(Frame::Text(text))) if &*text == "{}"));
        child.close().await.unwrap();
        assert!(child.next().await.is_none());
    }
}
