//! The checkpoints of a session: what has to be known to go back to one, beside its heap.
//!
//! A checkpoint belongs to the session, not to its context: one that was taken before a reset is still good.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Rejection, ScriptCall, Timers};
use crate::protocol::fn_ref::FnRef;
use crate::session::{RootId, Time};

/// Checkpoints that a session keeps: past it the oldest goes. Each may take as much of the disk as a heap may be long.
pub(crate) const CHECKPOINTS_MAX: usize = 16;

/// Longest label of a checkpoint.
pub(crate) const LABEL_BYTES_MAX: usize = 256;

/// A moment between two turns that the session can go back to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// What the client calls it.
    pub label: Option<String>,
    /// When it was taken.
    pub at: Time,
    /// Bytes that its heap takes.
    pub bytes: u64,
    /// The session's side of the heap.
    pub context: ContextState,
}

/// What the tables of a session say about a heap.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ContextState {
    /// Functions of the script that the client or handlers hold, by the numbers that are never used again.
    pub exports: BTreeMap<u64, RootId>,
    /// The roots of all functions, those of stored outcomes included.
    pub roots: BTreeSet<RootId>,
    /// Functions of the outside that the script holds.
    pub imports: BTreeSet<FnRef>,
    /// Calls that the script waits for.
    pub calls: BTreeMap<u64, ScriptCall>,
    pub rejections: Vec<Rejection>,
    pub timers: Timers,
    pub has_shadows: bool,
}

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoints {
    last_number: u64,
    kept: BTreeMap<u64, Checkpoint>,
}

impl Checkpoints {
    /// The number of the next one.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// Adds one under the [next number](Self::next_number). Returns the one that has to go for it.
    pub(crate) fn add(&mut self, checkpoint: Checkpoint) -> Option<u64> {
        self.last_number += 1;
        self.kept.insert(self.last_number, checkpoint);
        if self.kept.len() <= CHECKPOINTS_MAX {
            return None;
        }
        self.kept.pop_first().map(|(number, _)| number)
    }

    /// Drops all of them: their heaps ended with a process. Their numbers are not used again.
    pub(crate) fn forget_all(&mut self) {
        self.kept.clear();
    }

    /// The one of that number.
    pub(crate) fn get(&self, number: u64) -> Option<&Checkpoint> {
        self.kept.get(&number)
    }

    /// All of them, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Checkpoint)> {
        self.kept.iter().map(|(number, checkpoint)| (*number, checkpoint))
    }

    /// Drops those that were taken after one; returns their numbers.
    pub(crate) fn drop_after(&mut self, number: u64) -> Vec<u64> {
        self.kept.split_off(&(number + 1)).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        let context = ContextState {
            exports: BTreeMap::new(),
            roots: BTreeSet::new(),
            imports: BTreeSet::new(),
            calls: BTreeMap::new(),
            rejections: Vec::new(),
            timers: Timers::new(1),
            has_shadows: false,
        };
        Checkpoint { label: None, at: Time::default(), bytes: 1, context }
    }

    #[test]
    fn oldest_checkpoint_goes_past_the_limit() {
        let mut checkpoints = Checkpoints::default();
        for number in 1..=CHECKPOINTS_MAX as u64 {
            assert_eq!(checkpoints.next_number(), number);
            assert_eq!(checkpoints.add(checkpoint()), None);
        }
        assert_eq!(checkpoints.add(checkpoint()), Some(1));
        assert!(checkpoints.get(1).is_none() && checkpoints.get(2).is_some());
    }

    #[test]
    fn numbers_of_dropped_checkpoints_are_not_reused() {
        let mut checkpoints = Checkpoints::default();
        (0..3).for_each(|_| assert_eq!(checkpoints.add(checkpoint()), None));
        assert_eq!(checkpoints.drop_after(1), [2, 3]);
        assert_eq!((checkpoints.iter().count(), checkpoints.next_number()), (1, 4));
    }
}
