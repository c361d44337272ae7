//! Blocks with a header, side by side from the beginning of the window to the top.
//!
//! A header has the size of its block and that of the one before, so both neighbours of a block are found from it. Two free
//! blocks are never neighbours, and the highest block is never free.

use std::ptr::null_mut;

use super::window::{PAGE_BYTES, WINDOW_BYTES_MAX};
use super::{Arena, POISON, State};

/// Sizes and the places of blocks are multiples of this; it is also the smallest block.
pub(super) const UNIT: u32 = 16;

pub(super) const HEADER_BYTES: u32 = 8;

/// What a block may have more than was asked for, rather than leave a remainder that hardly anything fits into.
const REMAINDER_MIN: u32 = 64;

/// Freeing such a block is a reason to look whether much is free.
const LARGE_BYTES: u32 = 64 << 10;

/// The block is free.
const FREE: u32 = 1;

/// The block is free, and the memory of its inner pages was returned.
const RETURNED: u32 = 2;

const FLAGS: u32 = UNIT - 1;

/// Before every block.
#[repr(C)]
pub(super) struct Header {
    size_and_flags: u32,
    /// Size of the block before; 0 for the first one.
    pub(super) previous: u32,
}

/// In a free block.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub(super) next: u32,
    pub(super) previous: u32,
}

impl Links {
    #[inline]
    pub(super) fn of(base: usize, block: u32) -> *mut Self {
        (base + block as usize + HEADER_BYTES as usize) as *mut Self
    }
}

impl Header {
    #[inline]
    pub(super) fn of(base: usize, block: u32) -> *mut Self {
        (base + block as usize) as *mut Self
    }

    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.size_and_flags & !FLAGS
    }

    pub(super) fn is_free(&self) -> bool {
        self.size_and_flags & FREE != 0
    }

    pub(super) fn is_returned(&self) -> bool {
        self.size_and_flags & RETURNED != 0
    }

    pub(super) fn set_returned(&mut self) {
        self.size_and_flags |= RETURNED;
    }

    /// The block is in use now.
    pub(super) fn set_size(&mut self, size: u32) {
        self.size_and_flags = size;
    }
}

/// The whole pages inside a free block, from one offset to the other: what is free in them but for header and links.
pub(super) fn inner_pages(block: u32, size: u32) -> (u32, u32) {
    const PAGE: u32 = PAGE_BYTES as u32;
    let (from, to) = ((block + 2 * HEADER_BYTES).next_multiple_of(PAGE), (block + size) & !(PAGE - 1));
    (from, to.max(from))
}

/// The size of a block for such a request; `None` when no window has it.
#[inline]
fn block_size(request: usize) -> Option<u32> {
    if request > WINDOW_BYTES_MAX {
        return None;
    }
    let whole = (request as u32 + HEADER_BYTES + UNIT - 1) & !(UNIT - 1);
    Some(whole)
}

/// # Safety
///
/// A live block with a header.
#[inline]
pub(super) unsafe fn usable_size(block: *mut u8) -> usize {
    // SAFETY: the header is before the block, which is not free.
    let whole = unsafe { (*((block as usize - HEADER_BYTES as usize) as *const Header)).size_and_flags };
    (whole - HEADER_BYTES) as usize
}

impl Arena {
    pub(super) fn alloc_block(&self, request: usize) -> *mut u8 {
        let Some(size) = block_size(request) else { return null_mut() };
        let base = self.window.address();
        // SAFETY: the state is live, and what is in its lists is free.
        unsafe {
            let state = self.state();
            let found = (*state).bins.fitting(size);
            let block = if found != 0 { self.take(found, size) } else { self.alloc_top(size) };
            if block == 0 {
                return null_mut();
            }
            (*state).live += (*Header::of(base, block)).size();
            (base + (block + HEADER_BYTES) as usize) as *mut u8
        }
    }

    /// A block from the top; 0 when the window is full.
    pub(super) unsafe fn alloc_top(&self, size: u32) -> u32 {
        // SAFETY: above the top is nothing, and `reach` makes it writable.
        unsafe {
            let state = self.state();
            let block = (*state).top;
            let top = block + size;
            if !self.reach(top as usize) {
                return 0;
            }
            *Header::of(self.window.address(), block) =
                Header { size_and_flags: size, previous: (*state).last };
            self.raise_top(top, size);
            block
        }
    }

    unsafe fn raise_top(&self, top: u32, last: u32) {
        // SAFETY: the state is live.
        unsafe {
            let state = self.state();
            (*state).top = top;
            (*state).last = last;
            if top > (*state).zeroed {
                (*state).zeroed = top;
            }
        }
    }

    /// Takes a free block out of its list, all of it.
    pub(super) unsafe fn unlink(&self, block: u32) -> u32 {
        let base = self.window.address();
        // SAFETY: the block is free and in its list.
        unsafe {
            let state = self.state();
            (*state).bins.unlink(base, block);
            let header = Header::of(base, block);
            let size = (*header).size();
            if (*header).is_returned() {
                let (from, to) = inner_pages(block, size);
                (*state).returned -= to - from;
            }
            size
        }
    }

    /// Takes a free block that is large enough, and leaves the rest of it free.
    unsafe fn take(&self, block: u32, size: u32) -> u32 {
        // SAFETY: the block is free and in its list.
        unsafe {
            let was_returned = (*Header::of(self.window.address(), block)).is_returned();
            let whole = self.unlink(block);
            self.cut(block, whole, size, was_returned);
            block
        }
    }

    /// Makes a block of `whole` bytes, between blocks in use, one of `size`; the rest becomes free.
    unsafe fn cut(&self, block: u32, whole: u32, size: u32, was_returned: bool) {
        let base = self.window.address();
        // SAFETY: the block is in no list, and what is behind it is a block in use.
        unsafe {
            let header = Header::of(base, block);
            if whole - size < REMAINDER_MIN {
                (*header).size_and_flags = whole;
                (*Header::of(base, block + whole)).previous = whole;
                return;
            }
            (*header).size_and_flags = size;
            let rest = block + size;
            self.put(rest, whole - size, size, was_returned);
        }
    }

    /// Puts a free block there, between blocks in use.
    pub(super) unsafe fn put(&self, block: u32, size: u32, previous: u32, is_returned: bool) {
        let base = self.window.address();
        // SAFETY: the range is in no other block, and what is behind it is a block.
        unsafe {
            let state = self.state();
            let flags = if is_returned { FREE | RETURNED } else { FREE };
            *Header::of(base, block) = Header { size_and_flags: size | flags, previous };
            (*Header::of(base, block + size)).previous = size;
            if is_returned {
                let (from, to) = inner_pages(block, size);
                (*state).returned += to - from;
            }
            (*state).bins.link(base, block, size);
        }
    }

    pub(super) unsafe fn free_block(&self, content: *mut u8) {
        let base = self.window.address();
        // SAFETY: a live block with a header.
        unsafe {
            let state = self.state();
            let block = (content as usize - base) as u32 - HEADER_BYTES;
            let size = (*Header::of(base, block)).size_and_flags;
            (*state).live -= size;
            if (*state).is_poisoning != 0 {
                content.write_bytes(POISON, (size - HEADER_BYTES) as usize);
            }
            self.release(block, size);
            if size >= LARGE_BYTES {
                self.trim_in_turn();
            }
        }
    }

    /// Makes a block free that is not counted as live any more: merges it with free neighbours, or with the top.
    pub(super) unsafe fn release(&self, block: u32, size: u32) {
        let (base, state) = (self.window.address(), self.state());
        let (mut block, mut size) = (block, size);
        // SAFETY: neighbours are found by the sizes in the headers, and are blocks as long as they are below the top.
        unsafe {
            let top = (*state).top;
            let next = block + size;
            if next != top && (*Header::of(base, next)).size_and_flags & FREE != 0 {
                size += self.unlink(next);
            }
            let mut previous = (*Header::of(base, block)).previous;
            if previous != 0 && (*Header::of(base, block - previous)).size_and_flags & FREE != 0 {
                block -= previous;
                size += self.unlink(block);
                previous = (*Header::of(base, block)).previous;
            }
            if block + size == top {
                (*state).top = block;
                (*state).last = previous;
            } else {
                self.put(block, size, previous, false);
            }
        }
    }

    /// Gives a block another size in its place; `false` when there is no room for it.
    pub(super) unsafe fn resize_block(&self, content: *mut u8, request: usize) -> bool {
        let Some(size) = block_size(request) else { return false };
        let base = self.window.address();
        // SAFETY: a live block with a header.
        unsafe {
            let state = self.state();
            let block = (content as usize - base) as u32 - HEADER_BYTES;
            let before = (*Header::of(base, block)).size_and_flags;
            if size <= before {
                self.shrink_block(state, block, before, size);
                return true;
            }
            let next = block + before;
            if next == (*state).top {
                if !self.reach((block + size) as usize) {
                    return false;
                }
                self.raise_top(block + size, size);
                (*Header::of(base, block)).size_and_flags = size;
            } else {
                let header = Header::of(base, next);
                if !(*header).is_free() || before + (*header).size() < size {
                    return false;
                }
                let was_returned = (*header).is_returned();
                let whole = before + self.unlink(next);
                self.cut(block, whole, size, was_returned);
            }
            (*state).live += (*Header::of(base, block)).size_and_flags - before;
            true
        }
    }

    unsafe fn shrink_block(&self, state: *mut State, block: u32, before: u32, size: u32) {
        if before - size < REMAINDER_MIN {
            return;
        }
        let base = self.window.address();
        // SAFETY: the end of the block becomes a block of its own, which is then released.
        unsafe {
            (*Header::of(base, block)).size_and_flags = size;
            let rest = block + size;
            *Header::of(base, rest) = Header { size_and_flags: before - size, previous: size };
            if block + before == (*state).top {
                (*state).last = before - size;
            }
            (*state).live -= before - size;
            self.release(rest, before - size);
        }
    }
}
