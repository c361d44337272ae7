//! Commands on their way to a session.
//!
//! A connection never waits for its session: a command that finds the session's inbox full is kept here, and nothing
//! more is read from the client until it is through.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::session::boundary::ToSession;
use crate::sessions::SessionLink;
use crate::sessions::link::TrySendError;

/// Messages that the inbox of a session had no room for, in order.
#[derive(Default)]
pub(super) struct SessionQueue {
    /// The first of them, which waits for room.
    sending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waiting: VecDeque<ToSession>,
}

impl SessionQueue {
    /// Whether everything was delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_none()
    }

    /// Delivers a message, now or when there is room.
    pub(super) fn send(&mut self, link: &Arc<SessionLink>, message: ToSession) {
        if self.sending.is_some() {
            return self.waiting.push_back(message);
        }
        match link.try_send(message) {
            // The closed events of a session that ended end the connection.
            Ok(()) | Err(TrySendError::Closed) => {}
            Err(TrySendError::Full(message)) => {
                let link = Arc::clone(link);
                self.sending = Some(Box::pin(async move {
                    let _ = link.send(*message).await;
                }));
            }
        }
    }

    /// Ready when everything was delivered.
    pub(super) fn poll(&mut self, link: &Arc<SessionLink>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(sending) = &mut self.sending {
            ready!(sending.as_mut().poll(cx));
            self.sending = None;
            while self.sending.is_none()
                && let Some(message) = self.waiting.pop_front()
            {
                self.send(link, message);
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::mpsc;

    use super::*;

    fn is_delivered(queue: &mut SessionQueue, link: &Arc<SessionLink>) -> bool {
        queue.poll(link, &mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn next(inbox_rx: &mut mpsc::Receiver<ToSession>) -> Option<u64> {
        match inbox_rx.try_recv() {
            Ok(ToSession::Detach { connection }) => Some(connection),
            _ => None,
        }
    }

    #[test]
    fn messages_that_find_the_inbox_full_keep_their_order() {
        let (mut queue, (link, mut inbox_rx)) = (SessionQueue::default(), SessionLink::with_room_for(1));
        queue.send(&link, ToSession::Detach { connection: 0 });
        assert!(queue.is_empty());
        (1..4).for_each(|number| queue.send(&link, ToSession::Detach { connection: number }));
        for number in 0..4 {
            assert_eq!(is_delivered(&mut queue, &link), number == 3);
            assert_eq!(next(&mut inbox_rx), Some(number));
        }
        assert!(queue.is_empty() && next(&mut inbox_rx).is_none());
    }

    #[test]
    fn messages_to_an_ended_session_are_dropped() {
        let (mut queue, (link, inbox_rx)) = (SessionQueue::default(), SessionLink::with_room_for(1));
        (0..3).for_each(|number| queue.send(&link, ToSession::Detach { connection: number }));
        assert!(!is_delivered(&mut queue, &link));
        drop(inbox_rx);
        assert!(is_delivered(&mut queue, &link) && queue.is_empty());
    }
}
