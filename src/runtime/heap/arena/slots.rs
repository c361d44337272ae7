//! The address windows of sessions.
//!
//! A heap is full of pointers into itself, so it works at one address alone. Every session therefore owns a *slot* for life:
//! a number, and the window of addresses that belongs to it. Slots lie side by side in one region, whose base is random in
//! each process unless it is given.
//!
//! A slot is reserved as long as it lives: addresses that nothing else in the process gets, without memory behind them. A
//! session whose memory is mapped is *resident*; [`Window`](super::window::Window) is that memory. Reserved slots that lie
//! side by side are one map of the kernel, a resident one is at most two, so residents are what has to be counted.
//!
//! One of the modules with `unsafe`: it reserves and releases addresses.
#![allow(unsafe_code)]

use std::io;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// Distance of two slots, and what they are aligned to: the slot of a block is found by masking its address.
pub(super) const SLOT_BYTES: usize = 256 << 20;

/// Most slots of a region, which is then 64 TiB: half of the addresses that a process has.
const SLOTS_MAX: u32 = 262_144;

/// Where the region may begin: above what programs are linked to, and so low that its end is below the places at which
/// the kernel puts programs, libraries and stacks.
const BASE_MIN: usize = 1 << 40;
const BASE_MAX: usize = 17 << 40;

/// The kernel's limit of maps for each resident session. A session takes two; the rest is for stacks, libraries and the
/// memory of the program itself.
const MAPS_PER_SESSION: usize = 4;

/// The limit of maps when the system does not say: the kernel's default.
const MAPS_DEFAULT: usize = 65_530;

/// Slots that are tried when the addresses of some are in use by something else.
const ATTEMPTS_MAX: usize = 64;

/// Why there is no slot, or no memory in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotError {
    /// Every slot belongs to a session.
    #[error("all {0} address slots are taken")]
    Exhausted(u32),
    /// The slot that was asked for is not free.
    #[error("address slot {0} is taken")]
    Taken(u32),
    /// There is no such slot.
    #[error("address slot {0} is out of range")]
    OutOfRange(u32),
    /// The kernel would run out of maps.
    #[error("{0} sessions are resident, which is the most that the kernel has maps for")]
    TooManyResident(usize),
    /// The kernel refused.
    #[error("address slot {number} cannot be mapped: {error}")]
    Unmappable {
        #[allow(missing_docs)]
        number: u32,
        #[allow(missing_docs)]
        error: io::Error,
    },
}

/// Where the slots of a process are, and how many it may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    base: usize,
    slots_max: u32,
    resident_max: usize,
}

impl Region {
    /// At a random place, with as many resident sessions as the kernel has maps for.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 8];
        // Without random numbers every process uses the same place, which works as well.
        let _ = getrandom::fill(&mut bytes);
        let places = (BASE_MAX - BASE_MIN) / SLOT_BYTES;
        Self::at(BASE_MIN + usize::from_ne_bytes(bytes) % places * SLOT_BYTES)
    }

    /// At the place where the slots of an earlier process were.
    pub(crate) fn at(base: usize) -> Self {
        debug_assert!(base.is_multiple_of(SLOT_BYTES));
        Self { base, slots_max: SLOTS_MAX, resident_max: maps_max() / MAPS_PER_SESSION }
    }

    #[cfg(test)]
    pub(crate) fn limited(self, slots_max: u32, resident_max: usize) -> Self {
        Self { slots_max, resident_max, ..self }
    }
}

fn maps_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(MAPS_DEFAULT)
}

/// The slots of a process.
#[derive(Debug)]
pub(crate) struct Slots {
    region: Region,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// A bit for each slot, set when it is taken; as long as the highest one that ever was.
    taken: Vec<u64>,
    resident: usize,
}

impl Slots {
    /// No slot is taken yet.
    pub(crate) fn new(region: Region) -> Arc<Self> {
        Arc::new(Self { region, table: Mutex::default() })
    }

    /// The slots of this process, in a region of its own.
    pub(crate) fn shared() -> &'static Arc<Self> {
        static SHARED: OnceLock<Arc<Slots>> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(Region::random()))
    }

    /// Where the region begins: part of what an image depends on.
    #[allow(dead_code, reason = "for images that another process loads")]
    pub(crate) fn base(&self) -> usize {
        self.region.base
    }

    /// Takes the lowest free slot. Those whose addresses something else uses are left out for good.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Slot, SlotError> {
        let mut refused = SlotError::Exhausted(self.region.slots_max);
        for _ in 0..ATTEMPTS_MAX {
            let Some(number) = self.table.lock().take_lowest(self.region.slots_max) else {
                return Err(refused);
            };
            match self.reserve(number) {
                Ok(()) => return Ok(Slot { slots: Arc::clone(self), number }),
                Err(error) => refused = SlotError::Unmappable { number, error },
            }
        }
        Err(refused)
    }

    /// Takes the slot of a session that is to be continued.
    #[allow(dead_code, reason = "for sessions that are continued from an image")]
    pub(crate) fn take_number(self: &Arc<Self>, number: u32) -> Result<Slot, SlotError> {
        if number >= self.region.slots_max {
            return Err(SlotError::OutOfRange(number));
        }
        if !self.table.lock().take(number) {
            return Err(SlotError::Taken(number));
        }
        match self.reserve(number) {
            Ok(()) => Ok(Slot { slots: Arc::clone(self), number }),
            Err(error) => {
                self.table.lock().release(number);
                Err(SlotError::Unmappable { number, error })
            }
        }
    }

    fn address(&self, number: u32) -> usize {
        self.region.base + number as usize * SLOT_BYTES
    }

    fn reserve(&self, number: u32) -> io::Result<()> {
        let address = self.address(number);
        let got = map_reserved(address, SLOT_BYTES, libc::MAP_FIXED_NOREPLACE)?;
        if got == address {
            return Ok(());
        }
        // Kernels before 4.17 take the flag as a wish.
        // SAFETY: the kernel has just given us this range, and nothing has seen it.
        unsafe { libc::munmap(got as *mut libc::c_void, SLOT_BYTES) };
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }
}

impl Table {
    fn take_lowest(&mut self, slots_max: u32) -> Option<u32> {
        let word = self.taken.iter().position(|word| *word != u64::MAX).unwrap_or(self.taken.len());
        let bit = self.taken.get(word).map_or(0, |word| word.trailing_ones());
        let number = u32::try_from(word).ok()? * u64::BITS + bit;
        (number < slots_max && self.take(number)).then_some(number)
    }

    /// Returns whether it was free.
    fn take(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        if word >= self.taken.len() {
            self.taken.resize(word + 1, 0);
        }
        let was_free = self.taken[word] & bit == 0;
        self.taken[word] |= bit;
        was_free
    }

    fn release(&mut self, number: u32) {
        let (word, bit) = place(number);
        self.taken[word] &= !bit;
    }
}

fn place(number: u32) -> (usize, u64) {
    ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
}

/// Reserves addresses, in the place of what is there if `how` is `MAP_FIXED`. Returns where they are.
pub(super) fn map_reserved(address: usize, bytes: usize, how: i32) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | how;
    // SAFETY: the callers own the range, or ask for one that is not in use.
    let got = unsafe { libc::mmap(address as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A heap of 300 KB must not get pages of 2 MiB. A kernel without such pages refuses, which is as good.
    // SAFETY: it changes only how the range is backed.
    unsafe { libc::madvise(got, bytes, libc::MADV_NOHUGEPAGE) };
    Ok(got as usize)
}

/// A window of addresses that belongs to a session, and to the forks that it has.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    number: u32,
}

impl Slot {
    /// Part of the session's identity: its heap works in this slot alone.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn address(&self) -> usize {
        self.slots.address(self.number)
    }

    /// Permission to map memory in it.
    pub(super) fn admit(&self) -> Result<Residency, SlotError> {
        let mut table = self.slots.table.lock();
        let max = self.slots.region.resident_max;
        if table.resident >= max {
            return Err(SlotError::TooManyResident(max));
        }
        table.resident += 1;
        Ok(Residency(Arc::clone(&self.slots)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // First the addresses, then the number: another thread may take it immediately.
        // SAFETY: the range is ours, and nothing refers to what was in it.
        unsafe { libc::munmap(null_mut::<u8>().with_addr(self.address()).cast(), SLOT_BYTES) };
        self.slots.table.lock().release(self.number);
    }
}

/// A resident session, as counted.
#[derive(Debug)]
pub(super) struct Residency(Arc<Slots>);

impl Drop for Residency {
    fn drop(&mut self) {
        self.0.table.lock().resident -= 1;
    }
}
