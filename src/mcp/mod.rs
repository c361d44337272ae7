//! The Model Context Protocol. [`client`] makes bindings of the tools of MCP servers; [`server`] makes the eval server one.

pub(crate) mod client;
pub(crate) mod server;
