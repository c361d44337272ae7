//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Waits that double up to a maximum, each a little off, so that many clients of one server do not come back at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// How far off a wait may be, as a part of it.
    pub jitter: f64,
    failures: u32,
}

impl Backoff {
    /// Starts with the first wait.
    pub fn new(first: Duration, max: Duration, jitter: f64) -> Self {
        Self { first, max, jitter, failures: 0 }
    }

    /// The next wait. `random` is between 0 and 1.
    pub fn next(&mut self, random: f64) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.max).mul_f64(1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0))
    }

    /// All is well again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

impl Default for Backoff {
    /// 200 ms, doubled up to 5 s, a fifth off.
    fn default() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(5), 0.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_start_anew_after_a_reset() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next(0.5).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(0.5).as_millis(), 200);
    }

    #[test]
    fn a_wait_is_off_by_at_most_a_fifth() {
        assert_eq!(Backoff::default().next(0.0), Duration::from_millis(160));
        assert_eq!(Backoff::default().next(1.0), Duration::from_millis(240));
    }

    #[test]
    fn endless_failures_stay_at_the_maximum() {
        let mut backoff = Backoff { failures: u32::MAX - 1, ..Backoff::default() };
        assert_eq!(backoff.next(0.5), Duration::from_secs(5));
        assert_eq!(backoff.next(0.5), Duration::from_secs(5));
    }
}
