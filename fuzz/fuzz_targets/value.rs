//! The value decoder. The laws are in `scomp::fuzzing::value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scomp::fuzzing::value(bytes));
