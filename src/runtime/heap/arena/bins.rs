//! Free blocks by size: two levels of lists, with a bit for each that has one.
//!
//! Every power of two has sixteen lists. A request looks in the first list all of whose blocks are large enough, so neither
//! taking nor returning a block depends on how many there are. Lists are last in, first out, and linked by offsets.

use super::blocks::{Header, Links};

/// Lists for each power of two.
const STEPS: usize = 16;
const STEPS_LOG: u32 = 4;

/// Sizes below this have a list for every multiple of 16.
const LINEAR_BYTES: u32 = 256;
const LINEAR_LOG: u32 = LINEAR_BYTES.ilog2();

/// Powers of two up to the size of a slot, 2^28; the first row is the linear one.
const ROWS: usize = 21;

/// The lists; part of the state in the window.
#[repr(C)]
pub(super) struct Bins {
    rows: u32,
    steps: [u16; ROWS],
    heads: [[u32; STEPS]; ROWS],
}

/// The row and the step of blocks of that size.
#[inline]
fn place(size: u32) -> (usize, usize) {
    if size < LINEAR_BYTES {
        return (0, (size >> STEPS_LOG) as usize);
    }
    let log = size.ilog2();
    ((log - LINEAR_LOG + 1) as usize, ((size >> (log - STEPS_LOG)) as usize) & (STEPS - 1))
}

impl Bins {
    /// The list of the smallest blocks that all have at least that size.
    fn find(&self, size: u32) -> Option<(usize, usize)> {
        let up = if size < LINEAR_BYTES { size } else { size + (1 << (size.ilog2() - STEPS_LOG)) - 1 };
        let (row, step) = place(up);
        if row >= ROWS {
            return None;
        }
        let steps = self.steps[row] & (u16::MAX << step);
        if steps != 0 {
            return Some((row, steps.trailing_zeros() as usize));
        }
        let rows = self.rows & (u32::MAX << row << 1);
        if rows == 0 {
            return None;
        }
        let row = rows.trailing_zeros() as usize;
        Some((row, self.steps[row].trailing_zeros() as usize))
    }

    /// A free block of at least that size, which stays in its list; 0 without one.
    #[inline]
    pub(super) fn fitting(&self, size: u32) -> u32 {
        match self.find(size) {
            Some((row, step)) => self.heads[row][step],
            None => 0,
        }
    }

    /// Up to `count` free blocks that may have that size, in the lists from its own on.
    pub(super) unsafe fn candidates(
        &self,
        base: usize,
        size: u32,
        count: usize,
        mut is_fit: impl FnMut(u32) -> bool,
    ) -> u32 {
        let (first, step) = place(size);
        let mut left = count;
        for row in first..ROWS {
            let from = if row == first { step } else { 0 };
            let mut steps = self.steps[row] & (u16::MAX << from);
            while steps != 0 {
                let mut block = self.heads[row][steps.trailing_zeros() as usize];
                steps &= steps - 1;
                while block != 0 {
                    if is_fit(block) {
                        return block;
                    }
                    left -= 1;
                    if left == 0 {
                        return 0;
                    }
                    // SAFETY: what is in a list is a free block.
                    block = unsafe { (*Links::of(base, block)).next };
                }
            }
        }
        0
    }

    /// Calls `each` with every free block of at least that size.
    pub(super) unsafe fn for_each_from(&self, base: usize, size: u32, mut each: impl FnMut(u32)) {
        let everything = |block| {
            each(block);
            false
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.candidates(base, size, usize::MAX, everything) };
    }

    /// Puts a free block, whose header is written, into its list.
    #[inline]
    pub(super) unsafe fn link(&mut self, base: usize, block: u32, size: u32) {
        let (row, step) = place(size);
        let next = self.heads[row][step];
        // SAFETY: the block is free, and so is what is in the list.
        unsafe {
            *Links::of(base, block) = Links { next, previous: 0 };
            if next != 0 {
                (*Links::of(base, next)).previous = block;
            }
        }
        self.heads[row][step] = block;
        self.steps[row] |= 1 << step;
        self.rows |= 1 << row;
    }

    /// Takes a free block out of its list.
    #[inline]
    pub(super) unsafe fn unlink(&mut self, base: usize, block: u32) {
        // SAFETY: the block is free and in its list, with its neighbours there.
        unsafe {
            let Links { next, previous } = *Links::of(base, block);
            if next != 0 {
                (*Links::of(base, next)).previous = previous;
            }
            if previous != 0 {
                (*Links::of(base, previous)).next = next;
                return;
            }
            let (row, step) = place((*Header::of(base, block)).size());
            self.heads[row][step] = next;
            if next == 0 {
                self.steps[row] &= !(1 << step);
                if self.steps[row] == 0 {
                    self.rows &= !(1 << row);
                }
            }
        }
    }

    /// Number of free blocks.
    #[cfg(test)]
    pub(super) unsafe fn count(&self, base: usize) -> usize {
        let mut count = 0;
        // SAFETY: guaranteed by the caller.
        unsafe { self.for_each_from(base, 16, |_| count += 1) };
        count
    }
}
