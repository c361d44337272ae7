//! The message codec. The laws are in `scomp::fuzzing::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scomp::fuzzing::message(bytes));
