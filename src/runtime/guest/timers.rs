//! When which timer of the script fires.
//!
//! The callbacks live in the prelude; here are only their times. A cleared timer stays in the heap until its time,
//! so clearing costs nothing; the heap is rebuilt when the dead outnumber the living.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Instant;

use super::ChargedTo;

/// The heap may hold this many dead timers before it is rebuilt.
const DEAD_KEPT_MAX: usize = 1024;

/// The timers of a session.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    /// By timer: its entry in the heap, and for whom it was set.
    live: HashMap<u64, (u64, ChargedTo)>,
    entries: u64,
    live_max: usize,
}

impl Timers {
    /// Room for `live_max` timers.
    pub(crate) fn new(live_max: usize) -> Self {
        Self { heap: BinaryHeap::new(), live: HashMap::new(), entries: 0, live_max }
    }

    /// Sets a timer; `false` when there are too many.
    pub(crate) fn set(&mut self, timer: u64, at: Instant, owner: ChargedTo) -> bool {
        if self.live.len() >= self.live_max && !self.live.contains_key(&timer) {
            return false;
        }
        self.entries += 1;
        self.live.insert(timer, (self.entries, owner));
        self.heap.push(Reverse((at, self.entries, timer)));
        true
    }

    /// Forgets a timer.
    pub(crate) fn clear(&mut self, timer: u64) {
        self.live.remove(&timer);
        if self.heap.len() > self.live.len() + DEAD_KEPT_MAX {
            let live = &self.live;
            self.heap.retain(|Reverse((_, entry, timer))| {
                live.get(timer).is_some_and(|(known, _)| known == entry)
            });
        }
    }

    /// When the next one fires.
    pub(crate) fn next_at(&mut self) -> Option<Instant> {
        self.drop_dead();
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes one whose time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, ChargedTo)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((_, _, timer)) = self.heap.pop()?;
        let (_, owner) = self.live.remove(&timer)?;
        Some((timer, owner))
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    fn drop_dead(&mut self) {
        while let Some(Reverse((_, entry, timer))) = self.heap.peek()
            && self.live.get(timer).is_none_or(|(known, _)| known != entry)
        {
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timers_fire_in_order_of_time_then_of_setting() {
        let mut timers = Timers::new(10);
        let now = Instant::now();
        assert!(timers.set(1, now + Duration::from_millis(5), ChargedTo::Background));
        assert!(timers.set(2, now, ChargedTo::Background));
        assert!(timers.set(3, now, ChargedTo::Background));
        assert_eq!(timers.take_due(now), Some((2, ChargedTo::Background)));
        assert_eq!(timers.take_due(now), Some((3, ChargedTo::Background)));
        assert_eq!(timers.take_due(now), None);
        assert_eq!(timers.next_at(), Some(now + Duration::from_millis(5)));
    }

    #[test]
    fn a_cleared_timer_never_fires_and_makes_room() {
        let mut timers = Timers::new(1);
        let now = Instant::now();
        assert!(timers.set(1, now, ChargedTo::Background));
        assert!(!timers.set(2, now, ChargedTo::Background));
        timers.clear(1);
        assert!(timers.set(2, now, ChargedTo::Background));
        assert_eq!(timers.take_due(now), Some((2, ChargedTo::Background)));
        assert_eq!(timers.take_due(now), None);
    }

    #[test]
    fn setting_and_clearing_forever_takes_bounded_room() {
        let mut timers = Timers::new(10);
        let later = Instant::now() + Duration::from_secs(60);
        for timer in 0..100_000 {
            assert!(timers.set(timer, later, ChargedTo::Background));
            timers.clear(timer);
        }
        assert!(timers.heap.len() <= DEAD_KEPT_MAX + 1);
    }
}
