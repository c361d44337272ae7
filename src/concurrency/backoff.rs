//! How long to wait before the next attempt: the one rule for links, clients, services and command packages.
//!
//! Pure: the random number is a parameter, so that a test can choose it.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Waits that double up to a maximum. With jitter, many clients of one server do not reconnect in step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    /// Each wait is multiplied by a random number of this range.
    jitter: RangeInclusive<f64>,
    failures: u32,
}

impl Backoff {
    /// Waits from `first` to `max` without jitter.
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, jitter: 1.0..=1.0, failures: 0 }
    }

    /// Multiplies each wait by a random number of `factors`, which must not be negative.
    #[must_use]
    pub(crate) fn with_jitter(self, factors: RangeInclusive<f64>) -> Self {
        let jitter = factors.start().max(0.0)..=factors.end().max(0.0);
        Self { jitter, ..self }
    }

    /// The wait before the next attempt. `random` is between 0 and 1; see [`random_fraction`].
    pub(crate) fn next_wait(&mut self, random: f64) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        let (low, high) = (*self.jitter.start(), *self.jitter.end());
        doubled.min(self.max).mul_f64(low + (high - low) * random.clamp(0.0, 1.0))
    }

    /// An attempt succeeded: the next wait is the first one again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number between 0 and 1 for [`Backoff::next_wait`]. Not fit for secrets.
pub(crate) fn random_fraction() -> f64 {
    // Every `RandomState` has keys of its own, which the standard library draws at random.
    let random = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(random).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(200), Duration::from_secs(5))
    }

    #[test]
    fn waits_double_up_to_the_maximum_until_reset() {
        let mut backoff = backoff();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next_wait(0.5).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next_wait(0.5).as_millis(), 200);
    }

    #[test]
    fn jitter_stays_between_its_factors() {
        for (random, expected_ms) in [(0.0, 160), (0.5, 200), (1.0, 240), (-7.0, 160), (7.0, 240)] {
            let wait = backoff().with_jitter(0.8..=1.2).next_wait(random);
            assert_eq!(wait, Duration::from_millis(expected_ms), "{random}");
        }
    }

    #[test]
    fn endless_failures_stay_at_the_maximum() {
        let mut backoff = Backoff { failures: u32::MAX - 1, ..backoff() };
        assert_eq!(backoff.next_wait(0.5), Duration::from_secs(5));
        assert_eq!(backoff.next_wait(0.5), Duration::from_secs(5));
    }

    #[test]
    fn random_fractions_are_between_zero_and_one_and_differ() {
        let fractions: Vec<f64> = (0..64).map(|_| random_fraction()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..=1.0).contains(fraction)), "{fractions:?}");
        assert!(fractions.iter().any(|fraction| *fraction != fractions[0]));
    }
}
