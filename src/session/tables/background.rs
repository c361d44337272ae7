//! CPU time for what runs when no eval does, renewed every minute.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::Time;

const WINDOW: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Background {
    window_start: Time,
    spent: Duration,
    per_minute: Duration,
}

impl Background {
    /// A full budget.
    pub(crate) fn new(now: Time, per_minute: Duration) -> Self {
        Self { window_start: now, spent: Duration::ZERO, per_minute }
    }

    /// What is left of it now.
    pub(crate) fn left(&mut self, now: Time) -> Duration {
        if now.saturating_since(self.window_start) >= WINDOW {
            self.window_start = now;
            self.spent = Duration::ZERO;
        }
        self.per_minute.saturating_sub(self.spent)
    }

    /// Counts what was used.
    pub(crate) fn charge(&mut self, used: Duration) {
        self.spent += used;
    }

    /// When it is renewed.
    pub(crate) fn renewed_at(&self) -> Time {
        self.window_start + WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_budget_spent_is_renewed_after_a_minute() {
        let at = |seconds| Time::after_start(Duration::from_secs(seconds));
        let mut background = Background::new(at(5), Duration::from_secs(1));
        background.charge(Duration::from_millis(1_500));
        assert_eq!(background.left(at(64)), Duration::ZERO);
        assert_eq!(background.left(at(65)), Duration::from_secs(1));
    }
}
