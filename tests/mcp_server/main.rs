//! The MCP server: the program under the official clients and the conformance suite, and the HTTP endpoint request by
//! request. Needs `node` and `python3` in PATH, and what `tests/mcp_server/install` installs.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "../cli/program.rs"]
mod program;

mod clients;
mod conformance;
mod fixtures;
mod http;
mod oauth;
mod tasks;
