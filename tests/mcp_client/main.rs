//! MCP servers as packages: a scripted one that misbehaves, one on the official Python library, and published ones.
//! Needs `node` and `python3` in PATH, and what `tests/mcp_client/install` installs.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "../cli/program.rs"]
mod program;

mod calls;
mod changes;
mod http;
mod limits;
mod mcp_file;
mod published;
mod restart;
mod secrets;
mod servers;
