//! Sessions that outlive their server: the real program with a state folder, stopped, killed and started again.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(clippy::unwrap_used, missing_docs)]

mod folder;
mod refusals;
mod restart;
mod server;
#[path = "../support/mod.rs"]
mod support;
