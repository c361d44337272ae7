//! The one place where a session reads the clock and draws random numbers, so that a test can choose both.

use std::cell::RefCell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::session::Time;

/// Time and chance for one session.
#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// Milliseconds from 1970 to the start of the session.
    origin_ms: f64,
    /// The state of the generator of a seeded session.
    seed: Option<RefCell<u64>>,
}

impl Clock {
    /// Starts now, with the randomness of the operating system.
    pub(crate) fn start() -> Self {
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch: Instant::now(), origin_ms: origin.as_secs_f64() * 1e3, seed: None }
    }

    /// Starts now; random bytes follow from `seed`. For tests: what it draws can be predicted.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed: Some(RefCell::new(seed)), ..Self::start() }
    }

    /// The time since the session began.
    pub(crate) fn now(&self) -> Time {
        Time::after_start(self.epoch.elapsed())
    }

    /// When that moment of the session is by the clock of this process.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.epoch.checked_add(time.since_start()).unwrap_or_else(|| self.epoch + crate::limits::DURATION_MAX)
    }

    /// Milliseconds from 1970 to the start of the session.
    pub(crate) fn origin_ms(&self) -> f64 {
        self.origin_ms
    }

    /// Fills `bytes` with random ones; `false` when the operating system has none.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) -> bool {
        let Some(seed) = &self.seed else { return getrandom::fill(bytes).is_ok() };
        let mut seed = seed.borrow_mut();
        for chunk in bytes.chunks_mut(8) {
            *seed = split_mix(*seed);
            chunk.copy_from_slice(&seed.to_le_bytes()[..chunk.len()]);
        }
        true
    }
}

/// One step of a generator that is good enough for tests.
fn split_mix(state: u64) -> u64 {
    let mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_clock_draws_the_same_bytes_again() {
        let draw = |clock: Clock| {
            let mut bytes = [0; 20];
            assert!(clock.fill_random(&mut bytes));
            bytes
        };
        assert_eq!(draw(Clock::seeded(7)), draw(Clock::seeded(7)));
        assert_ne!(draw(Clock::seeded(7)), draw(Clock::seeded(8)));
        assert_ne!(draw(Clock::start()), [0; 20]);
    }
}
