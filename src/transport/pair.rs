//! Two ends inside one process: for tests, and for a server embedded beside its client.
//!
//! Bounded queues of frames, one a direction, so a slow end holds the other back as a socket would. Close codes travel;
//! dropping an end is a connection that broke.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Sink, Stream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, PollSender, WaitForCancellationFutureOwned};

use super::{Frame, Outgoing, TransportError, cut_reason};

/// One end of a [`pair()`].
pub struct PairEnd {
    outgoing_tx: PollSender<Outgoing>,
    incoming_rx: mpsc::Receiver<Outgoing>,
    ended: bool,
    broken: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

/// Two connected ends, with room for `capacity` frames (at least one) each way.
pub fn pair(capacity: usize) -> (PairEnd, PairEnd) {
    let (left_tx, right_rx) = mpsc::channel(capacity.max(1));
    let (right_tx, left_rx) = mpsc::channel(capacity.max(1));
    (PairEnd::new(left_tx, left_rx), PairEnd::new(right_tx, right_rx))
}

impl PairEnd {
    fn new(outgoing_tx: mpsc::Sender<Outgoing>, incoming_rx: mpsc::Receiver<Outgoing>) -> Self {
        Self { outgoing_tx: PollSender::new(outgoing_tx), incoming_rx, ended: false, broken: None }
    }

    /// Breaks the connection at this end when `token` is cancelled, even if the other end is never dropped. What has
    /// arrived by then is still read.
    pub fn break_when(&mut self, token: &CancellationToken) {
        self.broken = Some(Box::pin(token.clone().cancelled_owned()));
    }
}

impl Stream for PairEnd {
    type Item = Result<Frame, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let received = self.incoming_rx.poll_recv(cx);
        if received.is_pending()
            && let Some(broken) = &mut self.broken
            && broken.as_mut().poll(cx).is_ready()
        {
            self.ended = true;
            return Poll::Ready(None);
        }
        received.map(|received| {
            let frame = match received? {
                Outgoing::Text(text) => Frame::Text(text.into()),
                Outgoing::Ping => Frame::Alive,
                Outgoing::Close { code, reason } => {
                    self.ended = true;
                    Frame::Closed { code, reason: cut_reason(reason) }
                }
            };
            Some(Ok(frame))
        })
    }
}

impl Sink<Outgoing> for PairEnd {
    type Error = TransportError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.outgoing_tx.poll_reserve(cx).map_err(|_| TransportError::Closed)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Outgoing) -> Result<(), TransportError> {
        let last = matches!(item, Outgoing::Close { .. });
        self.outgoing_tx.send_item(item).map_err(|_| TransportError::Closed)?;
        if last {
            self.outgoing_tx.close();
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.outgoing_tx.close();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, SinkExt, StreamExt};

    #[tokio::test]
    async fn end_that_is_broken_reads_what_arrived_and_ends() {
        let (mut left, mut right) = pair(4);
        let token = CancellationToken::new();
        right.break_when(&token);
        left.send(Outgoing::Text("1".into())).await.unwrap();
        token.cancel();
        assert!(matches!(right.next().await, Some(Ok(Frame::Text(_)))));
        assert!(right.next().await.is_none());
    }

    #[tokio::test]
    async fn frames_arrive_in_order_and_close_codes_travel() {
        let (mut left, mut right) = pair(4);
        left.feed(Outgoing::Text("1".into())).await.unwrap();
        left.feed(Outgoing::Ping).await.unwrap();
        left.send(Outgoing::Close { code: 4001, reason: "taken over".into() }).await.unwrap();
        assert!(matches!(right.next().await, Some(Ok(Frame::Text(text))) if &*text == "1"));
        assert!(matches!(right.next().await, Some(Ok(Frame::Alive))));
        let closed = right.next().await;
        assert!(
            matches!(closed, Some(Ok(Frame::Closed { code: 4001, ref reason })) if reason == "taken over")
        );
        assert!(right.next().await.is_none());
    }

    #[tokio::test]
    async fn full_queue_holds_the_sender_back() {
        let (mut left, mut right) = pair(1);
        left.send(Outgoing::Text("1".into())).await.unwrap();
        assert!(left.send(Outgoing::Text("2".into())).now_or_never().is_none());
        assert!(matches!(right.next().await, Some(Ok(Frame::Text(_)))));
        assert!(left.send(Outgoing::Text("2".into())).now_or_never().is_some());
    }

    #[tokio::test]
    async fn dropped_end_breaks_both_directions() {
        let (mut left, right) = pair(1);
        drop(right);
        assert!(left.next().await.is_none());
        assert!(matches!(left.send(Outgoing::Ping).await, Err(TransportError::Closed)));
    }

    #[tokio::test]
    async fn nothing_is_sent_after_a_close() {
        let (mut left, _right) = pair(4);
        left.send(Outgoing::Close { code: 1000, reason: String::new() }).await.unwrap();
        assert!(matches!(left.send(Outgoing::Ping).await, Err(TransportError::Closed)));
    }
}
