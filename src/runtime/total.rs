//! The memory of all sessions of a server together.
//!
//! Each heap draws on one counter in steps, so that its allocations touch nothing that shards share. What a heap has
//! drawn is what it uses and at most two steps more: that is what counts, and not what it might use one day, because
//! most sessions stay far below their limit.
//!
//! A new session is admitted when there is room for a fresh context. From then on it may grow as long as the others leave
//! room; past that its script gets `MemoryLimit`, as it would at its own limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a heap draws at a time. Small beside a context, which has some 330 KiB, and large enough that a script which fills
/// 64 MiB draws a few hundred times.
pub(super) const STEP_BYTES: usize = 128 << 10;

/// Room that a new session needs: a fresh context and a small script.
const CONTEXT_BYTES: usize = 1 << 20;

/// What a session may keep past the total: the small blocks that were granted until its script ended. One that keeps more
/// starts over with a fresh context.
const OVERDRAFT_KEPT_MAX: usize = 2 * STEP_BYTES;

/// The counter that the heaps of a server share.
#[derive(Debug)]
pub(crate) struct MemoryTotal {
    drawn: AtomicUsize,
    bytes_max: AtomicUsize,
}

impl MemoryTotal {
    /// Room for `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { drawn: AtomicUsize::new(0), bytes_max: AtomicUsize::new(bytes_max) })
    }

    /// Changes the limit. What is drawn beyond it stays drawn.
    pub(crate) fn set_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// The most that may be drawn.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    /// Bytes that are drawn.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn.load(Relaxed)
    }

    /// Whether there is room for the context of a new session.
    pub(crate) fn has_room(&self) -> bool {
        self.drawn().saturating_add(CONTEXT_BYTES) <= self.bytes_max()
    }

    /// Whether there is room for a heap of that size.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.drawn().saturating_add(bytes) <= self.bytes_max()
    }

    fn try_draw(&self, bytes: usize) -> bool {
        let fits = |drawn: usize| drawn.checked_add(bytes).filter(|after| *after <= self.bytes_max());
        self.drawn.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }
}

/// Memory of a session outside of its heap, such as values in transit; released when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    total: Arc<MemoryTotal>,
    bytes: usize,
}

impl Claim {
    /// Draws nothing yet.
    pub(crate) fn empty(total: &Arc<MemoryTotal>) -> Self {
        Self { total: Arc::clone(total), bytes: 0 }
    }

    /// Hands over what it has.
    pub(crate) fn take(&mut self) -> Self {
        Self { total: Arc::clone(&self.total), bytes: std::mem::take(&mut self.bytes) }
    }

    /// Draws that much more, if the total allows it.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let is_granted = self.total.try_draw(bytes);
        self.bytes += if is_granted { bytes } else { 0 };
        is_granted
    }

    /// Draws or releases until it has that much, whether the total allows it or not: it is in use already.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.shrink_to(bytes);
        self.total.drawn.fetch_add(bytes - self.bytes, Relaxed);
        self.bytes = bytes;
    }

    /// How much it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases that much.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.total.drawn.fetch_sub(bytes, Relaxed);
    }

    /// Releases what exceeds that much.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.shrink(self.bytes.saturating_sub(bytes));
    }

    /// Draws that much, if the total allows it.
    pub(crate) fn new(total: &Arc<MemoryTotal>, bytes: usize) -> Option<Self> {
        total.try_draw(bytes).then(|| Self { total: Arc::clone(total), bytes })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.total.drawn.fetch_sub(self.bytes, Relaxed);
    }
}

/// What one heap has drawn; released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    total: Arc<MemoryTotal>,
    bytes: usize,
    /// The part of it that the total did not allow.
    overdrawn: usize,
}

impl Share {
    /// Draws the room for a fresh context, if the total allows it.
    pub(crate) fn admit(total: &Arc<MemoryTotal>) -> Option<Self> {
        total.try_draw(CONTEXT_BYTES).then(|| Self::for_context(total))
    }

    /// Draws the room for a context that replaces another one, whether the total allows it or not: what it replaces is
    /// released immediately after.
    pub(crate) fn replace(total: &Arc<MemoryTotal>) -> Self {
        total.drawn.fetch_add(CONTEXT_BYTES, Relaxed);
        Self::for_context(total)
    }

    /// Draws the room for a context that was out of memory and goes on, whether the total allows it or not: that it
    /// was away must not cost it anything. Ask [`MemoryTotal::has_room_for`] before.
    pub(crate) fn resume(total: &Arc<MemoryTotal>, used: usize) -> Self {
        let bytes = step_up(used) + STEP_BYTES;
        total.drawn.fetch_add(bytes, Relaxed);
        Self { total: Arc::clone(total), bytes, overdrawn: 0 }
    }

    fn for_context(total: &Arc<MemoryTotal>) -> Self {
        Self { total: Arc::clone(total), bytes: CONTEXT_BYTES, overdrawn: 0 }
    }

    /// The total that it draws on.
    pub(super) fn total(&self) -> &Arc<MemoryTotal> {
        &self.total
    }

    /// How much it has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Draws until it has `wanted`; `false` if the total does not allow it.
    pub(super) fn grow_to(&mut self, wanted: usize) -> bool {
        let more = step_up(wanted.saturating_sub(self.bytes));
        let is_drawn = self.total.try_draw(more);
        self.bytes += if is_drawn { more } else { 0 };
        is_drawn
    }

    /// Draws until it has `wanted`, whether the total allows it or not.
    pub(super) fn overdraw_to(&mut self, wanted: usize) {
        let more = step_up(wanted.saturating_sub(self.bytes));
        self.total.drawn.fetch_add(more, Relaxed);
        self.bytes += more;
        self.overdrawn += more;
    }

    /// Releases what it does not need, except for a step.
    pub(super) fn shrink_to(&mut self, used: usize) {
        let kept = step_up(used) + STEP_BYTES;
        if kept < self.bytes {
            self.total.drawn.fetch_sub(self.bytes - kept, Relaxed);
            self.overdrawn = self.overdrawn.saturating_sub(self.bytes - kept);
            self.bytes = kept;
        }
        if self.overdrawn > 0 && self.total.drawn() <= self.total.bytes_max() {
            self.overdrawn = 0;
        }
    }

    /// Whether it has more past the total than it may keep.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.overdrawn > OVERDRAFT_KEPT_MAX
    }

    /// The most that all may draw together.
    pub(super) fn total_max(&self) -> usize {
        self.total.bytes_max()
    }
}

fn step_up(bytes: usize) -> usize {
    bytes.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES)
}

impl Drop for Share {
    fn drop(&mut self) {
        self.total.drawn.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_admitted_while_a_context_has_room() {
        let total = MemoryTotal::new(2 * CONTEXT_BYTES);
        let first = Share::admit(&total).unwrap();
        let _second = Share::admit(&total).unwrap();
        assert!(Share::admit(&total).is_none());
        drop(first);
        assert!(Share::admit(&total).is_some());
    }

    #[test]
    fn shares_grow_in_steps_and_are_released() {
        let total = MemoryTotal::new(CONTEXT_BYTES + 2 * STEP_BYTES);
        let mut share = Share::admit(&total).unwrap();
        assert!(share.grow_to(CONTEXT_BYTES + 1));
        assert_eq!(total.drawn(), CONTEXT_BYTES + STEP_BYTES);
        assert!(share.grow_to(CONTEXT_BYTES + 2 * STEP_BYTES));
        assert!(!share.grow_to(CONTEXT_BYTES + 2 * STEP_BYTES + 1));
        share.overdraw_to(CONTEXT_BYTES + 2 * STEP_BYTES + 1);
        assert_eq!(total.drawn(), CONTEXT_BYTES + 3 * STEP_BYTES);
        assert!(!share.is_overdrawn(), "a step is kept");
        share.overdraw_to(CONTEXT_BYTES + 5 * STEP_BYTES);
        assert!(share.is_overdrawn());
        share.shrink_to(STEP_BYTES - 1);
        assert!(!share.is_overdrawn());
        assert_eq!(total.drawn(), 2 * STEP_BYTES);
        share.shrink_to(STEP_BYTES);
        assert_eq!(total.drawn(), 2 * STEP_BYTES);
        drop(share);
        assert_eq!(total.drawn(), 0);
    }

    #[test]
    fn context_that_goes_on_is_never_overdrawn() {
        let total = MemoryTotal::new(CONTEXT_BYTES);
        let share = Share::resume(&total, CONTEXT_BYTES);
        assert!(!share.is_overdrawn());
        assert_eq!(total.drawn(), CONTEXT_BYTES + STEP_BYTES);
        assert!(!total.has_room() && !total.has_room_for(1));
        drop(share);
        assert!(total.has_room_for(CONTEXT_BYTES) && !total.has_room_for(CONTEXT_BYTES + 1));
    }

    #[test]
    fn claim_is_handed_over_whole() {
        let total = MemoryTotal::new(100);
        let mut first = Claim::new(&total, 60).unwrap();
        let second = first.take();
        drop(first);
        assert_eq!(total.drawn(), 60);
        drop(second);
        assert_eq!(total.drawn(), 0);
    }

    #[test]
    fn replacement_context_is_never_refused() {
        let total = MemoryTotal::new(0);
        let share = Share::replace(&total);
        assert_eq!(total.drawn(), CONTEXT_BYTES);
        drop(share);
        assert_eq!(total.drawn(), 0);
    }
}
