//! Authentication, quotas, roles and what an operator sees, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod console;
mod detached;
mod entry;
mod harness;
mod quotas;
mod roles;
mod seen;
mod tls;
