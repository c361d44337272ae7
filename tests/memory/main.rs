//! memory/v2 against a running server: the vectors in each dialect, and behaviour beyond them.
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

/// Copies one of the `--bindings` folders of the interop tests, so that each test has its own
/// store.
fn copy_profile(name: &str) -> Folder {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/memory").join(name);
    Folder::with(&[(
        "memory/declaration.json",
        &std::fs::read_to_string(original.join("memory/declaration.json")).unwrap(),
    )])
}
