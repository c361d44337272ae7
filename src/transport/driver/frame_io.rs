//! A transport with a queue of frames to write: reads while it writes.
//!
//! If each side waited for its own writes before it read again, two full pipes would wait for each other for ever. So
//! frames are queued, and one poll both drains the queue and looks for the next frame.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use crate::transport::{Frame, Frames, Outgoing, TransportError};

/// How long the last frames and the closing handshake may take.
/// Long enough for a slow network; afterwards the connection is dropped all the same.
pub(super) const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why nothing more can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteError {
    /// The connection broke.
    Closed,
    /// The peer does not read.
    Stalled,
}

/// What a poll of the transport came to.
pub(super) enum IoEvent {
    /// The next frame, or the end of the input.
    Frame(Option<Result<Frame, TransportError>>),
    /// Everything queued is written.
    Flushed,
    /// Writing failed; see [`FrameIo::failure`].
    Failed,
}

pub(super) struct FrameIo<T> {
    transport: T,
    queue: VecDeque<Outgoing>,
    /// Frames that may wait to be written before nothing more is read or accepted.
    queued_max: usize,
    is_flushed: bool,
    /// Since when the transport has taken no frame although one waits.
    stalled_since: Option<Instant>,
    failure: Option<TransportError>,
}

impl<T: Frames> FrameIo<T> {
    pub(super) fn new(transport: T, queued_max: usize) -> Self {
        Self {
            transport,
            queue: VecDeque::new(),
            queued_max,
            is_flushed: true,
            stalled_since: None,
            failure: None,
        }
    }

    pub(super) fn push(&mut self, frame: Outgoing) {
        self.queue.push_back(frame);
        self.is_flushed = false;
    }

    /// Whether little enough waits that more may be read and accepted. A flush that is not complete counts as a frame.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() + usize::from(!self.is_flushed) <= self.queued_max
    }

    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// Why writing failed.
    pub(super) fn failure(&self) -> Option<&TransportError> {
        self.failure.as_ref()
    }

    /// Writes what the transport takes now. An error is reported by the next [`Self::poll`].
    pub(super) fn write_now(&mut self) {
        if !self.is_flushed {
            let _ = self.poll_write(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Writes, and reads the next frame if `may_read`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, may_read: bool) -> Poll<IoEvent> {
        let was_flushed = self.is_flushed;
        let written = self.poll_write(cx);
        if may_read && let Poll::Ready(frame) = self.poll_frame(cx) {
            return Poll::Ready(IoEvent::Frame(frame));
        }
        // Last, because a peer that closed makes writing fail too, and its close frame holds the reason.
        match written {
            Poll::Ready(Err(WriteError::Closed | WriteError::Stalled)) => Poll::Ready(IoEvent::Failed),
            Poll::Ready(Ok(())) if !was_flushed => Poll::Ready(IoEvent::Flushed),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// Reads a frame.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let frame = ready!(Pin::new(&mut self.transport).poll_next(cx));
        if matches!(frame, Some(Ok(Frame::Alive | Frame::Closed { .. }))) {
            // The transport may have an answer to it.
            self.is_flushed = false;
        }
        Poll::Ready(frame)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        if self.failure.is_some() {
            return Poll::Ready(Err(WriteError::Closed));
        }
        match self.poll_drain(cx) {
            Poll::Pending => {
                self.stalled_since.get_or_insert_with(Instant::now);
                Poll::Pending
            }
            Poll::Ready(Ok(())) => {
                self.stalled_since = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                self.failure = Some(error);
                self.stalled_since = None;
                Poll::Ready(Err(WriteError::Closed))
            }
        }
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        let mut transport = Pin::new(&mut self.transport);
        while !self.queue.is_empty() {
            ready!(transport.as_mut().poll_ready(cx))?;
            if let Some(frame) = self.queue.pop_front() {
                transport.as_mut().start_send(frame)?;
                self.stalled_since = None;
            }
        }
        if !self.is_flushed {
            ready!(transport.poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes everything that is queued. With `stall_max` a peer that reads nothing for so long is given up.
    pub(super) async fn flush(&mut self, stall_max: Option<Duration>) -> Result<(), WriteError> {
        let Some(stall_max) = stall_max else {
            return poll_fn(|cx| self.poll_write(cx)).await;
        };
        loop {
            let deadline = self.stalled_since.unwrap_or_else(Instant::now) + stall_max;
            if let Ok(written) = timeout_at(deadline, poll_fn(|cx| self.poll_write(cx))).await {
                return written;
            }
            // A frame that was taken meanwhile starts the wait anew.
            if self.stalled_since.is_some_and(|since| since.elapsed() >= stall_max) {
                return Err(WriteError::Stalled);
            }
        }
    }

    /// Sends a close frame and waits a moment for that of the peer.
    pub(super) async fn close(&mut self, code: u16, reason: String) {
        let closing = async {
            self.transport.send(Outgoing::Close { code, reason }).await?;
            while let Some(frame) = self.transport.next().await {
                if matches!(frame?, Frame::Closed { .. }) {
                    break;
                }
            }
            self.transport.close().await
        };
        // A peer that does not answer is dropped all the same.
        let _ = timeout(CLOSE_WAIT_MAX, closing).await;
    }
}
