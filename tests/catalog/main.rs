//! Bindings that change while sessions live, and catalogs that are large.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod clients;
mod neighbours;
mod tools;
