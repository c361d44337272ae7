//! What a heap uses, within the limit of its session and the total of the server.

use std::cell::{Cell, RefCell};

use super::arena::Arena;
use crate::runtime::total::Share;

/// Leaves the running turn for good, from inside an allocation.
pub(crate) type Abandon = fn() -> !;

/// What a heap uses, and how far it may grow before it has to ask.
#[derive(Debug)]
pub(crate) struct HeapUsage {
    bytes: Cell<usize>,
    /// The limit of the session, or what was drawn of the server's total if that is less. One comparison for each
    /// allocation covers both.
    pub(super) bytes_granted: Cell<usize>,
    pub(super) bytes_max: usize,
    share: RefCell<Share>,
    /// Whether the server's total has refused something in this turn.
    is_short: Cell<bool>,
    pub(super) abandon: Cell<Option<Abandon>>,
    /// Last, so that it is dropped last.
    pub(super) arena: Arena,
}

impl Drop for HeapUsage {
    /// The runtime is gone by now. If it was freed, what is still counted was leaked by QuickJS.
    fn drop(&mut self) {
        if !Arena::GOES_WHOLE && self.bytes() > 0 {
            tracing::error!(bytes = self.bytes(), "QuickJS leaked memory");
        }
    }
}

impl HeapUsage {
    /// An empty heap with a share of the server's total.
    pub(crate) fn new(bytes_max: usize, share: Share, arena: Arena) -> Self {
        Self {
            bytes: Cell::new(0),
            bytes_granted: Cell::new(bytes_max.min(share.bytes())),
            bytes_max,
            share: RefCell::new(share),
            is_short: Cell::new(false),
            abandon: Cell::new(None),
            arena,
        }
    }

    /// Counts what a heap that is continued uses already.
    #[allow(dead_code, reason = "for sessions that are imaged")]
    pub(crate) fn resume(&self, bytes: usize) {
        self.bytes.set(bytes);
        if !self.draw(bytes) {
            self.overdraw(bytes);
        }
    }

    /// Where the blocks lie.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Says how a turn is abandoned that needs more than the limit and the reserve. Without it, as between turns, an
    /// allocation fails then.
    #[allow(dead_code, reason = "for turns that can be abandoned")]
    pub(crate) fn abandon_with(&self, abandon: Option<Abandon>) {
        self.abandon.set(abandon);
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&self) {
        self.is_short.set(false);
    }

    /// Ends a turn: returns what is no longer needed to the server's total, and the memory of free pages to the system.
    pub(crate) fn end_turn(&self) {
        self.arena.trim_at_turn_end();
        let mut share = self.share.borrow_mut();
        share.shrink_to(self.bytes());
        self.bytes_granted.set(self.bytes_max.min(share.bytes()));
    }

    /// The server's total, if it has refused something in this turn.
    pub(crate) fn refused_by_total(&self) -> Option<usize> {
        self.is_short.get().then(|| self.share.borrow().total_max())
    }

    /// Whether it keeps more past the server's total than it may.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.share.borrow().is_overdrawn()
    }

    /// Counts a block.
    pub(super) fn count(&self, bytes: usize) {
        self.bytes.set(self.bytes() + bytes);
    }

    /// A block is freed.
    pub(super) fn uncount(&self, bytes: usize) {
        self.bytes.set(self.bytes().saturating_sub(bytes));
    }

    /// Draws on the server's total for a heap that will use that much.
    pub(super) fn draw(&self, bytes: usize) -> bool {
        let mut share = self.share.borrow_mut();
        let is_drawn = share.grow_to(bytes);
        self.is_short.set(self.is_short.get() || !is_drawn);
        self.bytes_granted.set(self.bytes_max.min(share.bytes()));
        is_drawn
    }

    /// Counts a block that is granted past the limits.
    pub(super) fn overdraw(&self, bytes: usize) {
        let mut share = self.share.borrow_mut();
        if bytes > share.bytes() {
            share.overdraw_to(bytes);
        }
    }
}
