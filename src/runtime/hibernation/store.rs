//! Where heaps go that are not in memory: one file without a name per shard, within one limit for all of them.
//!
//! The file of a shard is made when its first session is hibernated, and belongs to the shard's thread. Images release
//! their part of it when they are dropped. What they take of the limit is counted by their length, not by what the file
//! system makes of them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::image::delta::PageRun;
use crate::image::swap::{SWAP_BYTES_MAX, SwapFile, SwapImage};
use crate::image::{ImageError, PAGE_BYTES};

/// Heaps get room in the file in such steps.
const HEAP_STEP_BYTES: u64 = 64 << 10;

/// Where temporary files are on a disk when the folder of the environment is in memory.
const DISK_FOLDER: &str = "/var/tmp";

type SharedSwap = Rc<RefCell<SwapFile>>;

thread_local! {
    /// The files of this thread, by the numbers of their stores. A shard has one.
    static SWAPS: RefCell<Vec<(u64, SharedSwap)>> = const { RefCell::new(Vec::new()) };
}

/// Drops the file of this thread, at the end of a shard.
pub(crate) fn clear() {
    drop(SWAPS.take());
}

/// There is no place for images.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", folder.display())]
pub(crate) struct StoreError {
    folder: PathBuf,
    problem: String,
}

/// The images of the sessions of a server. See the module.
#[derive(Debug)]
pub(crate) struct ImageStore {
    number: u64,
    folder: PathBuf,
    bytes_max: u64,
    used: AtomicU64,
    /// When a failure was last logged, in seconds of the process; a full disk fails for every session.
    warned_at: AtomicU64,
}

impl ImageStore {
    /// Finds a folder: the one that was chosen, or else one for temporary files that is on a disk.
    pub(crate) fn open(chosen: Option<&Path>, bytes_max: u64) -> Result<Arc<Self>, StoreError> {
        let temporary = std::env::temp_dir();
        let folders = match chosen {
            Some(folder) => vec![folder],
            None => vec![temporary.as_path(), Path::new(DISK_FOLDER)],
        };
        let mut refused = StoreError { folder: temporary.clone(), problem: String::new() };
        for folder in folders {
            let problem = if chosen.is_none() && is_in_memory(folder) {
                "the folder is in memory, not on a disk".to_owned()
            } else {
                match SwapFile::new(folder, 0) {
                    Ok(_) => return Ok(Arc::new(Self::new(folder, bytes_max))),
                    Err(error) => error.to_string(),
                }
            };
            refused = StoreError { folder: folder.to_owned(), problem };
        }
        Err(refused)
    }

    fn new(folder: &Path, bytes_max: u64) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NUMBERS.fetch_add(1, Relaxed),
            folder: folder.to_owned(),
            bytes_max,
            used: AtomicU64::new(0),
            warned_at: AtomicU64::new(0),
        }
    }

    /// Bytes that the images of all shards take.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Writes a new image to the file of this thread.
    pub(crate) fn write(self: &Arc<Self>, heap: &[u8], state: &[u8]) -> Result<StoredImage, ImageError> {
        let (swap, bytes) = (self.swap()?, footprint(heap, state));
        self.reserve(bytes)?;
        // Owns the bytes from here on.
        let mut stored = StoredImage { swap, image: None, store: Arc::clone(self), bytes };
        let image = stored.swap.borrow_mut().write(heap, state)?;
        stored.image = Some(image);
        Ok(stored)
    }

    /// Makes the file of this thread, for a process that cannot open files later.
    pub(crate) fn prepare(&self) -> Result<(), ImageError> {
        self.swap().map(drop)
    }

    /// Whether a failure should be logged now: not more than once a minute.
    pub(crate) fn may_warn(&self, now_s: u64) -> bool {
        const QUIET_S: u64 = 60;
        let last = self.warned_at.load(Relaxed);
        let is_due = last == 0 || now_s.saturating_sub(last) >= QUIET_S;
        is_due && self.warned_at.compare_exchange(last, now_s.max(1), Relaxed, Relaxed).is_ok()
    }

    fn reserve(&self, bytes: u64) -> Result<(), ImageError> {
        let fits = |used: u64| used.checked_add(bytes).filter(|after| *after <= self.bytes_max);
        match self.used.fetch_update(Relaxed, Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(_) => Err(ImageError::DiskFull { bytes }),
        }
    }

    /// The file of this thread.
    fn swap(&self) -> Result<SharedSwap, ImageError> {
        SWAPS.with_borrow_mut(|swaps| {
            if let Some((_, swap)) = swaps.iter().find(|(number, _)| *number == self.number) {
                return Ok(Rc::clone(swap));
            }
            let file = SwapFile::new(&self.folder, self.bytes_max.min(SWAP_BYTES_MAX))?;
            let swap = Rc::new(RefCell::new(file));
            swaps.push((self.number, Rc::clone(&swap)));
            Ok(swap)
        })
    }
}

/// Bytes of the file that an image takes.
fn footprint(heap: &[u8], state: &[u8]) -> u64 {
    (heap.len() as u64).next_multiple_of(HEAP_STEP_BYTES)
        + (state.len() as u64).next_multiple_of(PAGE_BYTES as u64)
}

/// An image in the file of the thread that wrote it. Dropping it releases its part of the file, so a heap that is mapped
/// from it goes first.
#[derive(Debug)]
pub(crate) struct StoredImage {
    swap: SharedSwap,
    /// Absent only while it is being written for the first time.
    image: Option<SwapImage>,
    store: Arc<ImageStore>,
    bytes: u64,
}

impl StoredImage {
    /// Brings it up to date with its heap, and says which pages had changed, if that is known. After an error the heap is as it was, and the image cannot be read.
    pub(crate) fn update(&mut self, heap: &[u8], state: &[u8]) -> Result<Option<Vec<PageRun>>, ImageError> {
        let bytes = footprint(heap, state);
        if bytes > self.bytes {
            self.store.reserve(bytes - self.bytes)?;
            self.bytes = bytes;
        }
        let image = self.image.as_mut().ok_or(MISSING)?;
        self.swap.borrow_mut().update(image, heap, state)
    }

    /// Length of the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.image.as_ref().map_or(0, SwapImage::heap_bytes)
    }

    /// Bytes that it takes of the limit.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.bytes
    }

    /// The state of the session beside the heap.
    #[cfg(test)]
    pub(crate) fn read_state(&self) -> Result<Vec<u8>, ImageError> {
        self.swap.borrow().read_state(self.image.as_ref().ok_or(MISSING)?)
    }

    /// A copy of the heap.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ImageError> {
        let image = self.image.as_ref().ok_or(MISSING)?;
        let mut heap = vec![0; image.heap_bytes()];
        self.swap.borrow().read(image, &mut heap)?;
        Ok(heap)
    }

    /// Maps the heap to its addresses.
    ///
    /// # Safety
    ///
    /// As for [`SwapFile::map_over`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn map_over(&mut self, address: NonNull<u8>) -> Result<(), ImageError> {
        let image = self.image.as_mut().ok_or(MISSING)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.swap.borrow().map_over(image, address) }
    }

    /// The heap is not mapped any more, and will not be for a while.
    pub(crate) fn set_unmapped(&mut self) {
        if let Some(image) = &mut self.image {
            let mut swap = self.swap.borrow_mut();
            swap.set_unmapped(image);
            swap.forget_pages(image);
        }
    }
}

const MISSING: ImageError = ImageError::Truncated("it was never written");

impl Drop for StoredImage {
    fn drop(&mut self) {
        if let Some(image) = self.image.take() {
            self.swap.borrow_mut().release(image);
        }
        self.store.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// Whether files in a folder are kept in memory.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn is_in_memory(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;

    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path ends with a zero, and the structure is ours to write. All zeros is a valid one.
    let found = unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return false;
        }
        found.assume_init()
    };
    let kind = found.f_type as u64;
    kind == libc::TMPFS_MAGIC as u64 || kind == RAMFS_MAGIC
}

/// Elsewhere there is no such folder by default.
#[cfg(not(target_os = "linux"))]
fn is_in_memory(_folder: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
