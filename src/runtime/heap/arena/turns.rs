//! How a session and its forks take turns in the slot that they share.
//!
//! Their heaps work at the same addresses, so one of them at a time is in the slot. The pages of the others are *away*: moved
//! to other addresses, where nothing can work with them. A window [enters](Window::enter) the slot before its heap is used,
//! and the one that is there is moved away. A suspended turn does not mind: its stack is elsewhere, and what it points to
//! is back when it goes on.
//!
//! All that share a slot live on one thread, which keeps who is in it. The one access of another thread is guarded by the
//! window's [`Presence`](crate::runtime::heap::presence::Presence).
//!
//! The kernel moves pages without copying them. Where it refuses, they are copied.
//!
//! One of the modules with `unsafe`: it moves memory.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};

use super::slots::{Slot, SlotError, map_reserved};
use super::window::{PAGE_BYTES, Window};

/// What an address away from the slot is aligned to: the kernel then moves tables of pages instead of pages.
const AWAY_ALIGNMENT: usize = 2 << 20;

thread_local! {
    /// The windows that are in their slots, by the addresses of these.
    static PRESENT: RefCell<HashMap<usize, Weak<Window>>> = RefCell::default();
}

/// Where the pages of a window are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    InSlot,
    /// At another address: another window is in the slot, or was.
    Away(usize),
    /// Partly here and partly there, because the kernel refused a move in the middle and the way back too.
    Lost,
}

/// A window is in its slot from now on.
pub(super) fn note_present(window: &Rc<Window>) {
    PRESENT.with_borrow_mut(|present| present.insert(window.address(), Rc::downgrade(window)));
}

/// A window is not in its slot any more.
pub(super) fn forget_present(window: &Window) {
    let forget = |present: &mut HashMap<usize, Weak<Window>>| {
        let is_it = |known: &Weak<Window>| std::ptr::eq(known.as_ptr(), window);
        if present.get(&window.address()).is_some_and(is_it) {
            present.remove(&window.address());
        }
    };
    // At the end of a thread the table may be gone, and nothing asks for it.
    let _ = PRESENT.try_with(|present| forget(&mut present.borrow_mut()));
}

/// Moves the window away that is in the slot, if there is one.
pub(super) fn vacate(slot: &Slot) -> Result<(), SlotError> {
    let present = PRESENT.with_borrow(|present| present.get(&slot.address()).and_then(Weak::upgrade));
    present.map_or(Ok(()), |window| window.leave())
}

/// Releases pages that are away.
pub(super) fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the range is ours, and nothing refers to what is in it.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}

impl Window {
    /// Makes sure that its pages are in the slot. After an error nothing has changed, unless it is lost.
    #[inline]
    pub(crate) fn enter(self: &Rc<Self>) -> Result<(), SlotError> {
        match self.place.get() {
            Place::InSlot => Ok(()),
            Place::Away(address) => self.come_back(address),
            Place::Lost => Err(self.unmappable(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Whether its pages are in the slot.
    #[inline]
    pub(crate) fn is_present(&self) -> bool {
        self.place.get() == Place::InSlot
    }

    #[cold]
    fn come_back(self: &Rc<Self>, away: usize) -> Result<(), SlotError> {
        vacate(&self.slot)?;
        let bytes = self.writable();
        let moved = self.relocate(away, self.address(), bytes);
        if moved.is_ok() || self.place.get() == Place::Lost {
            unmap(away, bytes);
        }
        moved?;
        self.place.set(Place::InSlot);
        self.presence.set(true);
        note_present(self);
        Ok(())
    }

    /// Moves its pages out of the slot, which another window may use then. It counts as resident as before.
    fn leave(&self) -> Result<(), SlotError> {
        let bytes = self.writable();
        let away = reserve_away(bytes).map_err(|error| self.unmappable(error))?;
        self.presence.set(false);
        let moved = self.relocate(self.address(), away, bytes).and_then(|()| {
            // The addresses stay mapped until here: nothing else got them in between.
            map_reserved(self.address(), bytes, libc::MAP_FIXED).map_err(|error| {
                self.relocate(away, self.address(), bytes).err().unwrap_or_else(|| self.unmappable(error))
            })
        });
        if let Err(error) = moved {
            unmap(away, bytes);
            self.presence.set(self.is_present());
            return Err(error);
        }
        self.place.set(Place::Away(away));
        forget_present(self);
        Ok(())
    }

    /// Moves all its pages from one address to another; both stay mapped. After an error they are where they were, or
    /// the window is lost.
    fn relocate(&self, from: usize, to: usize, bytes: usize) -> Result<(), SlotError> {
        let file = self.file_bytes().min(bytes);
        // The kernel moves one map in a call: that of the file, and that of what has grown behind it.
        let parts = [(0, file), (file, bytes)];
        for (done, (start, end)) in parts.into_iter().enumerate() {
            if let Err(error) = relocate_part(from + start, to + start, end - start) {
                let back = parts[..done]
                    .iter()
                    .try_for_each(|(start, end)| relocate_part(to + start, from + start, end - start));
                if back.is_err() {
                    self.place.set(Place::Lost);
                    forget_present(self);
                    // What is left there must not be taken for empty memory.
                    let _ = map_reserved(self.address(), bytes, libc::MAP_FIXED);
                }
                return Err(self.unmappable(error));
            }
        }
        Ok(())
    }
}

/// Moves the pages of one map, or copies them.
fn relocate_part(from: usize, to: usize, bytes: usize) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let (old, new) = (from as *mut libc::c_void, to as *mut libc::c_void);
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: both ranges are ours, and nothing is in the second.
    if unsafe { libc::mremap(old, bytes, bytes, how, new) } != libc::MAP_FAILED {
        return Ok(());
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the same. Both are readable and writable then.
    if unsafe { libc::mprotect(new, bytes, access) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for offset in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: whole pages in both ranges, which do not overlap.
        unsafe {
            let (page, place) = ((from + offset) as *const [u8; PAGE_BYTES], (to + offset) as *mut u8);
            // A page that was never written to stays one.
            if (*page).iter().any(|byte| *byte != 0) {
                std::ptr::copy_nonoverlapping(page.cast(), place, PAGE_BYTES);
            }
        }
    }
    Ok(())
}

/// Reserves addresses outside of the slots.
fn reserve_away(bytes: usize) -> io::Result<usize> {
    let got = map_reserved(0, bytes + AWAY_ALIGNMENT, 0)?;
    let start = got.next_multiple_of(AWAY_ALIGNMENT);
    unmap(got, start - got);
    unmap(start + bytes, got + AWAY_ALIGNMENT - start);
    Ok(start)
}
