//! Heap images as data, beside their floors: writing, updating, mapping back, sealing.
//!
//! `cargo bench --bench images`. It compiles the layer by itself, because nothing of it is public.
#![allow(clippy::unwrap_used, missing_docs, unsafe_code)]

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/image/mod.rs"]
mod image;
#[allow(dead_code)]
#[path = "goals/stats.rs"]
mod stats;
#[allow(dead_code)]
#[path = "goals/table.rs"]
mod table;

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

use image::PAGE_BYTES;
use image::chain::{Expected, read_chain};
use image::delta::{PageRun, changed_runs, nonzero_runs};
use image::key::Key;
use image::record::{Identity, RecordKind, Snapshot};
use image::seal::{Opener, Sealer};
use image::swap::SwapFile;
use stats::Samples;
use table::{Goal, Row, Unit};

const ROUNDS: usize = 5;
const SAMPLES: usize = 200;

/// A state of a session that holds a few calls and timers.
const STATE: [u8; 2_000] = [7; 2_000];

/// What a heap is like, and the goals in nanoseconds.
struct Case {
    name: &'static str,
    pages: usize,
    changed_pages: usize,
    write_max: f64,
    update_max: f64,
    seal_max: Option<f64>,
}

const CASES: [Case; 2] = [
    Case {
        name: "336 KB",
        pages: 84,
        changed_pages: 15,
        write_max: 0.3e6,
        update_max: 40e3,
        seal_max: Some(1e6),
    },
    Case {
        name: "1.5 MB",
        pages: 386,
        changed_pages: 11,
        write_max: 1.5e6,
        update_max: 100e3,
        seal_max: None,
    },
];

/// Takes `ours` and `floor` in turns.
fn measure(what: String, goal: Goal, ours: impl FnMut(usize), floor: impl FnMut(usize)) -> Row {
    measure_and_reset(what, goal, ours, floor, || {})
}

/// The same, with something that is done after each round and not measured.
fn measure_and_reset(
    what: String,
    goal: Goal,
    mut ours: impl FnMut(usize),
    mut floor: impl FnMut(usize),
    mut reset: impl FnMut(),
) -> Row {
    let (mut our_times, mut floor_times) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        our_times.start_round();
        floor_times.start_round();
        for sample in 0..SAMPLES {
            let start = Instant::now();
            ours(sample);
            our_times.add_time(start.elapsed());
            let start = Instant::now();
            floor(sample);
            floor_times.add_time(start.elapsed());
        }
        reset();
    }
    Row { what, unit: Unit::Time, ours: our_times.median(), floor: Some(floor_times.median()), goal }
}

/// Bytes as varied as those of a heap.
fn heap(pages: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..pages * PAGE_BYTES).map(|_| random.u8(..)).collect()
}

/// Another byte in so many pages, spread over the heap.
fn change(heap: &mut [u8], case: &Case, sample: usize) {
    let step = case.pages / case.changed_pages;
    for page in 0..case.changed_pages {
        heap[page * step * PAGE_BYTES + 100] = sample as u8;
    }
}

fn write_row(case: &Case, folder: &Path) -> Row {
    let pages = heap(case.pages);
    let swap = RefCell::new((SwapFile::new(folder, 1 << 30).unwrap(), Vec::new()));
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(folder.join("plain")).unwrap();
    measure_and_reset(
        format!("image of {} to the page cache", case.name),
        Goal::ValueMax(case.write_max),
        |_| {
            let (swap, written) = &mut *swap.borrow_mut();
            written.push(swap.write(&pages, &STATE).unwrap());
        },
        |sample| file.write_all_at(&pages, (sample * pages.len()) as u64).unwrap(),
        || {
            let (swap, written) = &mut *swap.borrow_mut();
            written.drain(..).for_each(|image| swap.release(image));
            file.set_len(0).unwrap();
        },
    )
}

fn update_row(case: &Case, folder: &Path) -> Row {
    let mut swap = SwapFile::new(folder, 1 << 30).unwrap();
    let mut pages = heap(case.pages);
    let (mut last, mut floor_pages) = (pages.clone(), pages.clone());
    let mut image = swap.write(&pages, &STATE).unwrap();
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(folder.join("plain")).unwrap();
    measure(
        format!("- {} pages of {} changed: image brought up to date", case.changed_pages, case.name),
        Goal::ValueMax(case.update_max),
        |sample| {
            change(&mut pages, case, sample + 1);
            swap.update(&mut image, &pages, &STATE).unwrap();
        },
        |sample| {
            change(&mut floor_pages, case, sample + 1);
            for run in changed_runs(&last, &floor_pages).into_iter().map(PageRun::range) {
                file.write_all_at(&floor_pages[run.clone()], run.start as u64).unwrap();
                last[run.clone()].copy_from_slice(&floor_pages[run]);
            }
        },
    )
}

fn map_row(case: &Case, folder: &Path) -> Row {
    let mut swap = SwapFile::new(folder, 1 << 30).unwrap();
    let pages = heap(case.pages);
    let mut image = swap.write(&pages, &STATE).unwrap();
    let mut copy = vec![0; pages.len()];
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new map at an address of the kernel's choice.
    let window = unsafe {
        libc::mmap(std::ptr::null_mut(), pages.len(), access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    let window =
        NonNull::new(window.cast::<u8>()).filter(|at| at.as_ptr().cast() != libc::MAP_FAILED).unwrap();
    let other = swap.write(&pages, &STATE).unwrap();
    let (swap_cell, mut seen) = (RefCell::new(swap), 0u8);
    let row = measure(
        format!("- {} mapped back, a byte read (floor: read into memory)", case.name),
        Goal::Shown,
        |_| {
            let mut swap = swap_cell.borrow_mut();
            // SAFETY: the window is this function's, and no slice of it exists.
            unsafe { swap.map_over(&mut image, window) }.unwrap();
            // SAFETY: mapped just now.
            seen ^= unsafe { window.as_ptr().read_volatile() };
            swap.set_unmapped(&mut image);
        },
        |_| swap_cell.borrow().read(&other, &mut copy).unwrap(),
    );
    std::hint::black_box(seen);
    row
}

fn seal_rows(case: &Case) -> [Row; 2] {
    let identity = Identity { build: [1; 32], session: [2; 16], slot: 3, base: 0x1000_0000 };
    let keys = [Key::random().unwrap()];
    let mut sealer = Sealer::new(&keys[0], identity).unwrap();
    let pages = heap(case.pages);
    let snapshot = Snapshot { heap: &pages, roots: b"roots", state: &STATE };
    let goal = case.seal_max.map_or(Goal::Shown, Goal::ValueMax);
    let sealed = measure(
        format!("{} sealed", case.name),
        goal,
        |_| drop(sealer.seal(RecordKind::Full, 1, &snapshot, &nonzero_runs(&pages)).unwrap()),
        |_| drop(std::hint::black_box(pages.clone())),
    );
    let record = sealer.seal(RecordKind::Full, 1, &snapshot, &nonzero_runs(&pages)).unwrap();
    let expected = Expected { identity, acknowledged: None };
    let opened = measure(
        format!("{} opened and copied to its place", case.name),
        goal,
        |_| {
            let mut target = Vec::new();
            read_chain(&mut &*record, &mut Opener::new(&keys), &expected, &mut target).unwrap();
        },
        |_| drop(std::hint::black_box(pages.clone())),
    );
    [sealed, opened]
}

fn main() {
    let folder = std::env::var_os("IMAGES_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("scomp-bench-images-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut rows = Vec::new();
    for case in &CASES {
        rows.extend([write_row(case, &folder), update_row(case, &folder), map_row(case, &folder)]);
        rows.extend(seal_rows(case));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    println!("{}", table::render(&rows));
}
