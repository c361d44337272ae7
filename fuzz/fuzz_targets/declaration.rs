//! Declarations and their schemas. The laws are in `scomp::fuzzing::declaration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scomp::fuzzing::declaration(bytes));
