//! What waits for an agent: the most urgent first, and among equals the oldest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::wire::Priority;

/// Messages that wait for one agent; one more is refused with what would have been said without waiting.
pub(crate) const PARKED_MAX: usize = 256;

/// A bounded queue with priorities.
#[derive(Debug)]
pub(crate) struct Parked<T> {
    waiting: BTreeMap<(Reverse<Priority>, u64), T>,
    next: u64,
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> Parked<T> {
    /// Puts one in; gives it back if there is no room.
    pub(crate) fn push(&mut self, priority: Priority, item: T) -> Result<(), T> {
        if self.waiting.len() >= PARKED_MAX {
            return Err(item);
        }
        self.waiting.insert((Reverse(priority), self.next), item);
        self.next += 1;
        Ok(())
    }

    /// Takes out the one whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.waiting.pop_first().map(|(_, item)| item)
    }

    /// Takes out all that are not to be kept.
    pub(crate) fn take(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        self.waiting.extract_if(.., |_, item| wanted(item)).map(|(_, item)| item).collect()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_ones_overtake_and_equals_keep_their_order() {
        let mut parked = Parked::default();
        let order = [
            (Priority::Low, 1),
            (Priority::Normal, 2),
            (Priority::Critical, 3),
            (Priority::High, 4),
            (Priority::Normal, 5),
            (Priority::Critical, 6),
        ];
        for (priority, item) in order {
            parked.push(priority, item).unwrap();
        }
        let out: Vec<_> = std::iter::from_fn(|| parked.pop()).collect();
        assert_eq!(out, [3, 6, 4, 2, 5, 1]);
        assert!(parked.is_empty());
    }

    #[test]
    fn the_last_place_is_taken_and_one_more_is_given_back() {
        let mut parked = Parked::default();
        for item in 0..PARKED_MAX {
            parked.push(Priority::Low, item).unwrap();
        }
        assert_eq!(parked.push(Priority::Critical, 7), Err(7));
        assert_eq!(parked.len(), PARKED_MAX);
    }

    #[test]
    fn those_taken_out_are_gone_and_the_others_keep_their_order() {
        let mut parked = Parked::default();
        for item in 0..6 {
            parked.push(Priority::Normal, item).unwrap();
        }
        assert_eq!(parked.take(|item| item % 2 == 0), [0, 2, 4]);
        let out: Vec<_> = std::iter::from_fn(|| parked.pop()).collect();
        assert_eq!(out, [1, 3, 5]);
    }
}
