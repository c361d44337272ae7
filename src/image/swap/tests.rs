//! The swap file: what was written is read back, in every order of writes, updates, maps and failures.
#![allow(unsafe_code)]

use std::process::Command;

use proptest::prelude::*;

use super::super::testing::{Folder, heap};
use super::*;

fn swap(folder: &Folder, bytes_max: u64) -> SwapFile {
    SwapFile::new(folder.path(), bytes_max).unwrap()
}

fn read(swap: &SwapFile, image: &SwapImage) -> Vec<u8> {
    let mut bytes = vec![0xee; image.heap_bytes()];
    swap.read(image, &mut bytes).unwrap();
    bytes
}

/// Addresses of a test, as a session has them.
struct Window {
    start: NonNull<u8>,
    bytes: usize,
}

impl Window {
    fn new(pages: usize) -> Self {
        let bytes = pages * PAGE_BYTES;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new map at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: NonNull::new(start.cast()).unwrap(), bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the map is this value's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made by `new`; no slice outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[test]
fn image_reads_back_with_its_state() {
    let folder = Folder::new("swap-reads");
    let mut swap = swap(&folder, 1 << 20);
    let pages = heap(&[1, 0, 3]);
    let image = swap.write(&pages, b"state").unwrap();
    assert!(read(&swap, &image) == pages);
    assert_eq!(swap.read_state(&image).unwrap(), b"state");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    swap.release(image);
    assert_eq!(swap.used_bytes(), 0);
}

#[test]
fn mapped_heap_keeps_its_writes_to_itself() {
    let folder = Folder::new("swap-map");
    let mut swap = swap(&folder, 1 << 20);
    let pages = heap(&[1, 2, 3, 4]);
    let mut image = swap.write(&pages, b"").unwrap();
    let mut window = Window::new(4);
    // SAFETY: the window is this test's, and no slice of it is in use.
    unsafe { swap.map_over(&mut image, window.start) }.unwrap();
    assert!(window.bytes() == pages);
    window.bytes()[PAGE_BYTES] = 9;
    assert!(read(&swap, &image) == pages);
    let runs = swap.update(&mut image, window.bytes(), b"").unwrap();
    assert_eq!(runs.as_deref(), Some(&[PageRun { first: 1, pages: 1 }][..]));
    assert_eq!(window.bytes()[PAGE_BYTES], 9);
    swap.set_unmapped(&mut image);
}

#[test]
fn extent_of_a_mapped_heap_is_not_reused() {
    let folder = Folder::new("swap-kept");
    let mut swap = swap(&folder, 4 << 20);
    let pages = heap(&[7; HEAP_STEP_PAGES as usize]);
    let mut image = swap.write(&pages, b"").unwrap();
    let behind = swap.write(&pages, b"").unwrap();
    let mut window = Window::new(pages.len() / PAGE_BYTES);
    // SAFETY: as above.
    unsafe { swap.map_over(&mut image, window.start) }.unwrap();
    // It has to move, while pages of the window are still those of its old place.
    let longer = [pages.clone(), heap(&[8])].concat();
    swap.update(&mut image, &longer, b"").unwrap();
    let other = swap.write(&heap(&[5; HEAP_STEP_PAGES as usize]), b"").unwrap();
    assert!(window.bytes() == pages);
    assert!(read(&swap, &image) == longer);
    drop(window);
    let before = swap.used_bytes();
    swap.set_unmapped(&mut image);
    assert_eq!(before - swap.used_bytes(), pages.len() as u64);
    [image, behind, other].into_iter().for_each(|image| swap.release(image));
    assert_eq!(swap.used_bytes(), 0);
}

/// A heap that grows while it is mapped: first in place, then elsewhere because the pages behind it are taken.
#[test]
fn mapped_image_that_grows_is_given_back_once() {
    let folder = Folder::new("swap-grow-mapped");
    let mut swap = swap(&folder, 64 << 20);
    let step = HEAP_STEP_PAGES as usize;
    let mut window = Window::new(step);
    let mut image = swap.write(&heap(&vec![1; step]), b"").unwrap();
    // SAFETY: as above.
    unsafe { swap.map_over(&mut image, window.start) }.unwrap();
    swap.update(&mut image, &heap(&vec![1; 2 * step]), b"").unwrap();
    let behind = swap.write(&heap(&vec![2; step]), b"").unwrap();
    swap.update(&mut image, &heap(&vec![1; 4 * step]), b"").unwrap();
    let other = swap.write(&heap(&vec![3; step]), b"").unwrap();
    assert!(window.bytes() == heap(&vec![1; step]), "its pages were used for another image");
    swap.set_unmapped(&mut image);
    assert!(read(&swap, &image) == heap(&vec![1; 4 * step]));
    assert!(read(&swap, &behind) == heap(&vec![2; step]) && read(&swap, &other) == heap(&vec![3; step]));
    [image, behind, other].into_iter().for_each(|image| swap.release(image));
    assert_eq!(swap.used_bytes(), 0);
}

#[test]
fn full_file_refuses_and_keeps_other_images() {
    let folder = Folder::new("swap-full");
    let room = HEAP_STEP_PAGES * PAGE_BYTES as u64;
    let mut swap = swap(&folder, 2 * room);
    let pages = heap(&[1; HEAP_STEP_PAGES as usize]);
    let mut image = swap.write(&pages, b"").unwrap();
    let other = swap.write(&pages, b"").unwrap();
    assert_eq!(swap.write(&pages, b"").unwrap_err().kind(), "DiskFull");
    let longer = [pages.clone(), pages.clone()].concat();
    assert_eq!(swap.update(&mut image, &longer, b"").unwrap_err().kind(), "DiskFull");
    assert!(read(&swap, &other) == pages);
    assert_eq!(swap.read(&image, &mut pages.clone()).unwrap_err().kind(), "ImageTruncated");
    swap.release(other);
    // What the image holds by now is of no moment, so nothing can be said about changes.
    assert_eq!(swap.update(&mut image, &longer, b"").unwrap(), None);
    assert!(read(&swap, &image) == longer);
}

#[test]
fn failed_write_leaves_no_extent() {
    let folder = Folder::new("swap-readonly");
    let path = folder.path().join("file");
    std::fs::write(&path, vec![0; 16 << 20]).unwrap();
    let mut swap = SwapFile::over(File::open(&path).unwrap(), 16 << 20).unwrap();
    swap.file_bytes = 16 << 20;
    assert_eq!(swap.write(&heap(&[1, 2]), b"state").unwrap_err().kind(), "ImageIo");
    assert_eq!(swap.used_bytes(), 0);
}

#[test]
fn folder_that_cannot_be_written_is_refused() {
    let error = SwapFile::new(Path::new("/proc/self"), 1 << 20).unwrap_err();
    assert_eq!(error.kind(), "ImageIo");
    assert!(error.to_string().starts_with("create swap file: "), "{error}");
    assert_eq!(SwapFile::new(Path::new("/tmp"), SWAP_BYTES_MAX + 1).unwrap_err().kind(), "ImageTooLarge");
}

/// Set in the process whose files may not grow.
const SMALL_FILES: &str = "SCOMP_IMAGE_SMALL_FILES";

/// The system's own refusal, in a process that may not have files of more than 2 MiB.
#[test]
fn refusal_of_the_system_is_a_full_disk() {
    if std::env::var_os(SMALL_FILES).is_some() {
        let folder = Folder::new("swap-fsize");
        let mut swap = swap(&folder, 64 << 20);
        assert_eq!(swap.write(&heap(&[1]), b"").unwrap_err().kind(), "DiskFull");
        assert_eq!(swap.used_bytes(), 0);
        return;
    }
    let this = "image::swap::tests::refusal_of_the_system_is_a_full_disk";
    // A signal that is ignored stays so in the program that is started, and the write fails instead.
    let limit = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact \"$1\"";
    let program = std::env::current_exe().unwrap();
    let run =
        Command::new("sh").args(["-c", limit]).arg(program).arg(this).env(SMALL_FILES, "1").output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<u8>),
    Update(prop::sample::Index, Vec<u8>),
    Release(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pages = || prop::collection::vec(0u8..4, 0..40);
    let step = prop_oneof![
        2 => pages().prop_map(Step::Write),
        4 => (any::<prop::sample::Index>(), pages()).prop_map(|(at, pages)| Step::Update(at, pages)),
        1 => any::<prop::sample::Index>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_image_is_what_was_written_last(steps in steps()) {
        let folder = Folder::new("swap-property");
        let mut swap = swap(&folder, 16 << 20);
        let mut live: Vec<(SwapImage, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Write(pages) => {
                    let image = swap.write(&heap(&pages), &pages).unwrap();
                    live.push((image, pages));
                }
                Step::Update(at, pages) if !live.is_empty() => {
                    let at = at.index(live.len());
                    let (image, last) = &mut live[at];
                    swap.update(image, &heap(&pages), &pages).unwrap();
                    *last = pages;
                }
                Step::Release(at) if !live.is_empty() => {
                    let (image, _) = live.swap_remove(at.index(live.len()));
                    swap.release(image);
                }
                Step::Update(..) | Step::Release(_) => {}
            }
            for (image, pages) in &live {
                prop_assert!(read(&swap, image) == heap(pages));
                prop_assert_eq!(&swap.read_state(image).unwrap(), pages);
            }
        }
        live.into_iter().for_each(|(image, _)| swap.release(image));
        prop_assert_eq!(swap.used_bytes(), 0);
    }
}
