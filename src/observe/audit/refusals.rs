//! Refusals of one kind, recorded together: the first immediately, those after it periodically with their number.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use super::Event;

/// How long refusals of one kind are gathered into one record. A flood of every kind makes less than a record a second.
const GATHER_FOR: Duration = Duration::from_secs(10);

/// Refusals of one kind are gathered into one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RefusalKind {
    /// Of a peer that has not authenticated.
    Gate { reason: &'static str },
    /// Of a principal without the role.
    Role { principal: String, role: &'static str },
}

impl RefusalKind {
    fn into_event(self, count: u64) -> Event {
        match self {
            Self::Gate { reason } => Event::Refused { reason, count },
            Self::Role { principal, role } => Event::RoleRefused { principal, role, count },
        }
    }
}

/// What was gathered, by kind. Reasons, roles and the principals of tokens come from fixed sets, so the table is small.
#[derive(Debug, Default)]
pub(super) struct Refusals(HashMap<RefusalKind, RefusalCount>);

#[derive(Debug)]
struct RefusalCount {
    due: Instant,
    count: u64,
    last: SystemTime,
}

impl Refusals {
    /// Counts a refusal. Returns the record to write now, if it is the first in a while.
    pub(super) fn take(
        &mut self,
        kind: RefusalKind,
        count: u64,
        at: SystemTime,
        now: Instant,
    ) -> Option<Event> {
        if let Some(gathered) = self.0.get_mut(&kind) {
            gathered.count = gathered.count.saturating_add(count);
            gathered.last = at;
            return None;
        }
        self.0.insert(kind.clone(), RefusalCount { due: now + GATHER_FOR, count: 0, last: at });
        Some(kind.into_event(count))
    }

    /// When the next record is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().map(|gathered| gathered.due).min()
    }

    /// The records that are due; all of them without a time. A kind that had none in a while is forgotten.
    pub(super) fn take_due(&mut self, now: Option<Instant>) -> Vec<(SystemTime, Event)> {
        let mut records = Vec::new();
        self.0.retain(|kind, gathered| {
            if now.is_some_and(|now| now < gathered.due) {
                return true;
            }
            let count = std::mem::take(&mut gathered.count);
            if count > 0 {
                records.push((gathered.last, kind.clone().into_event(count)));
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

    fn gate(reason: &'static str) -> RefusalKind {
        RefusalKind::Gate { reason }
    }

    #[test]
    fn refusals_after_the_first_are_recorded_together() {
        let (mut refusals, start, at) = (Refusals::default(), Instant::now(), SystemTime::now());
        let event = |reason, count| Event::Refused { reason, count };
        assert_eq!(refusals.take(gate("no-token"), 1, at, start), Some(event("no-token", 1)));
        for _ in 0..1_000 {
            assert_eq!(refusals.take(gate("no-token"), 1, at, start), None);
        }
        assert_eq!(refusals.take(gate("origin"), 1, at, start), Some(event("origin", 1)));
        assert!(refusals.take_due(Some(start)).is_empty());
        assert_eq!(refusals.next_due(), Some(start + GATHER_FOR));
        assert_eq!(refusals.take_due(Some(start + GATHER_FOR)), [(at, event("no-token", 1_000))]);
        // Nothing more of either: both are forgotten, and the next is a first again.
        assert!(refusals.take_due(Some(start + 2 * GATHER_FOR)).is_empty());
        assert_eq!(refusals.next_due(), None);
        assert_eq!(refusals.take(gate("origin"), 1, at, start), Some(event("origin", 1)));
    }

    #[test]
    fn refusals_without_a_time_are_all_due() {
        let (mut refusals, now, at) = (Refusals::default(), Instant::now(), SystemTime::now());
        refusals.take(gate("host"), 1, at, now);
        refusals.take(gate("host"), 2, at, now);
        assert_eq!(refusals.take_due(None), [(at, Event::Refused { reason: "host", count: 2 })]);
    }

    #[test]
    fn refused_roles_are_recorded_together_by_principal() {
        let (mut refusals, now, at) = (Refusals::default(), Instant::now(), SystemTime::now());
        let kind = |name: &str| RefusalKind::Role { principal: name.to_owned(), role: "operator" };
        for name in ["ann", "bob"] {
            assert_eq!(refusals.take(kind(name), 1, at, now), Some(kind(name).into_event(1)));
        }
        for _ in 0..1_000 {
            assert_eq!(refusals.take(kind("ann"), 1, at, now), None);
        }
        assert_eq!(refusals.take_due(None), [(at, kind("ann").into_event(1_000))]);
    }
}
