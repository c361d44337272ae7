//! The program as it was linked: at fixed addresses, with the engine in a region of its own.
//!
//! Images of one process can be loaded by another only then. The numbers are those of `src/image/engine.ld`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(clippy::unwrap_used)]

use std::fs;

const REGION_START: u64 = 0x4000_0000;
const REGION_BYTES_MAX: u64 = 16 << 20;
const MARK: &[u8] = b"SIM-MAP1";

fn number<const N: usize>(bytes: &[u8], at: u64) -> u64 {
    let field: [u8; N] = bytes[at as usize..at as usize + N].try_into().unwrap();
    field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Type, flags, offset in the file, address and length in the file of each segment.
fn segments(program: &[u8]) -> Vec<[u64; 5]> {
    let (table, size, count) = (number::<8>(program, 32), number::<2>(program, 54), number::<2>(program, 56));
    let headers = (0..count).map(|at| table + at * size);
    headers
        .map(|at| {
            [
                number::<4>(program, at),
                number::<4>(program, at + 4),
                number::<8>(program, at + 8),
                number::<8>(program, at + 16),
                number::<8>(program, at + 32),
            ]
        })
        .collect()
}

#[test]
fn program_has_fixed_addresses() {
    const FIXED: u64 = 2;
    let program = fs::read(env!("CARGO_BIN_EXE_scomp-serve")).unwrap();
    assert_eq!(&program[..4], b"\x7fELF");
    assert_eq!(number::<2>(&program, 16), FIXED, "the program is position independent");
}

#[test]
fn engine_has_a_region_of_its_own() {
    const LOADED: u64 = 1;
    const READ_ONLY: u64 = 4;
    let program = fs::read(env!("CARGO_BIN_EXE_scomp-serve")).unwrap();
    let segments = segments(&program);
    let map = segments.iter().find(|[kind, _, _, address, _]| (*kind, *address) == (LOADED, REGION_START));
    let [_, flags, offset, _, _] = map.expect("a segment at the start of the region");
    assert_eq!(*flags, READ_ONLY);
    assert_eq!(&program[*offset as usize..][..8], MARK);
    for part in [8, 24, 40] {
        let (start, bytes) = (number::<8>(&program, offset + part), number::<8>(&program, offset + part + 8));
        assert!(
            bytes > 4096,
            "a part of the engine is empty: the script's names of its files are out of date"
        );
        assert!(start >= REGION_START && start + bytes <= REGION_START + REGION_BYTES_MAX);
    }
    // Whatever the rest of the program needs, it is below.
    let others = segments.iter().filter(|[kind, ..]| *kind == LOADED);
    let highest = others.map(|[_, _, _, address, bytes]| address + bytes).filter(|end| *end <= REGION_START);
    assert!(highest.max().unwrap() < REGION_START / 2, "the program comes near the region of the engine");
}
