//! The heap of a JavaScript context: its limit, and a second place to preempt a script.
//!
//! QuickJS is not safe when an allocation fails, and a script can choose which one does. So no allocation fails while a
//! script runs. Past the limit the script is asked to end, and goes on from a reserve until QuickJS polls next. What needs
//! more than the reserve is abandoned in the middle ([`slice::abandon`]), and its heap is dropped as a whole. What a
//! script asks for by its size, such as a buffer, is checked before, in the prelude (`room.js`).
//!
//! Outside of turns nothing is abandoned: there a heap that is past the reserve gets no memory. Only a fresh context is made
//! there, of a known size; the values of scripts are freed and collected in turns.
//!
//! The limit of the server for all sessions together ([`MemoryTotal`](super::total::MemoryTotal)) works in the same way.
//! The heap draws on it in steps, so an ordinary allocation makes one comparison for both.
//!
//! QuickJS polls once in ten thousand back-edges and calls, so a loop around a slow builtin, such as
//! `for (;;) JSON.parse(text)`, would run for minutes. But such builtins allocate: every so many bytes an allocation
//! asks the same question.
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
use super::slice;
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

/// Largest block that is still granted past the limit where a turn cannot be abandoned: the chunk from which QuickJS
/// makes small objects. It survives the failure of a small one least.
const SMALL_BYTES_MAX: usize = 4096;

/// Whether the running turn can be abandoned: its heap has to go as a whole.
fn can_abandon() -> bool {
    Arena::GOES_WHOLE && slice::is_in_turn()
}

/// Allocates for one runtime. Null is passed on as "no memory".
struct Heap {
    meter: Rc<Meter>,
    used: Rc<HeapUsage>,
    since_look: usize,
}

impl Heap {
    /// Whether a block of that size is granted.
    fn grants(&mut self, bytes: usize) -> bool {
        #[cfg(test)]
        if can_abandon() && injected::is_due() {
            return self.refuse();
        }
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
        if bytes > SMALL_BYTES_MAX && !can_abandon() {
            return false;
        }
        self.meter.request_stop(Stop::Memory);
        if self.used.is_past_reserve(after) {
            return self.refuse();
        }
        self.used.overdraw(after);
        true
    }

    /// Abandons the turn; outside of one there is no memory.
    #[cold]
    fn refuse(&self) -> bool {
        if can_abandon() {
            self.meter.request_stop(Stop::Memory);
            slice::abandon();
        }
        false
    }

    /// Whether the script must end because its time is used up.
    fn is_over(&mut self, bytes: usize) -> bool {
        self.since_look = self.since_look.saturating_add(bytes).saturating_add(CALL_BYTES);
        if self.since_look < BYTES_PER_LOOK || !self.meter.in_turn() {
            return false;
        }
        self.since_look = 0;
        self.meter.is_over(Instant::now()) && bytes > SMALL_BYTES_MAX && !can_abandon()
    }

    /// Counts a new block. A window that is full is past the hard limit.
    fn counted(&self, block: *mut u8) -> *mut u8 {
        if block.is_null() {
            self.refuse();
            return block;
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

/// A request in a turn of this thread that is treated as one past the reserve.
#[cfg(test)]
pub(crate) mod injected {
    use std::cell::Cell;

    thread_local! {
        static REQUESTS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// The one after so many; `None` for none. Returns how many were left.
    pub(crate) fn after(requests: Option<u64>) -> Option<u64> {
        REQUESTS_LEFT.replace(requests)
    }

    /// Counts a request.
    pub(super) fn is_due() -> bool {
        let left = REQUESTS_LEFT.get();
        REQUESTS_LEFT.set(left.and_then(|left| left.checked_sub(1)));
        left == Some(0)
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
