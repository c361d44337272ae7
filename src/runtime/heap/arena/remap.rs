//! What hibernation, rewinding and forks do with the memory of a session.
//!
//! To hibernate is to copy the pages away and [`unmap`](Window::unmap) the window: the session keeps its slot. It goes on in a
//! window into which the pages are [copied](Window::copy_from), or [mapped](Window::map_file) from the file that has them.
//!
//! Forks share the slot of their origin, and one of them at a time is in it. The others are [`Parked`]: their pages are
//! moved to other addresses, where nothing can work with them, and back.
//!
//! One of the modules with `unsafe`: it maps memory.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "for sessions that are imaged")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::sync::Arc;

use super::slots::{Slot, SlotError, map_reserved};
use super::window::{PAGE_BYTES, Window};

impl Window {
    /// The slot that it is in.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Where its pages are.
    pub(crate) fn pages_address(&self) -> usize {
        self.address()
    }

    /// Gives up the memory, and keeps the addresses reserved.
    pub(crate) fn unmap(self) -> Arc<Slot> {
        Arc::clone(&self.slot)
    }

    /// Continues with the pages of a file, which stays as it is: pages are copied when they are written to.
    /// The file must not be shortened while they are mapped.
    pub(crate) fn map_file(
        slot: Arc<Slot>,
        file: &File,
        offset: u64,
        bytes: usize,
    ) -> Result<Self, SlotError> {
        let mut window = Self::empty(slot)?;
        let mapped = window.grow_to(bytes).and_then(|()| window.map_pages(file, offset, bytes));
        mapped.map_err(|error| window.unmappable(error))?;
        window.file_bytes = bytes;
        Ok(window)
    }

    /// Continues with pages that `map` maps from a file, privately and at this address.
    ///
    /// # Safety
    ///
    /// `map` returns `Ok` only if all the pages are mapped, and the file is not shortened while they are.
    pub(crate) unsafe fn map_with<E: From<SlotError>>(
        slot: Arc<Slot>,
        bytes: usize,
        map: impl FnOnce(NonNull<u8>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut window = Self::empty(slot)?;
        window.grow_to(bytes).map_err(|error| window.unmappable(error))?;
        let start = NonNull::new(window.at(0))
            .ok_or_else(|| window.unmappable(io::ErrorKind::InvalidInput.into()))?;
        map(start)?;
        window.file_bytes = bytes;
        Ok(window)
    }

    fn map_pages(&self, file: &File, offset: u64, bytes: usize) -> io::Result<()> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        if !bytes.is_multiple_of(PAGE_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the range is ours and has nothing in it yet.
        let got = unsafe { libc::mmap(self.at(0).cast(), bytes, access, how, file.as_raw_fd(), offset) };
        if got == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Continues with a copy of these pages.
    pub(crate) fn copy_from(slot: Arc<Slot>, pages: &[u8]) -> Result<Self, SlotError> {
        let window = Self::empty(slot)?;
        window.grow_to(pages.len()).map_err(|error| window.unmappable(error))?;
        // SAFETY: the range is writable, and `pages` cannot be in it: it was reserved until now.
        unsafe { std::ptr::copy_nonoverlapping(pages.as_ptr(), window.at(0), pages.len()) };
        Ok(window)
    }

    /// Its first pages.
    ///
    /// # Safety
    ///
    /// Nothing may write to them as long as the slice lives: no script runs.
    pub(crate) unsafe fn pages(&self, bytes: usize) -> &[u8] {
        debug_assert!(bytes <= self.writable());
        // SAFETY: the range is mapped, and guaranteed by the caller to stay as it is.
        unsafe { std::slice::from_raw_parts(self.at(0), bytes) }
    }

    /// Moves the memory out of the slot, which another window may use then. It counts as resident as before.
    ///
    /// A failure on the way loses the session: its pages are partly moved.
    pub(crate) fn park(self) -> Result<Parked, SlotError> {
        let bytes = self.writable();
        let address = map_reserved(0, bytes, 0).map_err(|error| self.unmappable(error))?;
        let away = Mapping { address, bytes };
        // The addresses stay mapped until they are reserved again: nothing else may get them in between.
        let moved = self.relocate(self.address(), away.address, bytes, libc::MREMAP_DONTUNMAP);
        let reserved = moved.and_then(|()| map_reserved(self.address(), bytes, libc::MAP_FIXED));
        reserved.map_err(|error| self.unmappable(error))?;
        self.writable.set(0);
        Ok(Parked { window: self, away })
    }

    /// Moves all its pages from one address to another, where as much is reserved.
    fn relocate(&self, from: usize, to: usize, bytes: usize, how: i32) -> io::Result<()> {
        let file = self.file_bytes();
        // The kernel moves one map in a call: that of the file, and that of what has grown behind it.
        for (start, end) in [(0, file), (file, bytes)] {
            if start < end {
                let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | how;
                let (old, new) = ((from + start) as *mut libc::c_void, (to + start) as *mut libc::c_void);
                // SAFETY: both ranges are ours, and nothing is in the second.
                if unsafe { libc::mremap(old, end - start, end - start, how, new) } == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    }
}

/// The memory of a fork that is not in its slot.
#[derive(Debug)]
pub(crate) struct Parked {
    window: Window,
    away: Mapping,
}

impl Parked {
    /// Moves the memory back into the slot. The window that was there must have been parked or unmapped.
    pub(crate) fn unpark(self) -> Result<Window, SlotError> {
        let Self { window, mut away } = self;
        let moved = window.relocate(away.address, window.address(), away.bytes, 0);
        moved.map_err(|error| window.unmappable(error))?;
        window.writable.set(std::mem::take(&mut away.bytes));
        Ok(window)
    }
}

/// Memory outside of the slots.
#[derive(Debug)]
struct Mapping {
    address: usize,
    bytes: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is ours, and nothing refers to what is in it.
            unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
        }
    }
}
