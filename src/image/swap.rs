//! Images for the life of this process: parts of one file without a name, held by its descriptor.
//!
//! A file per shard, not per session: no file to create and no descriptor to keep for each of many thousand sessions.
//! No other process can reach it, so nothing is sealed, and a heap comes back by one map. It is mapped once as a whole,
//! read-only, so that the last image of a heap can be compared with it without a copy in memory.
//!
//! A heap that was mapped back shares its unwritten pages with the file. So an image is changed in place only by its own
//! heap: what differs there was written, and what was written is a page of its own. And the part of the file that a heap is
//! mapped from is not reused before [`SwapFile::set_unmapped`].

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;

use super::delta::{PageRun, changed_runs};
use super::error::check_size;
use super::extents::{Extent, Extents};
use super::system::{FileMap, map_private_over, punch_hole};
use super::{HEAP_BYTES_MAX, ImageError, PAGE_BYTES, STATE_BYTES_MAX};

/// Longest swap file: addresses for its map must be there. 40,000 sessions of 1.5 MB have room in it.
pub(crate) const SWAP_BYTES_MAX: u64 = 64 << 30;

/// Heaps get room in steps of 64 KiB, so that one that grows a little stays where it is.
const HEAP_STEP_PAGES: u64 = 16;

/// The images of a shard.
#[derive(Debug)]
pub(crate) struct SwapFile {
    file: File,
    map: FileMap,
    extents: Extents,
    file_bytes: u64,
}

/// A heap and a state in the file. It is released by [`SwapFile::release`], not by dropping it: it does not know its
/// file.
#[derive(Debug)]
#[must_use = "an image that is not released keeps its part of the file"]
pub(crate) struct SwapImage {
    heap: Extent,
    heap_bytes: usize,
    state: Extent,
    state_bytes: usize,
    /// Where a live heap is mapped from.
    mapped: Option<Extent>,
    /// Not after a write that failed: then the parts are of different moments.
    is_whole: bool,
}

impl SwapImage {
    /// Length of the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    fn check_whole(&self) -> Result<(), ImageError> {
        if self.is_whole { Ok(()) } else { Err(ImageError::Truncated("its last write failed")) }
    }
}

impl SwapFile {
    /// A file in `folder` that has no name, of at most `bytes_max` bytes.
    pub(crate) fn new(folder: &Path, bytes_max: u64) -> Result<Self, ImageError> {
        check_size("swap file", bytes_max, SWAP_BYTES_MAX)?;
        let file =
            nameless_file(folder).map_err(|source| ImageError::Io { what: "create swap file", source })?;
        Self::over(file, bytes_max)
    }

    fn over(file: File, bytes_max: u64) -> Result<Self, ImageError> {
        let pages = bytes_max / PAGE_BYTES as u64;
        // An empty map is refused by the system.
        let bytes = (pages.max(1) * PAGE_BYTES as u64) as usize;
        let map =
            FileMap::new(&file, bytes).map_err(|source| ImageError::Io { what: "map swap file", source })?;
        Ok(Self { file, map, extents: Extents::new(pages), file_bytes: 0 })
    }

    /// Bytes of the file that images use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.extents.used_pages() * PAGE_BYTES as u64
    }

    /// Writes a new image. After an error nothing of it is left.
    pub(crate) fn write(&mut self, heap: &[u8], state: &[u8]) -> Result<SwapImage, ImageError> {
        check_parts(heap, state)?;
        let mut image = SwapImage {
            heap: self.allocate(heap_pages(heap.len()))?,
            heap_bytes: 0,
            state: Extent { first: 0, pages: 0 },
            state_bytes: 0,
            mapped: None,
            is_whole: false,
        };
        let written = self.write_state(&mut image, state).and_then(|()| self.write_all(&mut image, heap));
        match written {
            Ok(()) => Ok(image),
            Err(error) => {
                self.release(image);
                Err(error)
            }
        }
    }

    /// Brings an image up to date with its heap, and says which pages had changed, unless the image was not whole. After
    /// an error the image cannot be used before it was updated with success; the heap is untouched.
    pub(crate) fn update(
        &mut self,
        image: &mut SwapImage,
        heap: &[u8],
        state: &[u8],
    ) -> Result<Option<Vec<PageRun>>, ImageError> {
        check_parts(heap, state)?;
        let runs = self.changed(image, heap);
        let was_whole = std::mem::replace(&mut image.is_whole, false);
        self.write_state(image, state)?;
        let has_room = self.make_room(image, heap.len())?;
        if was_whole && has_room {
            self.write_runs(image, heap, &runs)?;
        } else {
            self.write_all(image, heap)?;
        }
        Ok(was_whole.then_some(runs))
    }

    /// Copies a heap back; `heap` is exactly as long as the image.
    pub(crate) fn read(&self, image: &SwapImage, heap: &mut [u8]) -> Result<(), ImageError> {
        image.check_whole()?;
        assert_eq!(heap.len(), image.heap_bytes, "the heap has the length of its image");
        self.read_at(image.heap, heap)
    }

    /// The state of an image.
    pub(crate) fn read_state(&self, image: &SwapImage) -> Result<Vec<u8>, ImageError> {
        image.check_whole()?;
        let mut state = vec![0; image.state_bytes];
        self.read_at(image.state, &mut state)?;
        Ok(state)
    }

    /// Maps a heap back to its addresses, privately. Faster than to read it, and it takes memory only for what is used.
    ///
    /// # Safety
    /// The pages from `address` on are the caller's, as many as the image has, and nothing refers to what they held.
    /// Until [`SwapFile::set_unmapped`] the image is updated only from these pages, and no page of them is dropped with
    /// `MADV_DONTNEED` in the hope of zeros: it would come back from the file.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn map_over(
        &self,
        image: &mut SwapImage,
        address: NonNull<u8>,
    ) -> Result<(), ImageError> {
        image.check_whole()?;
        assert!(image.mapped.is_none(), "the image is mapped already");
        if image.heap_bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller gives up the addresses. The file is never shortened, and the extent is kept as long as
        // `mapped` names it.
        unsafe { map_private_over(&self.file, offset(image.heap), image.heap_bytes, address) }
            .map_err(|source| ImageError::Io { what: "map image", source })?;
        image.mapped = Some(image.heap);
        Ok(())
    }

    /// Says that the heap is no longer mapped from the image.
    pub(crate) fn set_unmapped(&mut self, image: &mut SwapImage) {
        if let Some(extent) = image.mapped.take()
            && extent != image.heap
        {
            self.give_back(extent);
        }
    }

    /// Gives up the memory that comparing with the image has taken. For a session that will be idle.
    pub(crate) fn forget_pages(&self, image: &SwapImage) {
        let start = offset(image.heap) as usize;
        self.map.release(start..start + image.heap.pages as usize * PAGE_BYTES);
    }

    /// Ends an image; its heap is not mapped from it any more.
    pub(crate) fn release(&mut self, mut image: SwapImage) {
        self.set_unmapped(&mut image);
        self.give_back(image.heap);
        self.give_back(image.state);
    }

    /// Pages of `heap` that the image does not have.
    #[allow(unsafe_code)]
    fn changed(&self, image: &SwapImage, heap: &[u8]) -> Vec<PageRun> {
        let start = offset(image.heap) as usize;
        // SAFETY: the extent is inside of the file, which never shrinks. Only `&mut self` writes to it.
        let last = unsafe { self.map.bytes(start..start + image.heap_bytes) };
        changed_runs(last, heap)
    }

    /// Room for the heap: whether it is the room that it had.
    fn make_room(&mut self, image: &mut SwapImage, heap_bytes: usize) -> Result<bool, ImageError> {
        let pages = heap_pages(heap_bytes);
        if pages <= image.heap.pages {
            return Ok(true);
        }
        if let Some(longer) = self.extents.extend(image.heap, pages) {
            // The live heap is then mapped from the start of the longer one, which is given back as one.
            if image.mapped == Some(image.heap) {
                image.mapped = Some(longer);
            }
            image.heap = longer;
            return Ok(true);
        }
        let before = std::mem::replace(&mut image.heap, self.allocate(pages)?);
        if image.mapped != Some(before) {
            self.give_back(before);
        }
        Ok(false)
    }

    fn write_all(&self, image: &mut SwapImage, heap: &[u8]) -> Result<(), ImageError> {
        self.write_at(image.heap, 0, heap)?;
        (image.heap_bytes, image.is_whole) = (heap.len(), true);
        Ok(())
    }

    fn write_runs(&self, image: &mut SwapImage, heap: &[u8], runs: &[PageRun]) -> Result<(), ImageError> {
        // What is past the last image in the file is old: there a page of zeros has to be written too.
        let common = image.heap_bytes.min(heap.len());
        for run in runs.iter().map(|run| run.range()).filter(|range| range.start < common) {
            let range = run.start..run.end.min(common);
            self.write_at(image.heap, range.start, &heap[range])?;
        }
        self.write_at(image.heap, common, &heap[common..])?;
        (image.heap_bytes, image.is_whole) = (heap.len(), true);
        Ok(())
    }

    fn write_state(&mut self, image: &mut SwapImage, state: &[u8]) -> Result<(), ImageError> {
        let pages = state.len().div_ceil(PAGE_BYTES) as u64;
        if pages > image.state.pages {
            let before = std::mem::replace(&mut image.state, self.allocate(pages)?);
            self.give_back(before);
        }
        self.write_at(image.state, 0, state)?;
        image.state_bytes = state.len();
        Ok(())
    }

    /// An extent inside of the file.
    fn allocate(&mut self, pages: u64) -> Result<Extent, ImageError> {
        let full = ImageError::DiskFull { bytes: pages * PAGE_BYTES as u64 };
        let extent = self.extents.allocate(pages).map_err(|_| full)?;
        let file_bytes = self.extents.file_pages() * PAGE_BYTES as u64;
        if file_bytes > self.file_bytes {
            if let Err(error) = self.file.set_len(file_bytes) {
                self.extents.release(extent);
                return Err(ImageError::from_io("grow swap file", pages as usize * PAGE_BYTES, error));
            }
            self.file_bytes = file_bytes;
        }
        Ok(extent)
    }

    fn give_back(&mut self, extent: Extent) {
        if extent.pages > 0 {
            punch_hole(&self.file, offset(extent), extent.pages * PAGE_BYTES as u64);
        }
        self.extents.release(extent);
    }

    fn write_at(&self, extent: Extent, start: usize, bytes: &[u8]) -> Result<(), ImageError> {
        assert!((start + bytes.len()) as u64 <= extent.pages * PAGE_BYTES as u64, "outside of the extent");
        let written = self.file.write_all_at(bytes, offset(extent) + start as u64);
        written.map_err(|error| ImageError::from_io("write swap file", bytes.len(), error))
    }

    fn read_at(&self, extent: Extent, bytes: &mut [u8]) -> Result<(), ImageError> {
        let read = self.file.read_exact_at(bytes, offset(extent));
        read.map_err(|source| ImageError::Io { what: "read swap file", source })
    }
}

fn check_parts(heap: &[u8], state: &[u8]) -> Result<(), ImageError> {
    check_size("heap", heap.len() as u64, HEAP_BYTES_MAX as u64)?;
    check_size("session state", state.len() as u64, STATE_BYTES_MAX as u64)?;
    assert!(heap.len().is_multiple_of(PAGE_BYTES), "a heap is whole pages");
    Ok(())
}

fn heap_pages(bytes: usize) -> u64 {
    ((bytes / PAGE_BYTES) as u64).next_multiple_of(HEAP_STEP_PAGES)
}

fn offset(extent: Extent) -> u64 {
    extent.first * PAGE_BYTES as u64
}

/// A file that no other process can open. Where the file system has no such files, one whose name is removed.
fn nameless_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    #[cfg(target_os = "linux")]
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        return Ok(file);
    }
    let path = folder.join(format!(".scomp-swap-{}", uuid::Uuid::new_v4()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
