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

use std::collections::BTreeMap;
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

static SHARED: OnceLock<Arc<Slots>> = OnceLock::new();

/// Why there is no slot, or no memory in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotError {
    /// Every slot belongs to a session.
    #[error("all {0} address slots are taken")]
    Exhausted(u32),
    /// The slot that was asked for is not free.
    #[error("address slot {0} is taken")]
    Taken(u32),
    /// The slots of this process are elsewhere, so that none of them is that of an image.
    #[error("the address slots of this process begin elsewhere than those of the images")]
    OtherRegion,
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

/// A place for a region that another process can use too.
pub(crate) fn random_base() -> usize {
    Region::random().base
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
    /// Slots that sessions of this process have.
    taken: Bits,
    /// Slots of sessions that are stored, whether they run or not, with the number of such sessions.
    held: BTreeMap<u32, usize>,
    /// Slots that no new session gets: those above.
    blocked: Bits,
    resident: usize,
}

/// A bit for each slot; as long as the highest one that ever was set.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Slots {
    /// No slot is taken yet.
    pub(crate) fn new(region: Region) -> Arc<Self> {
        Arc::new(Self { region, table: Mutex::default() })
    }

    /// The slots of this process, in a region of its own.
    pub(crate) fn shared() -> &'static Arc<Self> {
        SHARED.get_or_init(|| Self::new(Region::random()))
    }

    /// The slots of this process, where those of a store are. Fails if they are elsewhere already.
    pub(crate) fn shared_at(base: usize) -> Result<&'static Arc<Self>, SlotError> {
        if !(BASE_MIN..BASE_MAX).contains(&base) || !base.is_multiple_of(SLOT_BYTES) {
            return Err(SlotError::OtherRegion);
        }
        let shared = SHARED.get_or_init(|| Self::new(Region::at(base)));
        if shared.region.base == base { Ok(shared) } else { Err(SlotError::OtherRegion) }
    }

    /// Keeps a slot for a session that is stored: no new session gets it.
    pub(crate) fn hold(&self, number: u32) {
        if number >= self.region.slots_max {
            return;
        }
        let mut table = self.table.lock();
        *table.held.entry(number).or_default() += 1;
        table.blocked.set(number);
    }

    /// A session of that slot is not stored any more.
    pub(crate) fn unhold(&self, number: u32) {
        let mut table = self.table.lock();
        if let Some(count) = table.held.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                table.held.remove(&number);
                table.unblock(number);
            }
        }
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
        let number = self.blocked.lowest_clear()?;
        (number < slots_max && self.take(number)).then_some(number)
    }

    /// Returns whether no session of this process had it.
    fn take(&mut self, number: u32) -> bool {
        self.blocked.set(number);
        self.taken.set(number)
    }

    fn release(&mut self, number: u32) {
        self.taken.clear(number);
        self.unblock(number);
    }

    fn unblock(&mut self, number: u32) {
        if !self.held.contains_key(&number) && !self.taken.contains(number) {
            self.blocked.clear(number);
        }
    }
}

impl Bits {
    fn lowest_clear(&self) -> Option<u32> {
        let word = self.0.iter().position(|word| *word != u64::MAX).unwrap_or(self.0.len());
        let bit = self.0.get(word).map_or(0, |word| word.trailing_ones());
        Some(u32::try_from(word).ok()? * u64::BITS + bit)
    }

    fn contains(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns whether it was clear.
    fn set(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let was_clear = self.0[word] & bit == 0;
        self.0[word] |= bit;
        was_clear
    }

    fn clear(&mut self, number: u32) {
        let (word, bit) = place(number);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
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
