//! When which timer of the script fires.
//!
//! The callbacks live in the prelude; here are only their times.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::session::{ChargedTo, Time};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Timer {
    at: Time,
    /// Of two timers with the same time the one that was set first fires first.
    order: u64,
    charged_to: ChargedTo,
}

/// The timers of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Timers {
    timers: BTreeMap<u64, Timer>,
    due: BTreeSet<(Time, u64, u64)>,
    next_order: u64,
    timers_max: usize,
}

impl Timers {
    /// Room for `timers_max`.
    pub(crate) fn new(timers_max: usize) -> Self {
        Self { timers: BTreeMap::new(), due: BTreeSet::new(), next_order: 0, timers_max }
    }

    /// Sets a timer; `false` when there are too many.
    pub(crate) fn set(&mut self, timer: u64, at: Time, charged_to: ChargedTo) -> bool {
        if self.timers.len() >= self.timers_max && !self.timers.contains_key(&timer) {
            return false;
        }
        self.clear(timer);
        let order = self.next_order;
        self.next_order += 1;
        self.timers.insert(timer, Timer { at, order, charged_to });
        self.due.insert((at, order, timer));
        true
    }

    /// Forgets a timer.
    pub(crate) fn clear(&mut self, timer: u64) {
        if let Some(Timer { at, order, .. }) = self.timers.remove(&timer) {
            self.due.remove(&(at, order, timer));
        }
    }

    /// When the next one fires.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.due.first().map(|(at, _, _)| *at)
    }

    /// Takes one whose time has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(u64, ChargedTo)> {
        let (at, _, timer) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.timers.remove(&timer).map(|known| (timer, known.charged_to))
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether none is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BACKGROUND: ChargedTo = ChargedTo::Background;

    fn at(ms: u64) -> Time {
        Time::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn timers_fire_in_order_of_time_then_of_setting() {
        let mut timers = Timers::new(10);
        assert!(timers.set(1, at(5), BACKGROUND));
        assert!(timers.set(2, at(0), BACKGROUND));
        assert!(timers.set(3, at(0), BACKGROUND));
        assert_eq!(timers.take_due(at(0)), Some((2, BACKGROUND)));
        assert_eq!(timers.take_due(at(0)), Some((3, BACKGROUND)));
        assert_eq!(timers.take_due(at(0)), None);
        assert_eq!(timers.next_at(), Some(at(5)));
    }

    #[test]
    fn timer_cleared_never_fires_and_makes_room() {
        let mut timers = Timers::new(1);
        assert!(timers.set(1, at(0), BACKGROUND));
        assert!(!timers.set(2, at(0), BACKGROUND));
        timers.clear(1);
        assert!(timers.set(2, at(0), BACKGROUND));
        assert_eq!(timers.take_due(at(0)), Some((2, BACKGROUND)));
        assert_eq!(timers.take_due(at(0)), None);
    }

    #[test]
    fn timer_set_again_fires_once_at_its_new_time() {
        let mut timers = Timers::new(1);
        assert!(timers.set(1, at(0), BACKGROUND) && timers.set(1, at(9), BACKGROUND));
        assert_eq!((timers.take_due(at(8)), timers.len()), (None, 1));
        assert_eq!(timers.take_due(at(9)), Some((1, BACKGROUND)));
        assert!(timers.is_empty());
    }
}
