//! The heap of a JavaScript context: its limit, and a second place to preempt a script.
//!
//! QuickJS does not survive every failed allocation, so the limit has two steps. Past it, large blocks are refused,
//! which every script can handle, and the script is asked to end; small ones are still granted, from a reserve that
//! lasts until QuickJS polls next. A turn that can be abandoned gets large blocks from the reserve as well, and is
//! abandoned past it ([`HeapUsage::abandon_with`]): then no allocation fails.
//!
//! The limit of the server for all sessions together ([`MemoryTotal`](super::total::MemoryTotal)) works in the same way.
//! The heap draws on it in steps, so an ordinary allocation makes one comparison for both.
//!
//! QuickJS polls once in ten thousand back-edges and calls, so a loop around a slow builtin, such as
//! `for (;;) JSON.parse(text)`, would run for minutes. But such builtins allocate: every so many bytes an allocation
//! asks the same question, and a script that is to end gets no more large blocks.
//!
//! The blocks of a session lie in one window of addresses of its own ([`arena`]), which goes as a whole when the session
//! ends. On systems other than Linux on x86-64 they are mimalloc's.
//!
//! One of the modules with `unsafe`: it hands out memory.
#![allow(unsafe_code)]

#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), path = "system.rs")]
pub(crate) mod arena;
mod memory;
pub(crate) mod presence;
mod usage;

use std::ptr::null_mut;
use std::rc::Rc;
use std::time::Instant;

use super::meter::Meter;
use crate::limits::MEMORY_RESERVE_BYTES;
use crate::session::Stop;

pub(crate) use arena::{Arena, SlotError, release_freed_memory};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use arena::{Slot, Slots, Window, random_base};
pub(crate) use memory::{HeapMemory, entries};
pub(crate) use usage::HeapUsage;

/// Bytes allocated between two reads of the clock. Small objects come from chunks of QuickJS's own, so an ordinary
/// script hardly gets here; a read takes some 30 ns.
const BYTES_PER_LOOK: usize = 64 << 10;

/// What each allocation counts beside its size.
const CALL_BYTES: usize = 512;

/// Largest block that is still granted past the limit: the chunk from which QuickJS makes small objects.
const SMALL_BYTES_MAX: usize = 4096;

/// Allocates for one runtime. Null is passed on as "no memory", which QuickJS expects at any allocation.
struct Heap {
    meter: Rc<Meter>,
    used: Rc<HeapUsage>,
    since_look: usize,
}

impl Heap {
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
        let abandon = self.used.abandon.get();
        if bytes > SMALL_BYTES_MAX && abandon.is_none() {
            return false;
        }
        self.meter.request_stop(Stop::Memory);
        if after > bytes_max.saturating_add(MEMORY_RESERVE_BYTES) {
            return match abandon {
                Some(abandon) => abandon(),
                None => false,
            };
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
        self.meter.is_over(Instant::now()) && bytes > SMALL_BYTES_MAX && self.used.abandon.get().is_none()
    }

    /// Counts a new block. A window that is full is past the hard limit.
    fn counted(&self, block: *mut u8) -> *mut u8 {
        if block.is_null() {
            return self.used.abandon.get().map_or(block, |abandon| abandon());
        }
        // SAFETY: a live block of the arena.
        self.used.count(unsafe { Arena::usable_size(block) });
        block
    }

    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.grants(size) {
            return null_mut();
        }
        self.counted(self.used.arena.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if !self.grants(count.saturating_mul(size)) {
            return null_mut();
        }
        self.counted(self.used.arena.calloc(count, size))
    }

    /// # Safety
    ///
    /// It is a live block of this heap.
    unsafe fn free(&self, ptr: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.used.uncount(Arena::usable_size(ptr));
            self.used.arena.free(ptr);
        }
    }

    /// # Safety
    ///
    /// It is a live block of this heap.
    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let old_size = Arena::usable_size(ptr);
            if new_size > old_size && !self.grants(new_size - old_size) {
                return null_mut();
            }
            let block = self.counted(self.used.arena.realloc(ptr, new_size));
            if !block.is_null() {
                self.used.uncount(old_size);
            }
            block
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::engine::Engine;
    use super::super::total::{MemoryTotal, Share};
    use crate::limits::Limits;

    /// QuickJS frees nothing at the end of a session, so what it has lost count of costs nothing.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn leak_in_the_engine_goes_with_the_heap() {
        let total = MemoryTotal::new(usize::MAX);
        let engine = || Engine::new(Arc::new(Limits::default()), Share::replace(&total)).unwrap();
        let leaking = engine();
        leaking.enter(|ctx| {
            let object: rquickjs::Value<'_> = ctx.eval("({ f() {}, list: [{}] })").unwrap();
            std::mem::forget(object);
        });
        let slot = Arc::downgrade(leaking.used().arena().window().slot());
        assert!(total.drawn() > 0);
        drop(leaking);
        assert_eq!((total.drawn(), slot.strong_count()), (0, 0));
        engine().enter(|ctx| assert_eq!(ctx.eval::<i32, _>("1 + 1").unwrap(), 2));
    }
}
