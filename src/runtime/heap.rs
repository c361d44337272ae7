//! The heap of a JavaScript context: its limit, and a second place to preempt a script.
//!
//! QuickJS does not survive every failed allocation, so the limit has two steps. Past it, large blocks are refused,
//! which every script can handle, and the script is asked to end; small ones are still granted, from a reserve that
//! lasts until QuickJS polls next.
//!
//! The limit of the server for all sessions together ([`MemoryTotal`](super::total::MemoryTotal)) works in the same way.
//! The heap draws on it in steps, so an ordinary allocation makes one comparison for both.
//!
//! QuickJS polls once in ten thousand back-edges and calls, so a loop around a slow builtin, such as
//! `for (;;) JSON.parse(text)`, would run for minutes. But such builtins allocate: every so many bytes an allocation
//! asks the same question, and a script that is to end gets no more large blocks.
//!
//! The blocks are mimalloc's: the allocator of the C library grows the part of a thread that is not the first page by page,
//! with a system call each, and a context has eighty pages. It also keeps scripts and the server on separate heaps.
//!
//! One of the modules with `unsafe`: it allocates from an allocator written in C.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use libmimalloc_sys as mimalloc;
use rquickjs::allocator::Allocator;

use super::meter::Meter;
use super::total::Share;
use crate::observe;
use crate::session::Stop;

/// Bytes allocated between two reads of the clock. Small objects come from chunks of QuickJS's own, so an ordinary
/// script hardly gets here; a read takes some 30 ns.
const BYTES_PER_LOOK: usize = 64 << 10;

/// What each allocation counts beside its size.
const CALL_BYTES: usize = 512;

/// Largest block that is still granted past the limit: the chunk from which QuickJS makes small objects.
const SMALL_BYTES_MAX: usize = 4096;

/// What small blocks may take past the limit. A script makes some ten thousand of them before QuickJS polls.
const RESERVE_BYTES: usize = 64 << 20;

/// Returns memory of dropped contexts of this thread to the system.
pub(crate) fn release_freed_memory() {
    // SAFETY: it takes nothing and may be called at any time, from any thread.
    unsafe { mimalloc::mi_collect(true) }
}

/// What a heap uses, and how far it may grow before it has to ask.
#[derive(Debug)]
pub(crate) struct HeapUsage {
    bytes: Cell<usize>,
    /// The limit of the session, or what was drawn of the server's total if that is less. One comparison for each
    /// allocation covers both.
    bytes_granted: Cell<usize>,
    bytes_max: usize,
    share: RefCell<Share>,
    /// Whether the server's total has refused something in this turn.
    is_short: Cell<bool>,
}

impl Drop for HeapUsage {
    /// The runtime is gone by now, so what is still counted was leaked by QuickJS.
    fn drop(&mut self) {
        if self.bytes() > 0 {
            observe::record_engine_leak(self.bytes());
        }
    }
}

impl HeapUsage {
    /// An empty heap with a share of the server's total.
    pub(crate) fn new(bytes_max: usize, share: Share) -> Self {
        Self {
            bytes: Cell::new(0),
            bytes_granted: Cell::new(bytes_max.min(share.bytes())),
            bytes_max,
            share: RefCell::new(share),
            is_short: Cell::new(false),
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&self) {
        self.is_short.set(false);
    }

    /// Ends a turn: returns what is no longer needed to the server's total.
    pub(crate) fn end_turn(&self) {
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

    /// Draws on the server's total for a heap that will use that much.
    fn draw(&self, bytes: usize) -> bool {
        let mut share = self.share.borrow_mut();
        let is_drawn = share.grow_to(bytes);
        self.is_short.set(self.is_short.get() || !is_drawn);
        self.bytes_granted.set(self.bytes_max.min(share.bytes()));
        is_drawn
    }

    /// Counts a block that is granted past the limits.
    fn overdraw(&self, bytes: usize) {
        let mut share = self.share.borrow_mut();
        if bytes > share.bytes() {
            share.overdraw_to(bytes);
        }
    }
}

/// Allocates for one runtime.
pub(crate) struct Heap {
    meter: Rc<Meter>,
    used: Rc<HeapUsage>,
    since_look: usize,
}

impl Heap {
    /// A heap for the script that this meter watches.
    pub(crate) fn new(meter: Rc<Meter>, used: Rc<HeapUsage>) -> Self {
        Self { meter, used, since_look: 0 }
    }

    /// Whether a block of that size is granted.
    fn grants(&mut self, bytes: usize) -> bool {
        let after = self.used.bytes().saturating_add(bytes);
        if after > self.used.bytes_granted.get() && !self.grants_more(after, bytes) {
            return false;
        }
        !self.is_over(bytes)
    }

    /// The same for one that needs a further share of the server's total, or is past a limit.
    #[cold]
    fn grants_more(&self, after: usize, bytes: usize) -> bool {
        let bytes_max = self.used.bytes_max;
        if after <= bytes_max && self.used.draw(after) {
            return true;
        }
        if bytes > SMALL_BYTES_MAX {
            return false;
        }
        self.meter.request_stop(Stop::Memory);
        if after > bytes_max.saturating_add(RESERVE_BYTES) {
            return false;
        }
        self.used.overdraw(after);
        true
    }

    /// Whether the script must end because its time is used up.
    fn is_over(&mut self, bytes: usize) -> bool {
        self.since_look = self.since_look.saturating_add(bytes).saturating_add(CALL_BYTES);
        if self.since_look < BYTES_PER_LOOK || !self.meter.in_turn() {
            return false;
        }
        self.since_look = 0;
        self.meter.is_over(Instant::now()) && bytes > SMALL_BYTES_MAX
    }

    fn counted(&self, block: *mut u8) -> *mut u8 {
        // SAFETY: null or a live block of the allocator.
        let bytes = unsafe { mimalloc::mi_usable_size(block.cast()) };
        self.used.bytes.set(self.used.bytes() + bytes);
        block
    }

    fn uncount(&self, bytes: usize) {
        self.used.bytes.set(self.used.bytes().saturating_sub(bytes));
    }
}

// SAFETY: every pointer comes from the one allocator, which aligns for any type, and goes back to it; null is
// passed on as "no memory", which QuickJS expects at any allocation.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.grants(size) {
            return std::ptr::null_mut();
        }
        self.counted(unsafe { mimalloc::mi_malloc(size).cast() })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if !self.grants(count.saturating_mul(size)) {
            return std::ptr::null_mut();
        }
        self.counted(unsafe { mimalloc::mi_calloc(count, size).cast() })
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.uncount(unsafe { Self::usable_size(ptr) });
        unsafe { mimalloc::mi_free(ptr.cast()) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let old_size = unsafe { Self::usable_size(ptr) };
        if new_size > old_size && !self.grants(new_size - old_size) {
            return std::ptr::null_mut();
        }
        let block: *mut u8 = unsafe { mimalloc::mi_realloc(ptr.cast(), new_size).cast() };
        if block.is_null() {
            return block;
        }
        self.uncount(old_size);
        self.counted(block)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        unsafe { mimalloc::mi_usable_size(ptr.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::engine::Engine;
    use super::super::total::{MemoryTotal, Share};
    use crate::limits::Limits;
    use crate::observe;

    fn leaks() -> u64 {
        let page = observe::render_metrics();
        let count = page.lines().find_map(|line| line.strip_prefix("scomp_engine_leaks_total "));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// The only test in this process that leaks: the count is of the process.
    #[test]
    fn leak_in_the_engine_is_counted_and_not_fatal() {
        let engine = || {
            let share = Share::replace(&MemoryTotal::new(usize::MAX));
            Engine::new(Arc::new(Limits::default()), share).unwrap()
        };
        drop(engine());
        assert_eq!(leaks(), 0);
        let leaking = engine();
        leaking.enter(|ctx| {
            let object: rquickjs::Value<'_> = ctx.eval("({ f() {}, list: [{}] })").unwrap();
            std::mem::forget(object);
        });
        drop(leaking);
        assert_eq!(leaks(), 1);
        engine().enter(|ctx| assert_eq!(ctx.eval::<i32, _>("1 + 1").unwrap(), 2));
    }
}
