//! The program under an operator's conditions: few descriptors, a log that is not read, packages that do not end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
mod broken;
mod descriptors;
#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../support/folder.rs"]
mod folder;
mod log;
mod peer;
mod processes;
#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "../cli/program.rs"]
mod program;
mod service;
mod settings;
