//! The system calls of images: maps of a file, holes in it, and who this process is.
//!
//! One of the modules with `unsafe`. A map of a file that another process could shorten is a trap: reading it past the
//! end kills the process. So only files without a name are mapped, which are this process's alone, and they never shrink.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

/// The user whose rights this process has.
pub(super) fn user_id() -> u32 {
    // SAFETY: it takes nothing, cannot fail and touches no memory.
    unsafe { libc::geteuid() }
}

/// A read-only map of the start of a file, which may be longer than the file is yet.
#[derive(Debug)]
pub(super) struct FileMap {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the map belongs to this value alone and is only read.
unsafe impl Send for FileMap {}

impl FileMap {
    /// Reserves addresses for `bytes` bytes of the file; memory is used only for what is read.
    pub(super) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        // SAFETY: a new map at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The bytes of a range, which must be inside of the file.
    ///
    /// # Safety
    /// The file is at least as long as the end of the range and is never shortened, and nothing writes to the range
    /// while the slice is in use.
    pub(super) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.bytes, "outside of the map");
        // SAFETY: inside of the map by the check above; the caller answers for the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// Gives up the memory that reading a range has taken; it can be read again.
    pub(super) fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes, "outside of the map");
        // SAFETY: the range is inside of a shared, read-only map, which keeps its contents in the file. A failure
        // leaves it as it was.
        unsafe {
            libc::madvise(self.start.as_ptr().add(range.start).cast(), range.len(), libc::MADV_DONTNEED);
        }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: this value made the map, and no slice of it outlives the value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Maps a part of a file over existing addresses, privately: what is written there stays out of the file.
///
/// # Safety
/// The addresses belong to the caller, and no reference to what they held is in use. The part of the file exists, is
/// not shortened while it is mapped, and its pages that were not written to through the map are not changed.
pub(super) unsafe fn map_private_over(
    file: &File,
    offset: u64,
    bytes: usize,
    address: NonNull<u8>,
) -> io::Result<()> {
    // SAFETY: the caller owns the addresses and gives them up to the new map.
    let start = unsafe {
        libc::mmap(
            address.as_ptr().cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            libc::off_t::try_from(offset).map_err(io::Error::other)?,
        )
    };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the blocks of a part of a file to the disk; the part then reads as zeros. Where the file system cannot,
/// the blocks stay until they are written again.
#[cfg(target_os = "linux")]
pub(super) fn punch_hole(file: &File, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) else {
        return;
    };
    // SAFETY: it works on a descriptor that is open, and touches no memory of this process.
    unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset,
            bytes,
        );
    }
}

/// Elsewhere the blocks stay until they are written again.
#[cfg(not(target_os = "linux"))]
pub(super) fn punch_hole(_file: &File, _offset: u64, _bytes: u64) {}
