//! The time that an eval or a call into the script may take by the clock, and when the session looks at it.
//!
//! Two limits run beside each other. The server's own does not count the time in which the script waits for a call to
//! the client that has a limit of its own: a person who approves, a tool that declares how long it takes. The limit
//! that the client asked for counts every millisecond.

use std::time::{Duration, Instant};

use super::super::meter::Stop;
use super::Session;

/// See the module. Time is passed in.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// The server's limit.
    own: Duration,
    /// When the server's limit is reached; while the clock stands still, when it would have been.
    own_at: Instant,
    /// The client's limit, and when it is reached.
    asked: Option<(Duration, Instant)>,
    /// How many calls stop the clock, and since when it stands still.
    stopped: (usize, Instant),
}

/// As far in the future as a limit ever is. `Instant` overflows past some centuries.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl WallClock {
    /// Starts at `now`, with the server's limit and the client's.
    pub(crate) fn start(now: Instant, own: Duration, asked: Option<Duration>) -> Self {
        let at = |limit: Duration| now + limit.min(DURATION_MAX);
        Self { own, own_at: at(own), asked: asked.map(|limit| (limit, at(limit))), stopped: (0, now) }
    }

    /// When the next limit is reached; `None` while the clock stands still and the client set no limit: the calls
    /// that it waits for have deadlines of their own.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let own_at = (self.stopped.0 == 0).then_some(self.own_at);
        own_at.into_iter().chain(self.asked.map(|(_, at)| at)).min()
    }

    /// Whether a limit is reached.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// The limit that was reached.
    pub(crate) fn exceeded(&self, now: Instant) -> Duration {
        match self.asked {
            Some((limit, at)) if at <= now && (self.stopped.0 > 0 || at <= self.own_at) => limit,
            Some(_) | None => self.own,
        }
    }

    /// What is left of the time that the client asked for, if it did.
    pub(crate) fn asked_left(&self, now: Instant) -> Option<Duration> {
        self.asked.map(|(_, at)| at.saturating_duration_since(now))
    }

    /// A call with a limit of its own begins.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.stopped.0 == 0 {
            self.stopped.1 = now;
        }
        self.stopped.0 += 1;
    }

    /// Such a call is over.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.stopped.0 = self.stopped.0.saturating_sub(1);
        if self.stopped.0 == 0 {
            self.own_at += now.saturating_duration_since(self.stopped.1);
        }
    }
}

impl Session {
    /// The next time at which something has to be done.
    pub(crate) fn wake_at(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let timers = self.engine.guest.timers.borrow_mut().next_at();
        let background = self.background_wait(now);
        let timers = timers.map(|at| match background {
            Some(later) if self.evals.running.is_none() => at.max(later),
            Some(_) | None => at,
        });
        let background = background.filter(|_| self.has_background_work());
        let calls = self.call_deadlines.first().map(|(at, _)| *at);
        let eval = self.evals.running.as_ref().and_then(|running| running.clock.deadline());
        let invocations = self.invocations.values().filter_map(|call| call.clock.deadline()).min();
        [timers, background, calls, eval, invocations].into_iter().flatten().min()
    }

    /// Ends what took too long. Only with an empty JavaScript stack.
    pub(crate) async fn check_deadlines(&mut self) {
        let now = Instant::now();
        self.expire_calls(now).await;
        self.expire_invocations(now).await;
        if self.evals.running.as_ref().is_some_and(|running| running.clock.is_over(now)) {
            self.stop_eval(Stop::Wall).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn wall_clock_without_calls_ends_at_the_smaller_limit() {
        let now = Instant::now();
        assert_eq!(WallClock::start(now, 5 * SECOND, None).deadline(), Some(now + 5 * SECOND));
        let clock = WallClock::start(now, 5 * SECOND, Some(SECOND));
        assert_eq!(clock.deadline(), Some(now + SECOND));
        assert_eq!(clock.exceeded(now + SECOND), SECOND);
        let clock = WallClock::start(now, 5 * SECOND, Some(Duration::MAX));
        assert_eq!(clock.deadline(), Some(now + 5 * SECOND));
        assert_eq!(clock.exceeded(now + 5 * SECOND), 5 * SECOND);
    }

    #[test]
    fn wall_clock_stopped_without_a_client_limit_has_no_deadline() {
        let now = Instant::now();
        let mut clock = WallClock::start(now, SECOND, None);
        clock.stop(now);
        assert_eq!(clock.deadline(), None);
        clock.resume(now + 10 * SECOND);
        assert_eq!(clock.deadline(), Some(now + 11 * SECOND));
    }

    #[test]
    fn wall_clock_stopped_moves_only_the_servers_limit() {
        let now = Instant::now();
        let mut clock = WallClock::start(now, 5 * SECOND, Some(60 * SECOND));
        clock.stop(now + SECOND);
        clock.stop(now + 2 * SECOND);
        assert_eq!(clock.deadline(), Some(now + 60 * SECOND));
        assert_eq!(clock.exceeded(now + 60 * SECOND), 60 * SECOND);
        clock.resume(now + 3 * SECOND);
        assert_eq!(clock.deadline(), Some(now + 60 * SECOND));
        clock.resume(now + 31 * SECOND);
        // 30 s of waiting from the first call to the last.
        assert_eq!(clock.deadline(), Some(now + 35 * SECOND));
        assert!(!clock.is_over(now + 34 * SECOND) && clock.is_over(now + 35 * SECOND));
        assert_eq!(clock.asked_left(now + 31 * SECOND), Some(29 * SECOND));
    }
}
