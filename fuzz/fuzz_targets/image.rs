//! Image logs. The laws are in `scomp::fuzzing::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scomp::fuzzing::image(bytes));
