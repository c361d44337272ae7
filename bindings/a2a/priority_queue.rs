//! A bounded queue for one agent: highest priority first, and in order of arrival within a
//! priority.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::wire::Priority;

/// Messages queued for one agent. One more gets the error that it would have got without queueing.
pub(crate) const QUEUE_LENGTH_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct PriorityQueue<T> {
    items: BTreeMap<(Reverse<Priority>, u64), T>,
    next: u64,
}

impl<T> Default for PriorityQueue<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), next: 0 }
    }
}

impl<T> PriorityQueue<T> {
    /// Adds an item; returns it if the queue is full.
    pub(crate) fn push(&mut self, priority: Priority, item: T) -> Result<(), T> {
        if self.items.len() >= QUEUE_LENGTH_MAX {
            return Err(item);
        }
        self.items.insert((Reverse(priority), self.next), item);
        self.next += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.items.pop_first().map(|(_, item)| item)
    }

    /// Removes and returns the items that match.
    pub(crate) fn take_matching(&mut self, mut is_match: impl FnMut(&T) -> bool) -> Vec<T> {
        self.items.extract_if(.., |_, item| is_match(item)).map(|(_, item)| item).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_by_priority_then_arrival() {
        let mut queue = PriorityQueue::default();
        let order = [
            (Priority::Low, 1),
            (Priority::Normal, 2),
            (Priority::Critical, 3),
            (Priority::High, 4),
            (Priority::Normal, 5),
            (Priority::Critical, 6),
        ];
        for (priority, item) in order {
            queue.push(priority, item).unwrap();
        }
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out, [3, 6, 4, 2, 5, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn push_past_limit_returns_the_item() {
        let mut queue = PriorityQueue::default();
        for item in 0..QUEUE_LENGTH_MAX {
            queue.push(Priority::Low, item).unwrap();
        }
        assert_eq!(queue.push(Priority::Critical, 7), Err(7));
        assert_eq!(queue.len(), QUEUE_LENGTH_MAX);
    }

    #[test]
    fn taken_items_leave_the_others_in_order() {
        let mut queue = PriorityQueue::default();
        for item in 0..6 {
            queue.push(Priority::Normal, item).unwrap();
        }
        assert_eq!(queue.take_matching(|item| item % 2 == 0), [0, 2, 4]);
        let out: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(out, [1, 3, 5]);
    }
}
