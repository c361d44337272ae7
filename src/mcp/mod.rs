//! The Model Context Protocol. [`client`] makes bindings of the tools of MCP servers.

pub(crate) mod client;
