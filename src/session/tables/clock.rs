//! The time that an eval or a call into the script may take by the clock.
//!
//! Two limits run beside each other. The server's own does not count the time in which the script waits for a call to
//! the client that has a limit of its own: a person who approves, a tool that declares how long it takes. The limit
//! that the client asked for counts every millisecond.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::Time;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WallClock {
    /// The server's limit.
    server_limit: Duration,
    /// When the server's limit is reached; while the clock is paused, when it would have been.
    server_limit_at: Time,
    /// The client's limit, and when it is reached.
    client_limit: Option<(Duration, Time)>,
    /// How many calls pause the clock, and since when it is paused.
    paused: (usize, Time),
}

impl WallClock {
    /// Starts at `now`, with the server's limit and the client's.
    pub(crate) fn start(now: Time, server_limit: Duration, client_limit: Option<Duration>) -> Self {
        Self {
            server_limit,
            server_limit_at: now + server_limit,
            client_limit: client_limit.map(|limit| (limit, now + limit)),
            paused: (0, now),
        }
    }

    /// When the next limit is reached; `None` while the clock is paused and the client set no limit: the calls that it
    /// waits for have deadlines of their own.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let server = (self.paused.0 == 0).then_some(self.server_limit_at);
        server.into_iter().chain(self.client_limit.map(|(_, at)| at)).min()
    }

    /// Whether a limit is reached.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// The limit that was reached.
    pub(crate) fn exceeded(&self, now: Time) -> Duration {
        match self.client_limit {
            Some((limit, at)) if at <= now && (self.paused.0 > 0 || at <= self.server_limit_at) => limit,
            Some(_) | None => self.server_limit,
        }
    }

    /// What is left of the time that the client asked for, if it did.
    pub(crate) fn client_limit_left(&self, now: Time) -> Option<Duration> {
        self.client_limit.map(|(_, at)| at.saturating_since(now))
    }

    /// Time that does not count has passed.
    pub(crate) fn shift(&mut self, away: Duration) {
        self.server_limit_at += away;
        self.paused.1 += away;
        if let Some((_, at)) = &mut self.client_limit {
            *at += away;
        }
    }

    /// A call with a limit of its own begins.
    pub(crate) fn pause(&mut self, now: Time) {
        if self.paused.0 == 0 {
            self.paused.1 = now;
        }
        self.paused.0 += 1;
    }

    /// Such a call is over.
    pub(crate) fn resume(&mut self, now: Time) {
        self.paused.0 = self.paused.0.saturating_sub(1);
        if self.paused.0 == 0 {
            self.server_limit_at += now.saturating_since(self.paused.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Time {
        Time::after_start(seconds * SECOND)
    }

    #[test]
    fn wall_clock_without_calls_ends_at_the_smaller_limit() {
        assert_eq!(WallClock::start(at(1), 5 * SECOND, None).deadline(), Some(at(6)));
        let clock = WallClock::start(at(1), 5 * SECOND, Some(SECOND));
        assert_eq!(clock.deadline(), Some(at(2)));
        assert_eq!(clock.exceeded(at(2)), SECOND);
        let clock = WallClock::start(at(1), 5 * SECOND, Some(Duration::MAX));
        assert_eq!(clock.deadline(), Some(at(6)));
        assert_eq!(clock.exceeded(at(6)), 5 * SECOND);
    }

    #[test]
    fn wall_clock_paused_without_client_limit_has_no_deadline() {
        let mut clock = WallClock::start(at(0), SECOND, None);
        clock.pause(at(0));
        assert_eq!(clock.deadline(), None);
        clock.resume(at(10));
        assert_eq!(clock.deadline(), Some(at(11)));
    }

    #[test]
    fn wall_clock_paused_moves_only_the_servers_limit() {
        let mut clock = WallClock::start(at(0), 5 * SECOND, Some(60 * SECOND));
        clock.pause(at(1));
        clock.pause(at(2));
        assert_eq!(clock.deadline(), Some(at(60)));
        assert_eq!(clock.exceeded(at(60)), 60 * SECOND);
        clock.resume(at(3));
        assert_eq!(clock.deadline(), Some(at(60)));
        clock.resume(at(31));
        // 30 s of waiting from the first call to the last.
        assert_eq!(clock.deadline(), Some(at(35)));
        assert!(!clock.is_over(at(34)) && clock.is_over(at(35)));
        assert_eq!(clock.client_limit_left(at(31)), Some(29 * SECOND));
    }
}
