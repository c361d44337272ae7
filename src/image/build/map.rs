//! The engine's own region of the program, where the linker script has placed one.
//!
//! The numbers here and in `engine.ld` must agree. `tests/image_layout.rs` looks at the real program.

use std::ops::Range;

use super::elf::{Executable, protect};

/// The start of the region. High enough for any program below it, low enough for calls of 32 bits.
const START: usize = 0x4000_0000;

/// No part of the engine is past this: it has 1 MB.
const BYTES_MAX: usize = 16 << 20;

/// "SIM-MAP1": the script's mark.
const MARK: u64 = 0x3150_414d_2d4d_4953;

/// The mark, and start and length of code, tables and constants.
const MAP_BYTES: usize = 7 * 8;

/// Fewer functions mean that the unwind table lacks them, and the engine has two thousand.
const FUNCTIONS_MIN: usize = 500;

/// Where the parts of the engine are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EngineRegion {
    code: Range<usize>,
    tables: Range<usize>,
    constants: Range<usize>,
}

impl EngineRegion {
    /// The region, if this program was linked with one.
    pub(super) fn find(executable: &Executable) -> Option<Self> {
        let region = Self::parse(executable.read(START..START + MAP_BYTES)?)?;
        let page = super::super::PAGE_BYTES;
        // The linker fills its last page up, and the writable data of the engine starts behind.
        protect(region.tables.start..region.tables.end.next_multiple_of(page));
        Some(region)
    }

    fn parse(map: &[u8]) -> Option<Self> {
        let (words, _) = map.as_chunks::<8>();
        let words: [u64; 7] =
            words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>().try_into().ok()?;
        let [mark, code, code_bytes, tables, tables_bytes, constants, constants_bytes] = words;
        let part = |start: u64, bytes: u64| {
            let (start, bytes) = (usize::try_from(start).ok()?, usize::try_from(bytes).ok()?);
            let part = start..start.checked_add(bytes)?;
            (bytes > 0 && start >= START && part.end <= START + BYTES_MAX).then_some(part)
        };
        let region = Self {
            code: part(code, code_bytes)?,
            tables: part(tables, tables_bytes)?,
            constants: part(constants, constants_bytes)?,
        };
        (mark == MARK && region.tables.start.is_multiple_of(super::super::PAGE_BYTES)).then_some(region)
    }

    /// Whether an address is in the region; entries of host functions are, beside the engine.
    pub(super) fn contains(&self, address: usize) -> bool {
        (START..START + BYTES_MAX).contains(&address)
    }

    /// All that a heap may point to, and what it holds.
    pub(super) fn identity(&self, executable: &Executable) -> Option<Vec<Vec<u8>>> {
        let starts = executable.function_starts(&self.code)?;
        if starts.len() < FUNCTIONS_MIN {
            return None;
        }
        let bounds = [&self.code, &self.tables, &self.constants];
        let bounds = bounds.into_iter().flat_map(|part| [part.start as u64, part.end as u64]);
        Some(vec![
            bounds.flat_map(u64::to_le_bytes).collect(),
            starts.into_iter().flat_map(u64::to_le_bytes).collect(),
            executable.read(self.tables.clone())?.to_vec(),
            executable.read(self.constants.clone())?.to_vec(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(words: [u64; 7]) -> Option<EngineRegion> {
        EngineRegion::parse(&words.map(u64::to_le_bytes).concat())
    }

    #[test]
    fn map_of_the_script_is_read() {
        let (code, tables, constants) = (START as u64 + 0x10_0000, START as u64 + 0x20_0000, START as u64);
        let good = [MARK, code, 100, tables, 200, constants, 300];
        let region = map(good).unwrap();
        assert_eq!(region.code, code as usize..code as usize + 100);
        assert!(region.contains(START) && !region.contains(START - 1));
        for (at, word) in
            [(0, 1), (1, 5), (2, 0), (2, 1 << 40), (2, u64::MAX), (3, tables + 8), (4, 0), (6, 0)]
        {
            let mut bad = good;
            bad[at] = word;
            assert_eq!(map(bad), None, "{at}: {word:#x}");
        }
        assert_eq!(EngineRegion::parse(&[0; 40]), None);
    }
}
