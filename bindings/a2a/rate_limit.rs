//! Limits the frames that a client may send per second.

/// A token bucket: each frame takes a token, time adds tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenBucket {
    tokens: f64,
    filled_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

impl Default for Rate {
    /// Far more than people and agents send; only a client in a loop reaches it.
    fn default() -> Self {
        Self { per_second: 5000.0, burst: 10_000.0 }
    }
}

impl TokenBucket {
    pub(crate) fn full(rate: Rate, now_ms: u64) -> Self {
        Self { tokens: rate.burst, filled_ms: now_ms }
    }

    /// Takes a token; returns whether there was one.
    pub(crate) fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.filled_ms) as f64 / 1000.0;
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst);
        self.filled_ms = now_ms;
        let has_token = self.tokens >= 1.0;
        if has_token {
            self.tokens -= 1.0;
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    #[test]
    fn burst_is_allowed_and_one_more_frame_is_not() {
        let mut bucket = TokenBucket::full(RATE, 0);
        let taken: Vec<_> = (0..4).map(|_| bucket.take(RATE, 0)).collect();
        assert_eq!(taken, [true, true, true, false]);
    }

    #[test]
    fn time_refills_the_bucket_up_to_the_burst() {
        let mut bucket = TokenBucket::full(RATE, 0);
        while bucket.take(RATE, 0) {}
        assert!(!bucket.take(RATE, 499));
        assert!(bucket.take(RATE, 1000));
        let burst = (0..10).filter(|_| bucket.take(RATE, 1_000_000)).count();
        assert_eq!(burst, 3);
    }

    #[test]
    fn clock_that_goes_back_adds_no_tokens() {
        let mut bucket = TokenBucket::full(RATE, 1_000_000);
        while bucket.take(RATE, 1_000_000) {}
        assert!(!bucket.take(RATE, 0));
    }
}
