//! The allocator of a session's heap: everything that it knows lies in the window itself, and one pointer in it leads out.
//!
//! So the pages of the window are the whole heap. They can be copied away and back, and the same calls give the same blocks
//! in every process.
//!
//! QuickJS makes small objects itself, in chunks of one page. What it asks for is pages, and blocks of more than 500 bytes:
//!
//! - A request of nearly a page gets a whole one without header ([`pages`]), at a page boundary: a chunk then dirties one
//!   page and not two.
//! - Everything else is a [`block`](blocks) with a header of 8 bytes, in free lists by size ([`bins`]). A block that is freed
//!   merges with free neighbours.
//! - Above the highest block is the *top*. It comes down when the highest block is freed, because an image is as long as the
//!   highest page in use.
//!
//! Pages that are wholly free go back to the system when enough of them have gathered ([`trim`]).
//!
//! The windows of sessions are aligned to their distance, so the state of the heap is found from the address of a block.
//!
//! The allocators of `talc` and `rlsf` do not fit: neither returns free pages or shortens its pool, one has to be given the size
//! of a freed block, and both put a header before a page, so that two aligned pages cannot lie side by side.
//!
//! One of the modules with `unsafe`: it is an allocator.
#![allow(unsafe_code)]

mod bins;
mod blocks;
mod pages;
mod remap;
mod slots;
#[cfg(test)]
mod tests;
mod trim;
mod turns;
mod window;

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

use super::presence::Presence;
use bins::Bins;
use pages::Spans;
use window::{PAGE_BYTES, WINDOW_BYTES_MAX};

pub(crate) use slots::{Slot, SlotError, Slots, random_base};
pub(crate) use window::Window;

/// Smallest request that gets a page. The chunks of QuickJS have 3,624 to 4,096 bytes.
const PAGE_REQUEST_MIN: usize = 3585;

/// The first block begins here. Headers lie 8 bytes before a multiple of 16, which is where the content begins.
const FIRST_BLOCK: u32 = (size_of::<State>() as u32).next_multiple_of(16) + 8;

/// What fills freed blocks when that is asked for: a pointer of this pattern faults, and so does a count.
const POISON: u8 = 0xa5;

/// The beginning of the window.
#[repr(C)]
struct State {
    /// Where the block above the highest one will begin.
    top: u32,
    /// Size of the highest block, which is the predecessor of the next.
    last: u32,
    /// From here on everything is zero.
    zeroed: u32,
    /// Bytes of blocks in use with their headers, and of pages in use.
    live: u32,
    /// Bytes of free pages below the top whose memory was returned.
    returned: u32,
    /// What could not be returned at the last time: pieces of pages.
    kept: u32,
    /// Whether freed blocks are overwritten.
    is_poisoning: u32,
    /// Where the program keeps what belongs to this heap: the only address in it that leads out.
    attached: *mut c_void,
    bins: Bins,
    spans: Spans,
}

const _: () = assert!(
    size_of::<State>() + 32 < pages::FIRST_PAGE_OFFSET,
    "the state leaves the first page to be shared"
);

/// Nothing: the memory of a context goes with it.
pub(crate) fn release_freed_memory() {}

/// The heap of one session.
#[derive(Debug)]
pub(crate) struct Arena {
    window: Rc<Window>,
}

impl Arena {
    /// Dropping it frees every block.
    pub(crate) const GOES_WHOLE: bool = true;

    /// An empty heap in a slot of its own.
    pub(crate) fn new() -> Result<Self, SlotError> {
        Self::in_slot(Slots::shared().take()?)
    }

    fn in_slot(slot: Slot) -> Result<Self, SlotError> {
        let arena = Self { window: Window::fresh(slot.into())? };
        let state = arena.state();
        // SAFETY: the first page is writable and nothing is in it.
        unsafe {
            (*state).top = FIRST_BLOCK;
            (*state).zeroed = FIRST_BLOCK;
        }
        Ok(arena)
    }

    fn state(&self) -> *mut State {
        self.window.address() as *mut State
    }

    /// Whether it is at its addresses, for other threads.
    pub(crate) fn presence(&self) -> &Arc<Presence> {
        &self.window.presence
    }

    /// Keeps an address for the functions that are given the pointer which this returns.
    pub(crate) fn attach(&self, owner: NonNull<c_void>) -> *mut c_void {
        let state = self.state();
        // SAFETY: the state is live.
        unsafe { (*state).attached = owner.as_ptr() };
        state.cast()
    }

    /// The address that was [attached](Self::attach) last.
    ///
    /// # Safety
    ///
    /// `attach` returned the pointer, and the heap is live.
    #[inline]
    pub(crate) unsafe fn attached(heap: *mut c_void) -> *mut c_void {
        // SAFETY: guaranteed by the caller.
        unsafe { (*heap.cast::<State>()).attached }
    }

    /// The block of at least `size` bytes, aligned to 16, or null when the window is full.
    pub(crate) fn alloc(&self, size: usize) -> *mut u8 {
        if (PAGE_REQUEST_MIN..=PAGE_BYTES).contains(&size) {
            self.alloc_page()
        } else {
            self.alloc_block(size)
        }
    }

    /// The same, all zero.
    pub(crate) fn calloc(&self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return null_mut() };
        let state = self.state();
        // SAFETY: the state is live.
        let zeroed = self.window.address() + unsafe { (*state).zeroed } as usize;
        let block = self.alloc(size);
        let dirty = zeroed.saturating_sub(block as usize).min(size);
        if !block.is_null() {
            // SAFETY: the block is at least that long, and ours to write.
            unsafe { block.write_bytes(0, dirty) };
        }
        block
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// It is a live block of this heap.
    pub(crate) unsafe fn free(&self, block: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { if is_page(block) { self.free_page(block) } else { self.free_block(block) } }
    }

    /// The block with another size, in its place if possible; null, and the block as it was, when the window is full.
    ///
    /// # Safety
    ///
    /// It is a live block of this heap.
    pub(crate) unsafe fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let usable = Self::usable_size(block);
            let is_page = is_page(block);
            if if is_page { size <= PAGE_BYTES } else { self.resize_block(block, size) } {
                return block;
            }
            let moved = self.alloc(size);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, usable.min(size));
                self.free(block);
            }
            moved
        }
    }

    /// How many bytes a block has.
    ///
    /// # Safety
    ///
    /// It is a live block of a heap.
    pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe { if is_page(block) { PAGE_BYTES } else { blocks::usable_size(block) } }
    }

    /// Makes the window writable up to the new top.
    #[inline]
    fn reach(&self, top: usize) -> bool {
        top <= self.window.writable() || (top <= WINDOW_BYTES_MAX && self.window.grow_to(top).is_ok())
    }
}

/// Whether a block is a page without header. Blocks with a header may begin at a page boundary too.
#[inline]
unsafe fn is_page(block: *mut u8) -> bool {
    // SAFETY: the state of a heap is at the beginning of its slot, and slots are aligned.
    (block as usize).is_multiple_of(PAGE_BYTES) && unsafe { pages::is_in_span(block as usize) }
}

/// What the owner of an image has to know of the heap.
#[allow(dead_code, reason = "for sessions that are imaged")]
impl Arena {
    /// A heap whose pages were mapped or copied into the window.
    ///
    /// # Safety
    ///
    /// The pages are those of a heap of the same slot, written by this program.
    pub(crate) unsafe fn continued(window: Rc<Window>) -> Self {
        Self { window }
    }

    /// The memory that it is in.
    pub(crate) fn window(&self) -> &Rc<Window> {
        &self.window
    }

    /// Gives the heap up and returns its memory, for another one of the same slot.
    pub(crate) fn into_window(self) -> Rc<Window> {
        self.window
    }

    /// How many bytes from the beginning of the window are the whole heap. Call [`Self::trim`] before.
    pub(crate) fn image_bytes(&self) -> usize {
        // SAFETY: the state is live.
        (unsafe { (*self.state()).top } as usize).next_multiple_of(PAGE_BYTES)
    }

    /// A copy of the pages that are the heap, without the address of what belongs to it in the program. No script runs.
    pub(crate) fn copy_pages(&self) -> Vec<u8> {
        self.trim();
        // SAFETY: guaranteed by the caller; the state is live.
        let mut pages = unsafe { self.window.pages(self.image_bytes()) }.to_vec();
        let place = std::mem::offset_of!(State, attached);
        pages[place..place + size_of::<usize>()].fill(0);
        pages
    }

    /// A heap that goes on with a copy of these pages.
    ///
    /// # Safety
    ///
    /// They are those of a heap of the same slot, in which no other heap is.
    pub(crate) unsafe fn from_pages(slot: Arc<Slot>, pages: &[u8]) -> Result<Self, SlotError> {
        Ok(Self { window: Window::copy_from(slot, pages)? })
    }

    /// Overwrites blocks when they are freed, so that their use afterwards shows.
    pub(crate) fn poison_freed(&self) {
        // SAFETY: the state is live.
        unsafe { (*self.state()).is_poisoning = 1 };
    }
}
