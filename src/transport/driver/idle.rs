//! When a peer that sends nothing is pinged, and when it is given up. Pure: the time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// Time limits of a connection; `None` where the transport has no such thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// How long the peer may send nothing before the handshake is complete.
    pub handshake: Option<Duration>,
    /// How long the peer may send nothing before it is pinged.
    pub ping_after: Option<Duration>,
    /// How long a peer that was pinged may have sent nothing before the connection is closed.
    pub idle_max: Option<Duration>,
}

impl Timeouts {
    /// The peer may be silent for ever.
    pub const NONE: Self = Self { handshake: None, ping_after: None, idle_max: None };
}

/// What is due when the peer has sent nothing for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleAction {
    Wait,
    Ping,
    HandshakeTimeout,
    IdleTimeout,
}

/// Counts the time since the last frame.
#[derive(Debug)]
pub(super) struct IdleClock {
    timeouts: Timeouts,
    last_heard: Instant,
    is_pinged: bool,
}

impl IdleClock {
    pub(super) fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self { timeouts, last_heard: now, is_pinged: false }
    }

    /// A frame arrived.
    pub(super) fn on_frame(&mut self, now: Instant) {
        self.last_heard = now;
        self.is_pinged = false;
    }

    /// The peer was not read until now, so nothing is known about the time before.
    pub(super) fn restart(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// When [`Self::on_alarm`] has something to do.
    pub(super) fn next_at(&self, is_ready: bool) -> Option<Instant> {
        let handshake = self.timeouts.handshake.filter(|_| !is_ready);
        let idle = if self.is_pinged { self.timeouts.idle_max } else { self.timeouts.ping_after };
        [handshake, idle].into_iter().flatten().min().map(|wait| self.last_heard + wait)
    }

    /// What is due now.
    pub(super) fn on_alarm(&mut self, now: Instant, is_ready: bool) -> IdleAction {
        let is_due = |wait: Option<Duration>| wait.is_some_and(|wait| self.last_heard + wait <= now);
        if !is_ready && is_due(self.timeouts.handshake) {
            return IdleAction::HandshakeTimeout;
        }
        if self.is_pinged && is_due(self.timeouts.idle_max) {
            return IdleAction::IdleTimeout;
        }
        if !self.is_pinged && is_due(self.timeouts.ping_after) {
            self.is_pinged = true;
            return IdleAction::Ping;
        }
        IdleAction::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        handshake: Some(Duration::from_secs(20)),
        ping_after: Some(Duration::from_secs(30)),
        idle_max: Some(Duration::from_secs(75)),
    };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn silent_peer_is_pinged_once_and_then_given_up() {
        let start = Instant::now();
        let mut clock = IdleClock::new(TIMEOUTS, start);
        assert_eq!(clock.next_at(true), Some(after(start, 30)));
        assert_eq!(clock.on_alarm(after(start, 29), true), IdleAction::Wait);
        assert_eq!(clock.on_alarm(after(start, 30), true), IdleAction::Ping);
        assert_eq!(clock.next_at(true), Some(after(start, 75)));
        assert_eq!(clock.on_alarm(after(start, 74), true), IdleAction::Wait);
        assert_eq!(clock.on_alarm(after(start, 75), true), IdleAction::IdleTimeout);
    }

    #[test]
    fn frame_restarts_both_waits() {
        let start = Instant::now();
        let mut clock = IdleClock::new(TIMEOUTS, start);
        assert_eq!(clock.on_alarm(after(start, 30), true), IdleAction::Ping);
        clock.on_frame(after(start, 40));
        assert_eq!(clock.next_at(true), Some(after(start, 70)));
        assert_eq!(clock.on_alarm(after(start, 70), true), IdleAction::Ping);
    }

    #[test]
    fn handshake_timeout_holds_until_the_handshake_is_complete() {
        let start = Instant::now();
        let mut clock = IdleClock::new(TIMEOUTS, start);
        assert_eq!(clock.next_at(false), Some(after(start, 20)));
        assert_eq!(clock.on_alarm(after(start, 19), false), IdleAction::Wait);
        assert_eq!(clock.on_alarm(after(start, 20), false), IdleAction::HandshakeTimeout);
        assert_eq!(clock.on_alarm(after(start, 20), true), IdleAction::Wait);
    }

    #[test]
    fn time_in_which_the_peer_was_not_read_does_not_count() {
        let start = Instant::now();
        let mut clock = IdleClock::new(TIMEOUTS, start);
        clock.restart(after(start, 70));
        assert_eq!(clock.on_alarm(after(start, 99), true), IdleAction::Wait);
        assert_eq!(clock.on_alarm(after(start, 100), true), IdleAction::Ping);
    }

    #[test]
    fn connection_without_timeouts_has_no_alarm() {
        let start = Instant::now();
        let mut clock = IdleClock::new(Timeouts::NONE, start);
        assert_eq!((clock.next_at(true), clock.next_at(false)), (None, None));
        assert_eq!(clock.on_alarm(after(start, 1 << 20), false), IdleAction::Wait);
    }
}
