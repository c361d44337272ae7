//! The memory of a JavaScript world, and a second place to take the processor back.
//!
//! QuickJS polls its interrupt handler once in ten thousand back-edges and calls. A loop around a slow builtin, such as
//! `for (;;) JSON.parse(text)`, would reach it after minutes. But such builtins allocate, so every so many bytes an
//! allocation asks the same question; a script that is to end gets no more memory. The limit itself is QuickJS's.
//!
//! One of the modules with `unsafe`: it hands out memory of the C library.
#![allow(unsafe_code)]

use std::rc::Rc;
use std::time::Instant;

use rquickjs::allocator::Allocator;

use super::meter::Meter;

/// Bytes allocated between two looks at the clock. Small objects come from chunks of QuickJS's own, so an ordinary
/// script hardly gets here; a look takes some 30 ns.
const BYTES_PER_LOOK: usize = 64 << 10;

/// What each allocation counts beside its size.
const CALL_BYTES: usize = 512;

/// Allocates for one runtime.
pub(crate) struct Heap {
    meter: Rc<Meter>,
    since_look: usize,
}

impl Heap {
    /// Memory for the script that this meter watches.
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        Self { meter, since_look: 0 }
    }

    /// Whether there is to be no more memory.
    fn is_over(&mut self, bytes: usize) -> bool {
        self.since_look = self.since_look.saturating_add(bytes).saturating_add(CALL_BYTES);
        if self.since_look < BYTES_PER_LOOK || !self.meter.in_turn() {
            return false;
        }
        self.since_look = 0;
        self.meter.is_over(Instant::now())
    }
}

// SAFETY: every pointer comes from the C library's allocator, which aligns for any type, and goes back to it; null is
// passed on as "no memory", which QuickJS expects at any allocation because of its own limit.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if self.is_over(size) {
            return std::ptr::null_mut();
        }
        unsafe { libc::malloc(size).cast() }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if self.is_over(count.saturating_mul(size)) {
            return std::ptr::null_mut();
        }
        unsafe { libc::calloc(count, size).cast() }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        unsafe { libc::free(ptr.cast()) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        if self.is_over(new_size) {
            return std::ptr::null_mut();
        }
        unsafe { libc::realloc(ptr.cast(), new_size).cast() }
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        unsafe { libc::malloc_usable_size(ptr.cast()) }
    }
}
