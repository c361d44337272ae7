//! Pages without header, for the chunks of QuickJS.
//!
//! The window is divided into stretches of 64 KiB. A *span* is a block that fills all of one but its first page: fifteen
//! pages, and before them two masks at the end of that first page, where they are found from the address of a page. The rest
//! of the first page is for ordinary blocks. The lowest free page is taken first.

use std::ptr::null_mut;

use super::blocks::{HEADER_BYTES, Header, inner_pages};
use super::slots::SLOT_BYTES;
use super::window::PAGE_BYTES;
use super::{Arena, POISON, State};

const STRETCH_BYTES: u32 = 64 << 10;
const STRETCHES: usize = SLOT_BYTES / STRETCH_BYTES as usize;
const WORDS: usize = STRETCHES / u64::BITS as usize;
const PAGE: u32 = PAGE_BYTES as u32;

/// Where the masks of a span are, from the beginning of its stretch.
const MASKS_OFFSET: u32 = PAGE - 16;

/// Where its block begins.
const SPAN_OFFSET: u32 = MASKS_OFFSET - HEADER_BYTES;
pub(super) const FIRST_PAGE_OFFSET: usize = SPAN_OFFSET as usize;

/// Size of its block: up to the place for the next header, which is in the next stretch.
const SPAN_BYTES: u32 = STRETCH_BYTES + HEADER_BYTES - SPAN_OFFSET;

/// What of it counts as in use when no page is.
const SPAN_OVERHEAD: u32 = SPAN_BYTES - PAGES * PAGE;

const PAGES: u32 = STRETCH_BYTES / PAGE - 1;

/// A bit for each page of the stretch; the first page is not of the span.
const ALL_PAGES: u16 = u16::MAX << 1;

/// Free blocks that are looked at for a place for a span.
const CANDIDATES_MAX: usize = 16;

/// Which stretches are spans; part of the state in the window.
#[repr(C)]
pub(super) struct Spans {
    /// A bit for each word of `open` that is not zero.
    open_words: u64,
    /// Spans with a free page.
    open: [u64; WORDS],
    /// All spans.
    used: [u64; WORDS],
}

/// Before the pages of a span.
#[repr(C)]
struct Masks {
    free: u16,
    /// Those whose memory was returned, or never used.
    returned: u16,
}

impl Masks {
    #[inline]
    fn of(base: usize, stretch: u32) -> *mut Self {
        (base + (stretch * STRETCH_BYTES + MASKS_OFFSET) as usize) as *mut Self
    }
}

/// Whether the page at this address belongs to a span.
#[inline]
pub(super) unsafe fn is_in_span(address: usize) -> bool {
    let offset = address & (SLOT_BYTES - 1);
    let state = (address - offset) as *const State;
    let stretch = offset / STRETCH_BYTES as usize;
    // SAFETY: the state is at the beginning of the slot.
    let used = unsafe { (*state).spans.used[stretch / 64] };
    used & (1 << (stretch % 64)) != 0 && !offset.is_multiple_of(STRETCH_BYTES as usize)
}

impl Spans {
    #[inline]
    fn first_open(&self) -> Option<u32> {
        if self.open_words == 0 {
            return None;
        }
        let word = self.open_words.trailing_zeros();
        Some(word * 64 + self.open[word as usize].trailing_zeros())
    }

    fn open(&mut self, stretch: u32) {
        let word = (stretch / 64) as usize;
        self.open[word] |= 1 << (stretch % 64);
        self.open_words |= 1 << word;
    }

    fn close(&mut self, stretch: u32) {
        let word = (stretch / 64) as usize;
        self.open[word] &= !(1 << (stretch % 64));
        if self.open[word] == 0 {
            self.open_words &= !(1 << word);
        }
    }

    /// The spans with a free page, in order.
    fn all_open(&self) -> impl Iterator<Item = u32> {
        let words = self.open.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index as u32 * 64 + bit)
        })
    }
}

impl Arena {
    pub(super) fn alloc_page(&self) -> *mut u8 {
        let base = self.window.address();
        // SAFETY: the state is live, and open spans have a free page.
        unsafe {
            let state = self.state();
            let stretch = match (*state).spans.first_open() {
                Some(stretch) => stretch,
                None => match self.add_span() {
                    Some(stretch) => stretch,
                    None => return null_mut(),
                },
            };
            let masks = Masks::of(base, stretch);
            let page = (*masks).free.trailing_zeros();
            let bit = 1 << page;
            (*masks).free &= !bit;
            if (*masks).returned & bit != 0 {
                (*masks).returned &= !bit;
                (*state).returned -= PAGE;
            }
            if (*masks).free == 0 {
                (*state).spans.close(stretch);
            }
            (*state).live += PAGE;
            (base + (stretch * STRETCH_BYTES + page * PAGE) as usize) as *mut u8
        }
    }

    pub(super) unsafe fn free_page(&self, page: *mut u8) {
        let base = self.window.address();
        // SAFETY: a page in use, so its span is there.
        unsafe {
            let state = self.state();
            if (*state).is_poisoning != 0 {
                page.write_bytes(POISON, PAGE_BYTES);
            }
            let offset = (page as usize - base) as u32;
            let stretch = offset / STRETCH_BYTES;
            let masks = Masks::of(base, stretch);
            if (*masks).free == 0 {
                (*state).spans.open(stretch);
            }
            (*masks).free |= 1 << (offset % STRETCH_BYTES / PAGE);
            (*state).live -= PAGE;
            if (*masks).free == ALL_PAGES {
                self.remove_span(stretch);
            }
        }
    }

    /// Makes a span of free pages, below the top if there is room for it.
    unsafe fn add_span(&self) -> Option<u32> {
        let (base, state) = (self.window.address(), self.state());
        // SAFETY: the state is live, and what is in its lists is free.
        unsafe {
            let has_room = |block: u32| place_in(block, (*Header::of(base, block)).size()).is_some();
            let found = (*state).bins.candidates(base, SPAN_BYTES, CANDIDATES_MAX, has_room);
            let (span, unused) = if found == 0 { self.extend_by_span()? } else { self.carve_span(found) };
            let stretch = span / STRETCH_BYTES;
            let is_unused = |page: &u32| {
                let start = stretch * STRETCH_BYTES + page * PAGE;
                unused.0 <= start && start + PAGE <= unused.1
            };
            let returned = (1..=PAGES).filter(is_unused).fold(0u16, |mask, page| mask | 1 << page);
            *Masks::of(base, stretch) = Masks { free: ALL_PAGES, returned };
            (*state).returned += returned.count_ones() * PAGE;
            (*state).live += SPAN_OVERHEAD;
            (*state).spans.used[(stretch / 64) as usize] |= 1 << (stretch % 64);
            (*state).spans.open(stretch);
            Some(stretch)
        }
    }

    /// A block for a span above the top, and the range that has no memory behind it yet.
    unsafe fn extend_by_span(&self) -> Option<(u32, (u32, u32))> {
        // SAFETY: the state is live.
        unsafe {
            let (top, zeroed) = ((*self.state()).top, (*self.state()).zeroed);
            let span = span_after(top);
            if !self.reach((span + SPAN_BYTES) as usize) {
                return None;
            }
            let gap = if span == top { 0 } else { self.alloc_top(span - top) };
            self.alloc_top(SPAN_BYTES);
            if gap != 0 {
                self.release(gap, span - top);
            }
            Some((span, (zeroed, u32::MAX)))
        }
    }

    /// Makes part of a free block a span; what is before and behind it stays free. Returns what of it has no memory as well.
    unsafe fn carve_span(&self, block: u32) -> (u32, (u32, u32)) {
        let base = self.window.address();
        // SAFETY: the block is free, in its list, and has room for a span.
        unsafe {
            let was_returned = (*Header::of(base, block)).is_returned();
            let previous = (*Header::of(base, block)).previous;
            let whole = self.unlink(block);
            let span = place_in(block, whole).unwrap_or(block);
            let behind = block + whole - span - SPAN_BYTES;
            (*Header::of(base, span)).set_size(SPAN_BYTES);
            if span != block {
                self.put(block, span - block, previous, was_returned);
            }
            if behind == 0 {
                (*Header::of(base, span + SPAN_BYTES)).previous = SPAN_BYTES;
            } else {
                self.put(span + SPAN_BYTES, behind, SPAN_BYTES, was_returned);
            }
            (span, if was_returned { inner_pages(block, whole) } else { (0, 0) })
        }
    }

    unsafe fn remove_span(&self, stretch: u32) {
        // SAFETY: all its pages are free.
        unsafe {
            let state = self.state();
            let masks = Masks::of(self.window.address(), stretch);
            (*state).returned -= (*masks).returned.count_ones() * PAGE;
            (*state).live -= SPAN_OVERHEAD;
            (*state).spans.close(stretch);
            (*state).spans.used[(stretch / 64) as usize] &= !(1 << (stretch % 64));
            self.release(stretch * STRETCH_BYTES + SPAN_OFFSET, SPAN_BYTES);
            self.trim_in_turn();
        }
    }

    /// Returns the memory of free pages.
    pub(super) unsafe fn trim_spans(&self) {
        let (base, state) = (self.window.address(), self.state());
        // SAFETY: the state is live; free pages have nothing in them.
        unsafe {
            for stretch in (*state).spans.all_open() {
                let masks = Masks::of(base, stretch);
                let mut dirty = (*masks).free & !(*masks).returned;
                (*state).returned += dirty.count_ones() * PAGE;
                (*masks).returned |= dirty;
                while dirty != 0 {
                    let from = dirty.trailing_zeros();
                    let count = (dirty >> from).trailing_ones();
                    dirty &= !(((1u32 << count) - 1) << from) as u16;
                    let start = (stretch * STRETCH_BYTES + from * PAGE) as usize;
                    self.window.discard(start, start + count as usize * PAGE_BYTES);
                }
            }
        }
    }
}

/// The first place for a span from there on.
fn span_after(offset: u32) -> u32 {
    let stretch = offset.saturating_sub(SPAN_OFFSET).div_ceil(STRETCH_BYTES);
    stretch * STRETCH_BYTES + SPAN_OFFSET
}

/// The place for a span in a free block.
fn place_in(block: u32, size: u32) -> Option<u32> {
    let span = span_after(block);
    (span + SPAN_BYTES <= block + size).then_some(span)
}
