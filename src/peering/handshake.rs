//! A link's connection until the handshake of its protocol is complete.
//!
//! A peer that accepts the connection and then sends nothing is not reachable: a call must fail as fast as for a peer
//! that is down. So a link is up only when its conversation reports that the handshake is complete, and the connection
//! is closed when that takes too long. This wraps the conversation, so that the driver stays the same for all.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Conversation, Disconnect, LinkState, Outbox};
use crate::transport::{InputEnd, close_code};

/// What the log and the callers see when a peer does not complete the handshake.
const TIMED_OUT: &str = "handshake timed out";

/// A conversation that reports its link as up once its handshake is complete.
pub(super) struct Handshaking<C> {
    conversation: C,
    state_tx: watch::Sender<LinkState>,
    handshake_max: Duration,
    /// When the handshake must be complete; `None` without a connection.
    deadline: Option<Instant>,
    ready_at: Option<Instant>,
}

impl<C: Conversation> Handshaking<C> {
    pub(super) fn new(conversation: C, state_tx: watch::Sender<LinkState>, handshake_max: Duration) -> Self {
        Self { conversation, state_tx, handshake_max, deadline: None, ready_at: None }
    }

    /// Since when the handshake of the last connection was complete, if it ever was.
    pub(super) fn take_ready_at(&mut self) -> Option<Instant> {
        self.ready_at.take()
    }

    pub(super) fn set_state(&self, state: LinkState) {
        self.state_tx.send_replace(state);
    }

    /// Checks after every input, not only on a timer: a peer that keeps sending must not push the deadline away.
    fn check(&mut self, now: Instant, out: &mut Outbox) {
        if self.ready_at.is_some() {
            return;
        }
        if self.conversation.is_ready() {
            self.ready_at = Some(now);
            self.set_state(LinkState::Up);
        } else if self.deadline.is_some_and(|deadline| deadline <= now) {
            out.close(close_code::POLICY, TIMED_OUT);
        }
    }
}

impl<C: Conversation> Conversation for Handshaking<C> {
    type Command = C::Command;

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        self.deadline = Some(now + self.handshake_max);
        self.ready_at = None;
        self.conversation.on_open(now, out);
        self.check(now, out);
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        self.conversation.on_text(text, now, out);
        self.check(now, out);
    }

    fn on_command(&mut self, command: Self::Command, now: Instant, out: &mut Outbox) {
        self.conversation.on_command(command, now, out);
        self.check(now, out);
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Self::Command> {
        self.conversation.poll_command(cx)
    }

    fn is_ready(&self) -> bool {
        self.conversation.is_ready()
    }

    fn wake_at(&self) -> Option<Instant> {
        let deadline = self.deadline.filter(|_| self.ready_at.is_none());
        self.conversation.wake_at().into_iter().chain(deadline).min()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        if self.conversation.wake_at().is_some_and(|at| at <= now) {
            self.conversation.on_wake(now, out);
        }
        self.check(now, out);
    }

    fn on_binary(&mut self, bytes: &[u8], now: Instant, out: &mut Outbox) {
        self.conversation.on_binary(bytes, now, out);
        self.check(now, out);
    }

    fn may_read(&mut self) -> bool {
        self.conversation.may_read()
    }

    fn is_held_back(&self) -> bool {
        self.conversation.is_held_back()
    }

    fn on_input_end(&mut self, end: InputEnd, now: Instant, out: &mut Outbox) {
        self.conversation.on_input_end(end, now, out);
    }

    fn on_stop(&mut self, now: Instant, out: &mut Outbox) {
        self.conversation.on_stop(now, out);
    }

    fn is_done(&self) -> bool {
        self.conversation.is_done()
    }

    fn on_closing(&mut self, disconnect: &Disconnect, out: &mut Outbox) {
        self.conversation.on_closing(disconnect, out);
    }

    fn on_end(&mut self, now: Instant) {
        self.deadline = None;
        self.conversation.on_end(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready once the peer has sent `welcome`.
    #[derive(Default)]
    struct Guest {
        is_welcome: bool,
    }

    impl Conversation for Guest {
        type Command = ();

        fn on_open(&mut self, _: Instant, _: &mut Outbox) {
            self.is_welcome = false;
        }

        fn on_text(&mut self, text: &str, _: Instant, _: &mut Outbox) {
            self.is_welcome |= text == "welcome";
        }

        fn on_command(&mut self, (): (), _: Instant, _: &mut Outbox) {}

        fn is_ready(&self) -> bool {
            self.is_welcome
        }

        fn on_end(&mut self, _: Instant) {}
    }

    const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

    fn opened(now: Instant) -> (Handshaking<Guest>, watch::Receiver<LinkState>, Outbox) {
        let (state_tx, state_rx) = watch::channel(LinkState::Connecting);
        let (mut link, mut out) =
            (Handshaking::new(Guest::default(), state_tx, HANDSHAKE_MAX), Outbox::default());
        link.on_open(now, &mut out);
        (link, state_rx, out)
    }

    #[test]
    fn link_is_up_only_after_the_handshake() {
        let now = Instant::now();
        let (mut link, state_rx, mut out) = opened(now);
        assert_eq!(*state_rx.borrow(), LinkState::Connecting);
        link.on_text("noise", now, &mut out);
        assert_eq!(*state_rx.borrow(), LinkState::Connecting);
        link.on_text("welcome", now, &mut out);
        assert_eq!(*state_rx.borrow(), LinkState::Up);
        assert_eq!(link.wake_at(), None);
        assert_eq!(link.take_ready_at(), Some(now));
    }

    #[test]
    fn handshake_at_the_limit_is_closed_and_just_before_it_is_not() {
        let now = Instant::now();
        let (mut link, _state_rx, mut out) = opened(now);
        assert_eq!(link.wake_at(), Some(now + HANDSHAKE_MAX));
        link.on_wake(now + HANDSHAKE_MAX - Duration::from_millis(1), &mut out);
        assert_eq!(out.disconnect(), None);
        link.on_wake(now + HANDSHAKE_MAX, &mut out);
        assert_eq!(out.disconnect(), Some(&Disconnect::Close { code: 1008, reason: TIMED_OUT.to_owned() }));
    }

    #[test]
    fn peer_that_keeps_sending_does_not_extend_the_handshake() {
        let now = Instant::now();
        let (mut link, _state_rx, mut out) = opened(now);
        link.on_text("noise", now + HANDSHAKE_MAX, &mut out);
        assert!(matches!(out.disconnect(), Some(Disconnect::Close { code: 1008, .. })));
    }

    #[test]
    fn next_connection_needs_a_handshake_of_its_own() {
        let now = Instant::now();
        let (mut link, _state_rx, mut out) = opened(now);
        link.on_text("welcome", now, &mut out);
        link.on_end(now);
        link.set_state(LinkState::Connecting);
        let later = now + Duration::from_secs(60);
        link.on_open(later, &mut out);
        assert_eq!(link.wake_at(), Some(later + HANDSHAKE_MAX));
        assert_eq!(link.take_ready_at(), None);
    }
}
