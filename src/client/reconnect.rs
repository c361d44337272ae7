//! When to dial again, and how long to wait before.
//!
//! Off by default: a client that reconnects may find its session gone, and only its owner knows whether that matters.

use std::time::Duration;

use crate::concurrency::Backoff;
use crate::transport::close_code;

/// Try again later: sent by servers that restart, and by proxies before them.
const RESTARTING: std::ops::RangeInclusive<u16> = 1012..=1014;

/// How a client reconnects after an unexpected end of its connection.
#[derive(Debug, Clone, Copy)]
pub struct Reconnect {
    /// The wait before the first attempt; it doubles with each further one.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
    /// Attempts before it gives up.
    pub attempts: u32,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { initial: Duration::from_millis(200), max: Duration::from_secs(10), attempts: 10 }
    }
}

impl Reconnect {
    /// The waits before the attempts: each between half and all of the doubled time.
    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.initial, self.max).with_jitter(0.5..=1.0)
    }
}

/// Whether to dial again after a connection that ended with this code. Not after a deliberate close, nor after an
/// error that would repeat.
pub(super) fn is_unexpected(code: u16) -> bool {
    match code {
        close_code::GOING_AWAY | close_code::NO_STATUS | close_code::ABNORMAL | close_code::INTERNAL => true,
        other => RESTARTING.contains(&other),
    }
}

/// What became of the session after a reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Whether it is the same session; otherwise its state is gone.
    pub resumed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_waits_are_half_to_all_of_the_doubled_time() {
        let policy =
            Reconnect { initial: Duration::from_millis(100), max: Duration::from_secs(1), attempts: 99 };
        for (random, percent) in [(0.0, 50), (0.5, 75), (1.0, 100)] {
            let mut backoff = policy.backoff();
            for (attempt, full) in [100, 200, 400, 800, 1000, 1000].into_iter().enumerate() {
                let expected = Duration::from_millis(full) * percent / 100;
                assert_eq!(backoff.next_wait(random), expected, "attempt {attempt}, random {random}");
            }
        }
    }

    #[test]
    fn deliberate_close_is_not_reconnected() {
        for code in [1000, 1002, 1003, 1008, 1009, 4001] {
            assert!(!is_unexpected(code), "{code}");
        }
        for code in [1001, 1005, 1006, 1011, 1012, 1013] {
            assert!(is_unexpected(code), "{code}");
        }
    }
}
