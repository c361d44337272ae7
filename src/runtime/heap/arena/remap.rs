//! What hibernation and rewinding do with the memory of a session.
//!
//! To hibernate is to copy the pages away and [`unmap`](Window::unmap) the window: the session keeps its slot. It goes on in a
//! window into which the pages are [copied](Window::copy_from), or [mapped](Window::map_file) from the file that has them.
//!
//! One of the modules with `unsafe`: it maps memory.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "for sessions that are imaged")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use super::slots::{Slot, SlotError};
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
    pub(crate) fn unmap(self: Rc<Self>) -> Arc<Slot> {
        Arc::clone(&self.slot)
    }

    /// Continues with the pages of a file, which stays as it is: pages are copied when they are written to.
    /// The file must not be shortened while they are mapped.
    pub(crate) fn map_file(
        slot: Arc<Slot>,
        file: &File,
        offset: u64,
        bytes: usize,
    ) -> Result<Rc<Self>, SlotError> {
        let window = Self::empty(slot)?;
        let mapped = window.grow_to(bytes).and_then(|()| window.map_pages(file, offset, bytes));
        mapped.map_err(|error| window.unmappable(error))?;
        window.file_bytes.set(bytes);
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
    ) -> Result<Rc<Self>, E> {
        let window = Self::empty(slot)?;
        window.grow_to(bytes).map_err(|error| window.unmappable(error))?;
        let start = NonNull::new(window.at(0))
            .ok_or_else(|| window.unmappable(io::ErrorKind::InvalidInput.into()))?;
        map(start)?;
        window.file_bytes.set(bytes);
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
    pub(crate) fn copy_from(slot: Arc<Slot>, pages: &[u8]) -> Result<Rc<Self>, SlotError> {
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
}
