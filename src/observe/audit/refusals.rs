//! Refusals of one kind, recorded together: the first right away, those after it once in a while with their number.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use super::Event;

/// How long refusals of one kind are gathered into one record. A flood of every kind makes less than a record a second.
const GATHER_FOR: Duration = Duration::from_secs(10);

/// What was gathered, by reason. Reasons come from a fixed set, so the table is small.
#[derive(Debug, Default)]
pub(super) struct Refusals(HashMap<&'static str, Gathered>);

#[derive(Debug)]
struct Gathered {
    due: Instant,
    count: u64,
    last: SystemTime,
}

impl Refusals {
    /// Takes a refusal in; the record to write now, if it is the first in a while.
    pub(super) fn take(
        &mut self,
        reason: &'static str,
        count: u64,
        at: SystemTime,
        now: Instant,
    ) -> Option<Event> {
        if let Some(gathered) = self.0.get_mut(reason) {
            gathered.count = gathered.count.saturating_add(count);
            gathered.last = at;
            return None;
        }
        self.0.insert(reason, Gathered { due: now + GATHER_FOR, count: 0, last: at });
        Some(Event::Refused { reason, count })
    }

    /// When the next record is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().map(|gathered| gathered.due).min()
    }

    /// The records that are due; all of them without a time. A reason that had none in a while is forgotten.
    pub(super) fn take_due(&mut self, now: Option<Instant>) -> Vec<(SystemTime, Event)> {
        let mut records = Vec::new();
        self.0.retain(|reason, gathered| {
            if now.is_some_and(|now| now < gathered.due) {
                return true;
            }
            let count = std::mem::take(&mut gathered.count);
            if count > 0 {
                records.push((gathered.last, Event::Refused { reason, count }));
                gathered.due += GATHER_FOR;
            }
            count > 0
        });
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_after_the_first_are_recorded_together() {
        let (mut refusals, start, at) = (Refusals::default(), Instant::now(), SystemTime::now());
        let event = |reason, count| Event::Refused { reason, count };
        assert_eq!(refusals.take("no-token", 1, at, start), Some(event("no-token", 1)));
        for _ in 0..1_000 {
            assert_eq!(refusals.take("no-token", 1, at, start), None);
        }
        assert_eq!(refusals.take("origin", 1, at, start), Some(event("origin", 1)));
        assert!(refusals.take_due(Some(start)).is_empty());
        assert_eq!(refusals.next_due(), Some(start + GATHER_FOR));
        assert_eq!(refusals.take_due(Some(start + GATHER_FOR)), [(at, event("no-token", 1_000))]);
        // Nothing more of either: both are forgotten, and the next is a first again.
        assert!(refusals.take_due(Some(start + 2 * GATHER_FOR)).is_empty());
        assert_eq!(refusals.next_due(), None);
        assert_eq!(refusals.take("origin", 1, at, start), Some(event("origin", 1)));
    }

    #[test]
    fn refusals_without_a_time_are_all_due() {
        let (mut refusals, now, at) = (Refusals::default(), Instant::now(), SystemTime::now());
        refusals.take("host", 1, at, now);
        refusals.take("host", 2, at, now);
        assert_eq!(refusals.take_due(None), [(at, Event::Refused { reason: "host", count: 2 })]);
    }
}
