//! The heap of a session where it has no window of addresses: blocks of mimalloc.
//!
//! The allocator of the C library grows the part of a thread that is not the first page by page, with a system call each, and a
//! context has eighty pages. It also keeps scripts and the server on separate heaps.
//!
//! One of the modules with `unsafe`: it allocates from an allocator written in C.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use libmimalloc_sys as mimalloc;

use super::presence::Presence;

/// There is always a place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotError {}

/// Returns memory of dropped contexts of this thread to the system.
pub(crate) fn release_freed_memory() {
    // SAFETY: it takes nothing and may be called at any time, from any thread.
    unsafe { mimalloc::mi_collect(true) }
}

/// The blocks of a session, among those of the others.
#[derive(Debug)]
pub(crate) struct Arena;

impl Arena {
    /// Every block has to be freed.
    pub(crate) const GOES_WHOLE: bool = false;

    pub(crate) fn new() -> Result<Self, SlotError> {
        Ok(Self)
    }

    /// It is always there.
    pub(crate) fn presence(&self) -> &Arc<Presence> {
        static PRESENCE: LazyLock<Arc<Presence>> = LazyLock::new(Arc::default);
        &PRESENCE
    }

    pub(crate) fn attach(&self, owner: NonNull<c_void>) -> *mut c_void {
        owner.as_ptr()
    }

    /// # Safety
    ///
    /// [`Self::attach`] returned the pointer.
    pub(crate) unsafe fn attached(heap: *mut c_void) -> *mut c_void {
        heap
    }

    pub(crate) fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: it may be called at any time.
        unsafe { mimalloc::mi_malloc(size).cast() }
    }

    pub(crate) fn calloc(&self, count: usize, size: usize) -> *mut u8 {
        // SAFETY: it may be called at any time.
        unsafe { mimalloc::mi_calloc(count, size).cast() }
    }

    /// # Safety
    ///
    /// It is a live block.
    pub(crate) unsafe fn free(&self, block: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    /// # Safety
    ///
    /// It is a live block.
    pub(crate) unsafe fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe { mimalloc::mi_realloc(block.cast(), size).cast() }
    }

    /// # Safety
    ///
    /// It is a live block.
    pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe { mimalloc::mi_usable_size(block.cast()) }
    }

    /// Nothing: mimalloc returns memory by itself.
    pub(crate) fn trim_at_turn_end(&self) {}
}
