//! The memory of a resident session: the beginning of its slot, writable as far as its heap has grown.
//!
//! The kernel keeps it as one map, and the reserved rest of the slot as a second. What is beyond the writable part, and the
//! guard at the end of the slot, faults: a stray write does not reach the neighbour.
//!
//! What images do with it is in [`remap`](super::remap), and how forks take turns in a slot in [`turns`](super::turns).
//!
//! Dropping the window of a slot that no fork shares takes one system call, whatever is in it.
//!
//! One of the modules with `unsafe`: it maps memory.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::slots::{Residency, SLOT_BYTES, Slot, SlotError, map_reserved};
use super::turns::{self, Place};
use crate::runtime::heap::presence::Presence;

/// Size of a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// Most bytes of a heap. The rest of the slot is the guard, and room for what is lost between the blocks of a heap that
/// uses all of its limit.
pub(super) const WINDOW_BYTES_MAX: usize = SLOT_BYTES - (1 << 20);

/// What a window grows by. A fresh context takes less than one step; a heap of 64 MiB makes 64 system calls.
const STEP_BYTES: usize = 1 << 20;

/// What a fresh context writes to in any case: mapped with one system call instead of a fault for each page.
const FRESH_BYTES: usize = 192 << 10;

/// The memory of one session, in its slot.
#[derive(Debug)]
pub(crate) struct Window {
    pub(super) slot: Arc<Slot>,
    /// How far it is writable.
    pub(super) writable: Cell<usize>,
    /// How much of it is mapped from a file.
    pub(super) file_bytes: Cell<usize>,
    /// Where its pages are.
    pub(super) place: Cell<Place>,
    pub(super) presence: Arc<Presence>,
    _residency: Residency,
}

impl Window {
    /// Without any memory: what the session has is still to be mapped. A fork that is in the slot makes room.
    pub(super) fn empty(slot: Arc<Slot>) -> Result<Rc<Self>, SlotError> {
        let residency = slot.admit()?;
        turns::vacate(&slot)?;
        let window = Rc::new(Self {
            slot,
            writable: Cell::new(0),
            file_bytes: Cell::new(0),
            place: Cell::new(Place::InSlot),
            presence: Arc::default(),
            _residency: residency,
        });
        turns::note_present(&window);
        Ok(window)
    }

    /// With the memory for a fresh context, all zero.
    pub(super) fn fresh(slot: Arc<Slot>) -> Result<Rc<Self>, SlotError> {
        let window = Self::empty(slot)?;
        window.grow_to(FRESH_BYTES).map_err(|error| window.unmappable(error))?;
        // SAFETY: the range is writable. Where the kernel cannot do this, the pages come one by one.
        unsafe { libc::madvise(window.at(0).cast(), FRESH_BYTES, libc::MADV_POPULATE_WRITE) };
        Ok(window)
    }

    pub(super) fn unmappable(&self, error: io::Error) -> SlotError {
        SlotError::Unmappable { number: self.slot.number(), error }
    }

    /// Where it begins.
    pub(super) fn address(&self) -> usize {
        self.slot.address()
    }

    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        (self.address() + offset) as *mut u8
    }

    /// How far it is writable.
    pub(super) fn writable(&self) -> usize {
        self.writable.get()
    }

    /// How much of it is mapped from a file. Pages that are discarded there are as in the file again, and not zero.
    pub(super) fn file_bytes(&self) -> usize {
        self.file_bytes.get()
    }

    /// Makes it writable up to there at least; what is new is zero.
    pub(super) fn grow_to(&self, bytes: usize) -> io::Result<()> {
        let (from, to) = (self.writable(), bytes.next_multiple_of(STEP_BYTES).min(WINDOW_BYTES_MAX));
        if bytes > WINDOW_BYTES_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if to <= from {
            return Ok(());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is reserved for us, and nothing refers to it yet.
        if unsafe { libc::mprotect(self.at(from).cast(), to - from, access) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.writable.set(to);
        Ok(())
    }

    /// Returns the memory of these pages to the system. They are zero afterwards, or as in the file they are mapped from.
    pub(super) fn discard(&self, from: usize, to: usize) {
        debug_assert!(from.is_multiple_of(PAGE_BYTES) && to.is_multiple_of(PAGE_BYTES));
        if from < to {
            // SAFETY: the range is ours; the caller has nothing in it. A failure only keeps the memory.
            unsafe { libc::madvise(self.at(from).cast(), to - from, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.presence.set(false);
        match self.place.get() {
            Place::Away(address) => turns::unmap(address, self.writable()),
            Place::Lost => {}
            Place::InSlot => {
                turns::forget_present(self);
                // A slot that goes as well takes the memory with it.
                if self.writable() > 0 && Arc::strong_count(&self.slot) > 1 {
                    // Without maps for the reservation there are none for a new one either; the memory stays until the
                    // slot goes.
                    let _ = map_reserved(self.address(), self.writable(), libc::MAP_FIXED);
                }
            }
        }
    }
}
