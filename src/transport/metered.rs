//! A byte stream that is read only as far as a budget allows.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::budget::{ConnectionBudget, ReserveError};

/// Holds the reader back in the middle of a large message until the server has room for it.
pub(crate) struct Metered<S> {
    inner: S,
    budget: Arc<ConnectionBudget>,
    /// Set while it waits for room.
    freed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Metered<S> {
    /// Counts what is read from `inner`.
    pub(crate) fn new(inner: S, budget: Arc<ConnectionBudget>) -> Self {
        Self { inner, budget, freed: None }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.budget.try_reserve() {
                Ok(()) => {
                    self.freed = None;
                    return Poll::Ready(Ok(()));
                }
                Err(ReserveError::TooSlow) => {
                    let message = "a large message took too long to arrive";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
                }
                Err(ReserveError::Full) => {}
            }
            let budget = &self.budget;
            match &mut self.freed {
                // Registered before the look above, so nothing released since then was missed.
                Some(freed) => match freed.as_mut().poll(cx) {
                    Poll::Ready(()) => self.freed = None,
                    Poll::Pending => return Poll::Pending,
                },
                None => {
                    let mut freed = budget.server_freed();
                    if freed.as_mut().poll(cx).is_pending() {
                        self.freed = Some(freed);
                    }
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_room(cx))?;
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if read > 0 {
            self.budget.add_partial(read);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
