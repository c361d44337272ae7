//! The program under an operator's conditions: few descriptors, a log that is not read, packages that do not end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod descriptors;
mod peer;
#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "../cli/program.rs"]
mod program;
