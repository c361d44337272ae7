//! Where a runtime takes its memory from, as QuickJS wants it: functions written for C, and a pointer that they are given.
//!
//! One of the modules with `unsafe`: C calls these functions with pointers that they gave out.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use rquickjs::allocator::Allocator;
use rquickjs::qjs;

/// The memory of one runtime. It outlives the runtime.
pub(crate) trait Memory {
    /// The functions that QuickJS calls for every block.
    fn functions(&self) -> qjs::JSMallocFunctions;

    /// The first argument of these functions. QuickJS keeps it in the heap and has no way to change it, so a heap that is
    /// to go on elsewhere needs one that is valid there too.
    fn opaque(&self) -> *mut c_void;
}

/// An allocator of Rust as the memory of a runtime.
pub(crate) struct AllocatorMemory<A: Allocator>(NonNull<A>);

impl<A: Allocator + 'static> AllocatorMemory<A> {
    pub(crate) fn boxed(allocator: A) -> Box<dyn Memory> {
        Box::new(Self(NonNull::from(Box::leak(Box::new(allocator)))))
    }
}

impl<A: Allocator> Drop for AllocatorMemory<A> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the runtime that used it is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<A: Allocator> Memory for AllocatorMemory<A> {
    fn functions(&self) -> qjs::JSMallocFunctions {
        qjs::JSMallocFunctions {
            js_calloc: Some(calloc::<A>),
            js_malloc: Some(malloc::<A>),
            js_free: Some(free::<A>),
            js_realloc: Some(realloc::<A>),
            js_malloc_usable_size: Some(usable_size::<A>),
        }
    }

    fn opaque(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

// SAFETY, for all of them: the opaque pointer is that of `AllocatorMemory`, which is alive and, since allocators call no
// JavaScript, not in use; a block is null or came from the same allocator.

unsafe extern "C" fn calloc<A: Allocator>(
    opaque: *mut c_void,
    count: qjs::size_t,
    size: qjs::size_t,
) -> *mut c_void {
    unsafe { (*opaque.cast::<A>()).calloc(count as usize, size as usize).cast() }
}

unsafe extern "C" fn malloc<A: Allocator>(opaque: *mut c_void, size: qjs::size_t) -> *mut c_void {
    unsafe { (*opaque.cast::<A>()).alloc(size as usize).cast() }
}

unsafe extern "C" fn free<A: Allocator>(opaque: *mut c_void, block: *mut c_void) {
    if !block.is_null() {
        unsafe { (*opaque.cast::<A>()).dealloc(block.cast()) }
    }
}

unsafe extern "C" fn realloc<A: Allocator>(
    opaque: *mut c_void,
    block: *mut c_void,
    size: qjs::size_t,
) -> *mut c_void {
    unsafe { (*opaque.cast::<A>()).realloc(block.cast(), size as usize).cast() }
}

unsafe extern "C" fn usable_size<A: Allocator>(block: *const c_void) -> qjs::size_t {
    if block.is_null() {
        return 0;
    }
    unsafe { A::usable_size(block.cast_mut().cast()) as qjs::size_t }
}
