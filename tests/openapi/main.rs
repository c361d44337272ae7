//! OpenAPI documents as packages: one written here, published ones, and hostile ones, against servers on loopback.
//! Needs what `tests/openapi/install` installs.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "../cli/program.rs"]
mod program;

mod api;
mod calls;
mod hostile;
mod published;
mod secrets;
