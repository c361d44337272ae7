//! How much a client may send: so many frames a second, and so many at once.

/// A bucket of tokens that fills with time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bucket {
    tokens: f64,
    filled_ms: u64,
}

/// The size of a bucket and how fast it fills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

impl Default for Rate {
    /// No person and no agent comes near this; a client in a loop does.
    fn default() -> Self {
        Self { per_second: 5000.0, burst: 10_000.0 }
    }
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn full(rate: Rate, now_ms: u64) -> Self {
        Self { tokens: rate.burst, filled_ms: now_ms }
    }

    /// Takes one token, if there is one.
    pub(crate) fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.filled_ms) as f64 / 1000.0;
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.filled_ms = now_ms;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    #[test]
    fn a_burst_is_let_through_and_one_more_is_not() {
        let mut bucket = Bucket::full(RATE, 0);
        let taken: Vec<_> = (0..4).map(|_| bucket.take(RATE, 0)).collect();
        assert_eq!(taken, [true, true, true, false]);
    }

    #[test]
    fn time_fills_it_again_up_to_the_burst() {
        let mut bucket = Bucket::full(RATE, 0);
        while bucket.take(RATE, 0) {}
        assert!(!bucket.take(RATE, 499));
        assert!(bucket.take(RATE, 1000));
        let at_once = (0..10).filter(|_| bucket.take(RATE, 1_000_000)).count();
        assert_eq!(at_once, 3);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut bucket = Bucket::full(RATE, 1_000_000);
        while bucket.take(RATE, 1_000_000) {}
        assert!(!bucket.take(RATE, 0));
    }
}
