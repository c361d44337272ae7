//! The documents say what is there: links lead somewhere, and declarations are what their schema says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod declarations;
mod links;
mod markdown;
mod rust;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
