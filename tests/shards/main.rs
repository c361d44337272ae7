//! Shards under scripts that do not let go: a stuck one is retired and ends, and no principal starves another.
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)]
#[path = "../gate/harness.rs"]
mod harness;

mod retired;
mod shares;
