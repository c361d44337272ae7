//! The documents say what is there: links lead somewhere, declarations are what their schema says, and settings are those of
//! the program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod comparison;
mod configuration;
mod declarations;
mod links;
mod markdown;
mod monitoring;
mod rust;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
