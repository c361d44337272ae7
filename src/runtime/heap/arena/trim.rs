//! What is returned to the system: the memory of pages that are wholly free.
//!
//! Not when they are freed: a script that frees memory mostly asks for some again, and a page that is returned costs a fault. The
//! heap looks at the end of a turn, and while one runs only when very much has gathered.

use super::blocks::{Header, inner_pages};
use super::{Arena, PAGE_BYTES};

/// Free memory that a heap keeps between turns.
const KEPT_BYTES_MAX: u32 = 128 << 10;

/// Free memory that it keeps while a turn runs: a script that makes and drops such a large block in a loop should not
/// pay for faults every time.
const KEPT_IN_TURN_BYTES_MAX: u32 = 32 << 20;

/// The smallest block that has a whole page inside wherever it begins.
const INNER_PAGE_BYTES: u32 = 2 * PAGE_BYTES as u32;

impl Arena {
    /// Returns free pages if there are many.
    pub(crate) fn trim_at_turn_end(&self) {
        let state = self.state();
        // SAFETY: the state is live.
        let (unreturned, kept) = unsafe { (self.unreturned(), (*state).kept) };
        if unreturned > kept + KEPT_BYTES_MAX {
            self.trim();
        } else if unreturned < kept {
            // SAFETY: the state is live.
            unsafe { (*state).kept = unreturned };
        }
    }

    /// Returns free pages if there are so many that they should not wait for the end of the turn.
    pub(super) fn trim_in_turn(&self) {
        // SAFETY: the state is live.
        let much = unsafe { self.unreturned() > (*self.state()).kept + KEPT_IN_TURN_BYTES_MAX };
        if much {
            self.trim();
        }
    }

    /// Returns all free pages.
    pub(crate) fn trim(&self) {
        let (base, state) = (self.window.address(), self.state());
        // SAFETY: the state is live, and what is in its lists is free.
        unsafe {
            let mut returned = 0;
            (*state).bins.for_each_from(base, INNER_PAGE_BYTES, |block| {
                let header = Header::of(base, block);
                if !(*header).is_returned() {
                    let (from, to) = inner_pages(block, (*header).size());
                    self.window.discard(from as usize, to as usize);
                    (*header).set_returned();
                    returned += to - from;
                }
            });
            (*state).returned += returned;
            self.trim_spans();
            let page = PAGE_BYTES as u32;
            let (top, zeroed) = ((*state).top.next_multiple_of(page), (*state).zeroed.next_multiple_of(page));
            if top < zeroed {
                self.window.discard(top as usize, zeroed as usize);
                (*state).zeroed = top.max(self.window.file_bytes() as u32);
            }
            (*state).kept = self.unreturned();
        }
    }

    /// Free bytes that have memory behind them.
    unsafe fn unreturned(&self) -> u32 {
        let state = self.state();
        // SAFETY: the state is live.
        unsafe { (*state).zeroed.saturating_sub((*state).live).saturating_sub((*state).returned) }
    }
}
