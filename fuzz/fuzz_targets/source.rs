//! The source transform. The laws are in `scomp::fuzzing::source`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scomp::fuzzing::source(bytes));
