//! CPU time of the running script, and requests to stop it.
//!
//! The interrupt handler polls the meter; the session reads and resets it between turns. Time is counted only while
//! JavaScript runs: a script that waits for a binding, or for its neighbours, is not charged.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::slice;
use crate::session::Stop;

/// How long a script runs before its neighbours are served.
/// What is quick waits for one slice of a script that is not, so this is the delay beside endless loops. QuickJS polls every
/// ten thousand back-edges and calls, which takes the tightest loop twice as long: at every poll other sessions run.
pub(crate) const SLICE: Duration = Duration::from_micros(20);

/// What the interrupt handler does next.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Run on.
    Continue,
    /// Let the others run, then ask again.
    Suspend,
    /// End the script.
    Stop,
}

/// Counts CPU time for one session.
#[derive(Debug)]
pub(crate) struct Meter {
    slice_start: Cell<Instant>,
    spent: Cell<Duration>,
    budget: Cell<Duration>,
    stop: Cell<Option<Stop>>,
    /// Whether a turn is on, so that allocations are looked at.
    in_turn: Cell<bool>,
}

impl Meter {
    /// A meter with nothing spent and no budget.
    pub(crate) fn new() -> Self {
        Self {
            slice_start: Cell::new(Instant::now()),
            spent: Cell::new(Duration::ZERO),
            budget: Cell::new(Duration::ZERO),
            stop: Cell::new(None),
            in_turn: Cell::new(false),
        }
    }

    /// Begins a turn: `spent` so far of `budget`.
    pub(crate) fn begin(&self, spent: Duration, budget: Duration) {
        self.spent.set(spent);
        self.budget.set(budget);
        self.stop.set(None);
        self.in_turn.set(true);
        self.slice_start.set(Instant::now());
    }

    /// Ends the turn. Returns the total.
    pub(crate) fn finish(&self) -> Duration {
        self.in_turn.set(false);
        self.end_slice()
    }

    /// Whether a turn is on.
    pub(crate) fn in_turn(&self) -> bool {
        self.in_turn.get()
    }

    /// Resumes JavaScript after a suspension.
    pub(crate) fn resume_slice(&self) {
        self.slice_start.set(Instant::now());
    }

    /// Counts the time of a slice that ended. Returns the total.
    pub(crate) fn end_slice(&self) -> Duration {
        let now = Instant::now();
        let spent = self.spent.get() + now.saturating_duration_since(self.slice_start.get());
        self.slice_start.set(now);
        self.spent.set(spent);
        spent
    }

    /// Asks the script to end at its next poll. The first reason wins.
    pub(crate) fn request_stop(&self, reason: Stop) {
        if self.stop.get().is_none() {
            self.stop.set(Some(reason));
        }
    }

    /// Why it was asked to end, if it was.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Whether the script is to end now. Lets the others run first when the slice is used up.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match self.poll(now) {
            Verdict::Continue => false,
            Verdict::Stop => true,
            Verdict::Suspend => {
                slice::suspend();
                self.stop.get().is_some()
            }
        }
    }

    /// What the interrupt handler does next.
    fn poll(&self, now: Instant) -> Verdict {
        if self.stop.get().is_some() {
            return Verdict::Stop;
        }
        let in_slice = now.saturating_duration_since(self.slice_start.get());
        if self.spent.get() + in_slice >= self.budget.get() {
            self.stop.set(Some(Stop::Cpu));
            return Verdict::Stop;
        }
        if in_slice < SLICE { Verdict::Continue } else { Verdict::Suspend }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_ends_before_the_budget() {
        let meter = Meter::new();
        meter.begin(Duration::ZERO, Duration::from_secs(5));
        let start = meter.slice_start.get();
        assert_eq!(meter.poll(start + SLICE / 2), Verdict::Continue);
        assert_eq!(meter.poll(start + SLICE), Verdict::Suspend);
    }

    #[test]
    fn spent_budget_stops_the_script() {
        let meter = Meter::new();
        meter.begin(Duration::from_millis(4_999), Duration::from_secs(5));
        let start = meter.slice_start.get();
        assert_eq!(meter.poll(start), Verdict::Continue);
        assert_eq!(meter.poll(start + Duration::from_millis(1)), Verdict::Stop);
        assert_eq!(meter.stopped(), Some(Stop::Cpu));
    }

    #[test]
    fn first_stop_reason_wins() {
        let meter = Meter::new();
        meter.begin(Duration::ZERO, Duration::from_secs(5));
        meter.request_stop(Stop::Cancelled);
        meter.request_stop(Stop::Wall);
        assert_eq!(meter.poll(Instant::now()), Verdict::Stop);
        assert_eq!(meter.stopped(), Some(Stop::Cancelled));
        meter.begin(Duration::ZERO, Duration::from_secs(5));
        assert_eq!(meter.stopped(), None);
    }
}
