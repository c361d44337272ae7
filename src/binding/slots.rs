//! How many calls of one binding run at a time.
//!
//! A call that finds no slot free is refused and never waits for one, so a counter does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The slots of one binding.
#[derive(Debug)]
pub(super) struct CallSlots {
    free: AtomicUsize,
}

/// A slot in use, until dropped.
#[derive(Debug)]
pub(super) struct CallSlot(Arc<CallSlots>);

impl CallSlots {
    /// So many slots, all free.
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(count) })
    }

    /// Takes a slot; `None` if none is free.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<CallSlot> {
        let taken = self.free.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(1));
        taken.is_ok().then(|| CallSlot(Arc::clone(self)))
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_free_again_when_its_call_is_over() {
        let slots = CallSlots::new(2);
        let (first, second) = (slots.try_take(), slots.try_take());
        assert!(first.is_some() && second.is_some());
        assert!(slots.try_take().is_none());
        drop(first);
        let third = slots.try_take();
        assert!(third.is_some());
        assert!(slots.try_take().is_none());
    }
}
