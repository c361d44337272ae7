//! The heap as QuickJS uses it: functions written for C, and a pointer that they are given.
//!
//! QuickJS keeps that pointer in the heap and has no way to change it. So it is an address inside the heap, where the
//! address of the [`Heap`] is found, which is set anew when a heap is continued. Where heaps are not continued, it is the
//! address of the [`Heap`] itself ([`Arena::attach`]).
//!
//! One of the modules with `unsafe`: C calls these functions with pointers that they returned.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

use rquickjs::qjs;

use super::{Arena, Heap, HeapUsage};
use crate::image::build::Symbol;
use crate::runtime::meter::Meter;

/// The memory of one runtime, which it outlives.
pub(crate) struct HeapMemory {
    heap: NonNull<Heap>,
    opaque: *mut c_void,
}

impl HeapMemory {
    /// Memory for the script that this meter watches.
    pub(crate) fn new(meter: &Rc<Meter>, used: &Rc<HeapUsage>) -> Self {
        let heap = Heap { meter: Rc::clone(meter), used: Rc::clone(used), since_look: 0 };
        let heap = NonNull::from(Box::leak(Box::new(heap)));
        Self { heap, opaque: used.arena.attach(heap.cast()) }
    }

    /// The functions that QuickJS calls for every block.
    pub(crate) fn functions(&self) -> qjs::JSMallocFunctions {
        qjs::JSMallocFunctions {
            js_calloc: Some(calloc),
            js_malloc: Some(malloc),
            js_free: Some(free),
            js_realloc: Some(realloc),
            js_malloc_usable_size: Some(usable_size),
        }
    }

    /// The first argument of these functions.
    pub(crate) fn opaque(&self) -> *mut c_void {
        self.opaque
    }
}

/// The addresses of these functions, which are in every heap.
pub(crate) fn entries() -> [Symbol; 5] {
    [
        Symbol { name: "calloc", address: calloc as *const () as usize },
        Symbol { name: "malloc", address: malloc as *const () as usize },
        Symbol { name: "free", address: free as *const () as usize },
        Symbol { name: "realloc", address: realloc as *const () as usize },
        Symbol { name: "usable_size", address: usable_size as *const () as usize },
    ]
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the runtime that used it is gone.
        drop(unsafe { Box::from_raw(self.heap.as_ptr()) });
    }
}

// SAFETY, for all of them: the opaque pointer is that of a `HeapMemory`, which is alive and, since allocating calls no
// JavaScript, not in use; a block is null or came from the same heap.

#[inline]
unsafe fn heap<'a>(opaque: *mut c_void) -> &'a mut Heap {
    unsafe { &mut *Arena::attached(opaque).cast() }
}

unsafe extern "C" fn calloc(opaque: *mut c_void, count: qjs::size_t, size: qjs::size_t) -> *mut c_void {
    unsafe { heap(opaque).calloc(count as usize, size as usize).cast() }
}

unsafe extern "C" fn malloc(opaque: *mut c_void, size: qjs::size_t) -> *mut c_void {
    unsafe { heap(opaque).alloc(size as usize).cast() }
}

unsafe extern "C" fn free(opaque: *mut c_void, block: *mut c_void) {
    if !block.is_null() {
        unsafe { heap(opaque).free(block.cast()) }
    }
}

unsafe extern "C" fn realloc(opaque: *mut c_void, block: *mut c_void, size: qjs::size_t) -> *mut c_void {
    unsafe { heap(opaque).realloc(block.cast(), size as usize).cast() }
}

unsafe extern "C" fn usable_size(block: *const c_void) -> qjs::size_t {
    if block.is_null() {
        return 0;
    }
    unsafe { Arena::usable_size(block.cast_mut().cast()) as qjs::size_t }
}
