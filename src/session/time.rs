//! A moment of a session's life: the time since the session began.
//!
//! A session that is stored and continued elsewhere has no use for the clock of the machine it came from, so its state
//! has only times of its own. The driver turns the clock into them, one reading per turn.

use std::ops::{Add, AddAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Time(Duration);

impl Time {
    /// The moment that long after the session began.
    pub(crate) const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the session began.
    pub(crate) const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to here, zero if `earlier` is later.
    pub(crate) fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, wait: Duration) {
        *self = *self + wait;
    }
}
