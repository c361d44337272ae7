//! Who may come in, how much they may use, and what an operator sees of it, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;
mod detached;
mod entry;
mod harness;
mod quotas;
mod roles;
mod seen;
mod tls;
