//! Random requests against a model, and what a heap looks like inside.

use std::collections::BTreeMap;

use super::blocks::Header;
use super::slots::{Region, Slots};
use super::window::{PAGE_BYTES, Window};
use super::{Arena, FIRST_BLOCK, POISON};

/// Where the blocks of a heap are, by name, with what is in them.
struct Model {
    arena: Arena,
    live: BTreeMap<u32, (usize, usize, u8)>,
    random: fastrand::Rng,
    names: u32,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            arena: Arena::new().unwrap(),
            live: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed),
            names: 0,
        }
    }

    fn size(&mut self) -> usize {
        match self.random.u8(..100) {
            0..40 => self.random.usize(3_600..=4_096),
            40..80 => self.random.usize(500..4_000),
            80..90 => self.random.usize(1..200),
            90..98 => self.random.usize(4_000..60_000),
            _ => self.random.usize(60_000..900_000),
        }
    }

    fn add(&mut self) {
        let (size, fill) = (self.size(), self.random.u8(1..));
        let is_zeroed = self.random.bool();
        let block = if is_zeroed { self.arena.calloc(size, 1) } else { self.arena.alloc(size) };
        assert!(!block.is_null() && (block as usize).is_multiple_of(16));
        if is_zeroed {
            assert!(self.bytes(block as usize, size).iter().all(|byte| *byte == 0), "calloc of {size}");
        }
        unsafe { block.write_bytes(fill, Arena::usable_size(block)) };
        self.names += 1;
        self.live.insert(self.names, (block as usize, size, fill));
    }

    fn bytes(&self, block: usize, size: usize) -> &[u8] {
        unsafe { std::slice::from_raw_parts(block as *const u8, size) }
    }

    fn pick(&mut self) -> Option<u32> {
        let at = self.random.usize(..self.live.len().max(1));
        self.live.keys().nth(at).copied()
    }

    fn check(&self, (block, size, fill): (usize, usize, u8)) {
        assert!(
            self.bytes(block, size).iter().all(|byte| *byte == fill),
            "a block of {size} was overwritten"
        );
    }

    fn resize(&mut self) {
        let Some(name) = self.pick() else { return };
        let (block, size, fill) = self.live[&name];
        let wanted = if self.random.bool() { self.size() } else { self.random.usize(1..2 * size + 2) };
        let moved = unsafe { self.arena.realloc(block as *mut u8, wanted) };
        assert!(!moved.is_null());
        self.check((moved as usize, size.min(wanted), fill));
        unsafe { moved.write_bytes(fill, Arena::usable_size(moved)) };
        self.live.insert(name, (moved as usize, wanted, fill));
    }

    fn remove(&mut self) {
        let Some(name) = self.pick() else { return };
        let block = self.live.remove(&name).unwrap();
        self.check(block);
        unsafe { self.arena.free(block.0 as *mut u8) };
    }

    fn step(&mut self) {
        let wanted = if self.names % 2_000 < 1_000 { 60 } else { 30 };
        match self.random.u8(..100) {
            draw if draw < wanted => self.add(),
            draw if draw < 75 => self.remove(),
            draw if draw < 98 => self.resize(),
            98 => self.arena.trim_at_turn_end(),
            _ => self.arena.trim(),
        }
    }

    /// No block overlaps another, each is as long as it says, and all are as the heap counts them.
    fn check_all(&self) {
        let mut ranges: Vec<_> = self.live.values().map(|(block, size, _)| (*block, *size)).collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let usable = unsafe { Arena::usable_size(pair[0].0 as *mut u8) };
            assert!(usable >= pair[0].1 && pair[0].0 + usable <= pair[1].0);
        }
        self.live.values().for_each(|block| self.check(*block));
        check_blocks(&self.arena);
    }
}

/// Walks all blocks: sizes fit together, no two free ones are neighbours, and every free one is in a list.
fn check_blocks(arena: &Arena) -> usize {
    let (base, state) = (arena.window.address(), arena.state());
    let (mut block, mut previous, mut was_free, mut free) = (FIRST_BLOCK, 0, false, 0);
    unsafe {
        while block < (*state).top {
            let header = Header::of(base, block);
            assert_eq!((*header).previous, previous, "at {block}");
            assert!(!(was_free && (*header).is_free()), "free neighbours at {block}");
            was_free = (*header).is_free();
            free += usize::from(was_free);
            previous = (*header).size();
            block += previous;
        }
        assert_eq!((block, previous), ((*state).top, (*state).last));
        assert!(!was_free, "the highest block is free");
        assert_eq!((*state).bins.count(base), free);
        assert!((*state).live + (*state).returned <= (*state).zeroed);
    }
    free
}

#[test]
fn random_requests_keep_contents_and_structure() {
    for seed in 0..6 {
        let mut model = Model::new(seed);
        if seed % 2 == 1 {
            model.arena.poison_freed();
        }
        for step in 0..6_000 {
            model.step();
            if step % 500 == 0 {
                model.check_all();
            }
        }
        model.check_all();
        while !model.live.is_empty() {
            model.remove();
        }
        assert_eq!(check_blocks(&model.arena), 0, "everything has merged with the top");
        unsafe {
            let state = model.arena.state();
            assert_eq!(((*state).top, (*state).live, (*state).returned), (FIRST_BLOCK, 0, 0));
        }
        model.arena.trim();
        assert_eq!(model.arena.image_bytes(), PAGE_BYTES);
    }
}

#[test]
fn same_requests_give_the_same_heap() {
    let run = || {
        let mut model = Model::new(7);
        (0..3_000).for_each(|_| model.step());
        let base = model.arena.window.address();
        let places: Vec<_> = model.live.values().map(|(block, size, _)| (block - base, *size)).collect();
        (places, unsafe { (*model.arena.state()).top })
    };
    assert_eq!(run(), run());
}

#[test]
fn chunks_are_whole_pages_and_lie_side_by_side() {
    let arena = Arena::new().unwrap();
    let pages: Vec<_> = (0..15).map(|_| arena.alloc(4_096) as usize).collect();
    assert!(pages.iter().all(|page| page.is_multiple_of(PAGE_BYTES)));
    assert!(pages.windows(2).all(|pair| pair[1] == pair[0] + PAGE_BYTES));
    assert_eq!(unsafe { Arena::usable_size(pages[0] as *mut u8) }, PAGE_BYTES);
}

#[test]
fn full_window_refuses_and_recovers() {
    let arena = Arena::new().unwrap();
    assert!(arena.alloc(256 << 20).is_null());
    let (first, second) = (arena.alloc(200 << 20), arena.alloc(54 << 20));
    assert!(!first.is_null() && !second.is_null());
    assert!(arena.alloc(1 << 20).is_null());
    assert!(unsafe { arena.realloc(second, 60 << 20) }.is_null());
    unsafe { arena.free(first) };
    assert!(!arena.alloc(150 << 20).is_null());
}

#[test]
fn trim_returns_memory_and_keeps_blocks() {
    let arena = Arena::new().unwrap();
    let keep = arena.alloc(1_000);
    let large = arena.alloc(8 << 20);
    let high = arena.alloc(1_000);
    unsafe {
        large.write_bytes(1, 8 << 20);
        high.write_bytes(2, 1_000);
        arena.free(large);
    }
    assert!(resident(&arena) >= 8 << 20);
    arena.trim();
    assert!(resident(&arena) < 1 << 20, "{}", resident(&arena));
    assert_eq!(unsafe { *high.add(999) }, 2);
    unsafe { arena.free(high) };
    arena.trim();
    assert_eq!(arena.image_bytes(), PAGE_BYTES);
    assert!(!keep.is_null());
}

/// Bytes of the window that are in memory.
fn resident(arena: &Arena) -> usize {
    let mut pages = vec![0u8; arena.window.writable() / PAGE_BYTES];
    let at = arena.window.at(0).cast();
    assert_eq!(unsafe { libc::mincore(at, arena.window.writable(), pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 == 1).count() * PAGE_BYTES
}

#[test]
fn freed_blocks_are_overwritten_when_asked() {
    let arena = Arena::new().unwrap();
    arena.poison_freed();
    for size in [1_000, 4_096] {
        let (block, _behind) = (arena.alloc(size), arena.alloc(size));
        unsafe {
            block.write_bytes(1, size);
            arena.free(block);
            assert_eq!(*block.add(size / 2), POISON);
        }
    }
}

#[test]
fn slots_are_limited_and_numbered() {
    let slots = Slots::new(Region::random().limited(3, 2));
    let taken: Vec<_> = (0..3).map(|_| slots.take().unwrap()).collect();
    assert_eq!(taken.iter().map(super::Slot::number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(slots.take().unwrap_err().to_string(), "all 3 address slots are taken");
    let mut taken = taken.into_iter();
    drop(taken.next());
    assert_eq!(slots.take_number(1).unwrap_err().to_string(), "address slot 1 is taken");
    assert_eq!(slots.take_number(3).unwrap_err().to_string(), "address slot 3 is out of range");
    let again = slots.take_number(0).unwrap();
    let first = Arena::in_slot(again).unwrap();
    let _second = Arena::in_slot(taken.next().unwrap()).unwrap();
    let third = std::sync::Arc::new(taken.next().unwrap());
    assert!(Window::fresh(std::sync::Arc::clone(&third)).unwrap_err().to_string().starts_with("2 sessions"));
    drop(first);
    assert!(Window::fresh(third).is_ok());
}

#[test]
fn held_slot_is_taken_only_by_its_number() {
    let slots = Slots::new(Region::random().limited(3, 2));
    slots.hold(0);
    slots.hold(0);
    assert_eq!(slots.take().unwrap().number(), 1);
    let stored = slots.take_number(0).unwrap();
    slots.unhold(0);
    drop(stored);
    assert_eq!(slots.take().unwrap().number(), 1, "another session of the slot is stored");
    slots.unhold(0);
    slots.unhold(0);
    assert_eq!(slots.take().unwrap().number(), 0);
}

fn image(arena: &Arena) -> Vec<u8> {
    arena.trim();
    unsafe { arena.window().pages(arena.image_bytes()) }.to_vec()
}

#[test]
fn heap_goes_on_from_a_copy_and_from_a_file() {
    let mut model = Model::new(11);
    (0..2_000).for_each(|_| model.step());
    let pages = image(&model.arena);
    let path = std::env::temp_dir().join(format!("arena-{}", std::process::id()));
    std::fs::write(&path, &pages).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for is_mapped in [false, true] {
        let Model { arena, live, random, names } = model;
        let slot = arena.into_window().unmap();
        let window = if is_mapped {
            Window::map_file(slot, &file, 0, pages.len())
        } else {
            Window::copy_from(slot, &pages)
        };
        model = Model { arena: unsafe { Arena::continued(window.unwrap()) }, live, random, names };
        model.check_all();
        let before = (model.live.clone(), model.random.clone());
        (0..3_000).for_each(|_| model.step());
        model.check_all();
        (model.live, model.random) = before;
    }
}

#[test]
fn forks_take_turns_in_one_slot() {
    let first = Arena::new().unwrap();
    let block = first.alloc(1_000);
    unsafe { block.write_bytes(1, 1_000) };
    let pages = image(&first);
    let slot = std::sync::Arc::clone(first.window().slot());
    let second = unsafe { Arena::continued(Window::copy_from(slot, &pages).unwrap()) };
    assert!(second.window().is_present() && !first.window().is_present());
    unsafe { block.write_bytes(2, 1_000) };
    first.window().enter().unwrap();
    assert!(first.window().is_present() && !second.window().is_present());
    assert_eq!(unsafe { *block }, 1);
    first.presence().with_heap(|| assert!(first.window().is_present()));
    second.presence().with_heap(|| unreachable!("it is away"));
    // What goes while it is away leaves the other alone.
    let third =
        unsafe { Arena::continued(Window::copy_from(first.window().slot().clone(), &pages).unwrap()) };
    first.window().enter().unwrap();
    drop(third);
    assert_eq!(unsafe { *block }, 1);
    drop(first);
    second.window().enter().unwrap();
    assert_eq!(unsafe { *block }, 2);
    check_blocks(&second);
}

/// Heaps of different lengths, from memory and from a file, that grow and shrink between their turns.
#[test]
fn forks_that_take_turns_do_not_disturb_each_other() {
    let origin = Model::new(21);
    let path = std::env::temp_dir().join(format!("arena-turns-{}", std::process::id()));
    let pages = image(&origin.arena);
    std::fs::write(&path, &pages).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let slot = std::sync::Arc::clone(origin.arena.window().slot());
    let mut models = vec![origin];
    for at in 0..4u64 {
        let slot = std::sync::Arc::clone(&slot);
        let window = match at % 2 {
            0 => Window::map_file(slot, &file, 0, pages.len()),
            _ => Window::copy_from(slot, &pages),
        };
        let fresh = Model::new(100 + at);
        models.push(Model { arena: unsafe { Arena::continued(window.unwrap()) }, ..fresh });
    }
    for round in 0..400usize {
        let at = round * 7 % models.len();
        models[at].arena.window().enter().unwrap();
        (0..40).for_each(|_| models[at].step());
        models[at].check_all();
        if round == 300 {
            models.remove(0);
        }
    }
}
