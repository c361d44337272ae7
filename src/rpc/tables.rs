//! Requests in flight: one table per direction, two key types, ids never reused.
//!
//! Ids of this side are counted from 1, so an answer can be classified without remembering the past: below `next` and
//! not waiting means that it was answered or abandoned. Only abandoned ids are remembered, and only a bounded number.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Id;

/// How many abandoned ids are remembered, to distinguish a late answer (`stale`) from a second one (`duplicate`).
/// Enough for a burst of timeouts; older ones count as duplicates, which are ignored just the same.
const ABANDONED_REMEMBERED_MAX: usize = 1024;

/// The id of a request that this side sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OurId(pub u64);

/// The table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The result of matching an answer to the requests in flight.
#[derive(Debug, PartialEq, Eq)]
pub enum ResponseMatch<T> {
    /// It answers a request in flight.
    Expected(T),
    /// No request had that id.
    Unknown,
    /// It was answered before.
    Duplicate,
    /// The request was abandoned before.
    Stale,
}

impl<T> ResponseMatch<T> {
    /// The name under which ignored answers are counted; `None` for an expected one.
    pub fn stray(&self) -> Option<&'static str> {
        match self {
            Self::Expected(_) => None,
            Self::Unknown => Some("unknown"),
            Self::Duplicate => Some("duplicate"),
            Self::Stale => Some("stale"),
        }
    }
}

/// The requests of this side that wait for their answer.
#[derive(Debug)]
pub struct Outbound<T> {
    next: u64,
    waiting: HashMap<u64, T>,
    abandoned: VecDeque<u64>,
    waiting_max: usize,
}

impl<T> Outbound<T> {
    /// A table for at most `waiting_max` requests in flight.
    pub fn new(waiting_max: usize) -> Self {
        Self { next: 1, waiting: HashMap::new(), abandoned: VecDeque::new(), waiting_max }
    }

    /// Allocates an id for a request whose answer goes to `waiter`.
    pub fn open(&mut self, waiter: T) -> Result<OurId, Full> {
        if self.waiting.len() >= self.waiting_max {
            return Err(Full);
        }
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, waiter);
        Ok(OurId(id))
    }

    /// Matches an answer, and removes the request that it answers.
    pub fn settle(&mut self, id: &Id) -> ResponseMatch<T> {
        let Some(id) = id.as_u64().filter(|id| (1..self.next).contains(id)) else {
            return ResponseMatch::Unknown;
        };
        match self.waiting.remove(&id) {
            Some(waiter) => ResponseMatch::Expected(waiter),
            None if self.abandoned.contains(&id) => ResponseMatch::Stale,
            None => ResponseMatch::Duplicate,
        }
    }

    /// Stops waiting for an answer; should it still come, it is stale.
    pub fn abandon(&mut self, id: OurId) -> Option<T> {
        let waiter = self.waiting.remove(&id.0)?;
        if self.abandoned.len() == ABANDONED_REMEMBERED_MAX {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(id.0);
        Some(waiter)
    }

    /// Removes and returns all waiters, when the connection is over.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain().map(|(_, waiter)| waiter)
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Why a request of the peer is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboundRefusal {
    /// That id is still in flight.
    InFlight,
    /// Too many are in flight.
    Full,
}

/// The requests of the peer that are not answered yet.
#[derive(Debug)]
pub struct Inbound {
    open: HashSet<Id>,
    open_max: usize,
}

impl Inbound {
    /// A table for at most `open_max` unanswered requests.
    pub fn new(open_max: usize) -> Self {
        Self { open: HashSet::new(), open_max }
    }

    /// Adds a request, unless its id is still in flight.
    pub fn admit(&mut self, id: &Id) -> Result<(), InboundRefusal> {
        if self.open.len() >= self.open_max {
            let is_in_flight = self.open.contains(id);
            return Err(if is_in_flight { InboundRefusal::InFlight } else { InboundRefusal::Full });
        }
        if self.open.insert(id.clone()) { Ok(()) } else { Err(InboundRefusal::InFlight) }
    }

    /// Removes a request that is answered: its id may be used again. `false` if it was not open.
    pub fn finish(&mut self, id: &Id) -> bool {
        self.open.remove(id)
    }

    /// How many requests are unanswered.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether all requests are answered.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u64) -> Id {
        Id::from(number)
    }

    #[test]
    fn second_answer_is_a_duplicate() {
        let mut table = Outbound::new(4);
        assert_eq!(table.open("a"), Ok(OurId(1)));
        assert_eq!(table.settle(&id(1)), ResponseMatch::Expected("a"));
        assert_eq!(table.settle(&id(1)), ResponseMatch::Duplicate);
    }

    #[test]
    fn answer_to_an_abandoned_id_is_stale() {
        let mut table = Outbound::new(4);
        let one = table.open("a").unwrap();
        assert_eq!(table.abandon(one), Some("a"));
        assert_eq!(table.abandon(one), None);
        assert_eq!(table.settle(&id(1)), ResponseMatch::Stale);
        assert_eq!(table.settle(&id(2)), ResponseMatch::Unknown);
        assert_eq!(table.settle(&Id::Text("1".into())), ResponseMatch::Unknown);
    }

    #[test]
    fn full_table_refuses_and_recovers() {
        let mut table = Outbound::new(2);
        let first = table.open(1).unwrap();
        assert_eq!(table.open(2), Ok(OurId(2)));
        assert_eq!(table.open(3), Err(Full));
        table.abandon(first);
        assert_eq!(table.open(3), Ok(OurId(3)));
    }

    #[test]
    fn id_in_flight_is_refused_until_answered() {
        let mut table = Inbound::new(2);
        assert_eq!(table.admit(&id(5)), Ok(()));
        assert_eq!(table.admit(&id(5)), Err(InboundRefusal::InFlight));
        assert_eq!(table.admit(&Id::Text("5".into())), Ok(()));
        assert_eq!(table.admit(&id(6)), Err(InboundRefusal::Full));
        assert!(table.finish(&id(5)));
        assert!(!table.finish(&id(5)));
        assert_eq!(table.admit(&id(5)), Ok(()));
    }

    proptest! {
        /// Whatever the order of requests, answers and abandons, each id is expected at most once and never reused.
        #[test]
        fn every_id_is_expected_at_most_once(steps in proptest::collection::vec((0u8..3, 1u64..40), 0..200)) {
            let mut table = Outbound::new(16);
            let (mut issued, mut given_up, mut settled) = (0, HashSet::new(), HashSet::new());
            for (step, number) in steps {
                match step {
                    0 => if let Ok(OurId(new)) = table.open(()) {
                        prop_assert_eq!(new, issued + 1);
                        issued = new;
                    },
                    1 => if table.abandon(OurId(number)).is_some() {
                        prop_assert!(!settled.contains(&number) && given_up.insert(number));
                    },
                    _ => match table.settle(&id(number)) {
                        ResponseMatch::Expected(()) => prop_assert!(!given_up.contains(&number) && settled.insert(number)),
                        ResponseMatch::Unknown => prop_assert!(number > issued),
                        ResponseMatch::Duplicate => prop_assert!(settled.contains(&number)),
                        ResponseMatch::Stale => prop_assert!(given_up.contains(&number)),
                    },
                }
            }
        }
    }
}
