//! Whether the memory of a heap is at its addresses.
//!
//! Only the thread of a session works with its heap, and it looks before. Another thread, such as the watchdog, may write
//! to one word of it: it holds this lock meanwhile, and the heap is not moved away under it.

use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct Presence(Mutex<bool>);

impl Default for Presence {
    /// A heap begins at its addresses.
    fn default() -> Self {
        Self(Mutex::new(true))
    }
}

impl Presence {
    /// Runs `work` if the memory is at its addresses, where it stays until `work` has returned.
    pub(crate) fn with_heap(&self, work: impl FnOnce()) {
        let is_present = self.0.lock();
        if *is_present {
            work();
        }
    }

    /// Before the memory is moved away or unmapped, and after it came back.
    #[allow(dead_code, reason = "heaps move only where they have addresses of their own")]
    pub(super) fn set(&self, is_present: bool) {
        *self.0.lock() = is_present;
    }
}
