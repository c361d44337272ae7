//! Sessions in a process of their own: the process, and what the server and it say to each other.
//!
//! The server starts its own program as `scomp-serve worker`, with one end of a socket as stdin and nothing else. The
//! first message has the limits; then the process enters the sandbox (`src/sandbox`) and runs sessions of one
//! principal. It knows scripts, catalogs and values. Handlers, policies, quotas, audit, secrets and files stay with the
//! server, which takes every message of a worker for one of an attacker.
//!
//! - `frame` is the messages, `codec` their form on the socket, `catalogs` how catalogs are sent once.
//! - `process` is the worker itself, `port` the way of its sessions to the server.

pub(crate) mod catalogs;
pub(crate) mod codec;
pub(crate) mod frame;
mod port;
mod process;

pub(crate) use process::write_config;
pub use process::{is_worker, worker_main};

/// The argument with which the program is a worker.
pub(crate) const WORKER_ARGUMENT: &str = "worker";
