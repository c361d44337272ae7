//! The running executable as the system loaded it: where its segments are, its build id, its functions.
//!
//! One of the modules with `unsafe`: it reads the program's own read-only segments. No file is opened, so it works in a
//! sandbox and after the executable was replaced on disk.
#![cfg_attr(target_os = "linux", allow(unsafe_code))]

use std::ops::Range;

/// A segment that is loaded and never changes.
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    address: usize,
    bytes: usize,
    is_readable: bool,
}

/// The segments of the main program.
#[derive(Debug)]
pub(super) struct Executable {
    /// What the loader added to every address: 0 where the addresses are fixed.
    shift: usize,
    segments: Vec<Segment>,
}

const SEGMENT_LOADED: u32 = 1;
const SEGMENT_NOTES: u32 = 4;
const SEGMENT_UNWIND: u32 = 0x6474_e550;

impl Executable {
    /// Whether every process of this executable has it at the same addresses.
    pub(super) fn has_fixed_addresses(&self) -> bool {
        self.shift == 0
    }

    /// The hash that the linker made of the whole executable.
    pub(super) fn build_id(&self) -> Option<&'static [u8]> {
        let notes = self.segments.iter().filter(|segment| segment.kind == SEGMENT_NOTES);
        notes
            .filter_map(|segment| self.read(segment.address..segment.address + segment.bytes))
            .find_map(find_build_id)
    }

    /// The first address of every function in a range, in order.
    pub(super) fn function_starts(&self, range: &Range<usize>) -> Option<Vec<u64>> {
        let index = self.segments.iter().find(|segment| segment.kind == SEGMENT_UNWIND)?;
        let bytes = self.read(index.address..index.address + index.bytes)?;
        parse_function_starts(bytes, index.address, range)
    }

    /// Memory of the program, if all of it is in one readable segment that was loaded.
    #[cfg(target_os = "linux")]
    pub(super) fn read(&self, range: Range<usize>) -> Option<&'static [u8]> {
        let is_loaded = |segment: &&Segment| {
            let end = segment.address.checked_add(segment.bytes)?;
            let is_inside = segment.address <= range.start && range.start <= range.end && range.end <= end;
            (segment.kind == SEGMENT_LOADED && segment.is_readable && is_inside).then_some(())
        };
        self.segments.iter().find(|segment| is_loaded(segment).is_some())?;
        // SAFETY: the range is inside of a segment that the loader mapped readable and that stays as long as the program.
        // The callers ask for parts that nothing writes to once the program has started.
        Some(unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn read(&self, _range: Range<usize>) -> Option<&'static [u8]> {
        None
    }

    /// Nothing is known of executables elsewhere.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn current() -> Option<Self> {
        None
    }

    /// The main program, which the loader lists first.
    #[cfg(target_os = "linux")]
    pub(super) fn current() -> Option<Self> {
        use std::ffi::{c_int, c_void};

        unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
            // SAFETY: the loader passes its own record, valid during the call, and the pointer given below.
            let (info, found) = unsafe { (&*info, &mut *found.cast::<Option<Executable>>()) };
            let shift = info.dlpi_addr as usize;
            // SAFETY: the loader says how many headers there are.
            let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            let segments = headers.iter().map(|header| Segment {
                kind: header.p_type,
                address: shift.wrapping_add(header.p_vaddr as usize),
                bytes: header.p_memsz as usize,
                is_readable: header.p_flags & libc::PF_R != 0,
            });
            *found = Some(Executable { shift, segments: segments.collect() });
            1
        }

        let mut found: Option<Self> = None;
        // SAFETY: `visit` gets a pointer to `found`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
        found
    }
}

/// Makes whole pages of the program read-only for the rest of its life.
#[cfg(target_os = "linux")]
pub(super) fn protect(range: Range<usize>) {
    // SAFETY: the pages hold tables that the linker filled in and that nothing writes to. A failure leaves them writable,
    // as they were.
    unsafe { libc::mprotect(range.start as *mut libc::c_void, range.len(), libc::PROT_READ) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn protect(_range: Range<usize>) {}

/// Finds the build id among notes: lengths of name and content, a type, both padded to four bytes.
fn find_build_id(notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    let mut rest = notes;
    loop {
        let [name, content, kind] = [0, 4, 8].map(|at| read_u32(rest, at));
        let (name, content) = (name? as usize, content? as usize);
        let start = 12 + name.checked_next_multiple_of(4)?;
        let end = start.checked_add(content)?;
        if kind? == BUILD_ID && rest.get(12..12 + name)? == b"GNU\0" && content > 0 {
            return rest.get(start..end);
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// Reads the sorted table by which a program finds the unwind information of an address.
fn parse_function_starts(index: &[u8], address: usize, range: &Range<usize>) -> Option<Vec<u64>> {
    /// Version 1; a pointer of four bytes; a count of four bytes; pairs of four-byte distances from the table.
    const USUAL_HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    if index.get(..4)? != USUAL_HEAD {
        return None;
    }
    let count = read_u32(index, 8)? as usize;
    let table = index.get(12..12usize.checked_add(count.checked_mul(8)?)?)?;
    let (pairs, _) = table.as_chunks::<8>();
    let starts = pairs.iter().map(|[a, b, c, d, ..]| {
        let distance = i32::from_le_bytes([*a, *b, *c, *d]);
        address.wrapping_add_signed(distance as isize)
    });
    Some(starts.filter(|start| range.contains(start)).map(|start| start as u64).collect())
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    field.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn running_program_is_found() {
        let executable = Executable::current().unwrap();
        let here = running_program_is_found as *const () as usize;
        assert!(executable.read(here..here + 1).is_some());
        assert!(executable.read(0..1).is_none());
        assert!(executable.read(here..usize::MAX).is_none());
        let starts = executable.function_starts(&(here..here + 1)).unwrap();
        assert_eq!(starts, [here as u64]);
    }

    #[test]
    fn build_id_is_found_among_notes() {
        let note = |name: &[u8; 4], kind: u32, content: &[u8]| {
            let mut bytes = Vec::new();
            [4, content.len() as u32, kind].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
            bytes.extend(name);
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let notes =
            [note(b"GNU\0", 1, &[1; 16]), note(b"xyz\0", 3, &[2; 5]), note(b"GNU\0", 3, &[3; 20])].concat();
        assert_eq!(find_build_id(&notes), Some(&[3; 20][..]));
        for cut in 0..notes.len() {
            assert_eq!(find_build_id(&notes[..cut]), None);
        }
    }

    #[test]
    fn unwind_table_of_another_shape_is_not_read() {
        let mut index = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        index.extend([16i32, 0, -16, 0].iter().flat_map(|field| field.to_le_bytes()));
        assert_eq!(parse_function_starts(&index, 1000, &(0..2000)), Some(vec![1016, 984]));
        assert_eq!(parse_function_starts(&index, 1000, &(1000..2000)), Some(vec![1016]));
        index[8] = 3;
        assert_eq!(parse_function_starts(&index, 1000, &(0..2000)), None);
        index[2] = 0xff;
        assert_eq!(parse_function_starts(&index, 1000, &(0..2000)), None);
    }
}
