//! When to dial again, and how long to wait before.
//!
//! Off unless asked for: a client that comes back may find its session gone, and only its owner knows whether that
//! matters. Pure, but for the one random number that keeps many clients from coming back in step.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::transport::close_code;

/// Try again later: sent by servers that restart, and by proxies before them.
const RESTARTING: std::ops::RangeInclusive<u16> = 1012..=1014;

/// How a client comes back after an unexpected end of its connection.
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
    /// The wait before an attempt, counted from 0: between half and all of the doubled time.
    pub(super) fn wait(&self, attempt: u32) -> Duration {
        let full = self.initial.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(self.max);
        let random = RandomState::new().hash_one(attempt) % 1024;
        let share = u32::try_from(random).unwrap_or(0);
        full / 2 + full / 2048 * share
    }
}

/// Whether a connection that ended so is worth dialling again. A close on purpose is not, nor one that would repeat.
pub(super) fn is_unexpected(code: u16) -> bool {
    match code {
        close_code::GOING_AWAY | close_code::NO_STATUS | close_code::ABNORMAL | close_code::INTERNAL => true,
        other => RESTARTING.contains(&other),
    }
}

/// What became of the session when the connection came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Whether it is the same session; otherwise its state is gone.
    pub resumed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_maximum() {
        let policy =
            Reconnect { initial: Duration::from_millis(100), max: Duration::from_secs(1), attempts: 99 };
        for (attempt, full) in [(0, 100), (1, 200), (3, 800), (4, 1000), (31, 1000), (98, 1000)] {
            let wait = policy.wait(attempt);
            let full = Duration::from_millis(full);
            assert!(wait >= full / 2 && wait <= full, "attempt {attempt}: {wait:?}");
        }
    }

    #[test]
    fn a_close_on_purpose_is_final() {
        for code in [1000, 1002, 1003, 1008, 1009, 4001] {
            assert!(!is_unexpected(code), "{code}");
        }
        for code in [1001, 1005, 1006, 1011, 1012, 1013] {
            assert!(is_unexpected(code), "{code}");
        }
    }
}
