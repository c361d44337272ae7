//! memory/v2 against the real server: the vectors in each dialect, and what the package promises beyond them.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod access;
mod behaviour;
mod matching;
mod peer;
mod process;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod vectors;

use std::path::Path;

use support::Folder;

/// A copy of one of the `--bindings` folders for other implementations, so that its store is the test's own.
fn profile(name: &str) -> Folder {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/memory").join(name);
    Folder::with(&[(
        "memory/declaration.json",
        &std::fs::read_to_string(original.join("memory/declaration.json")).unwrap(),
    )])
}
