//! Code mode for any MCP client: a few tools through which a model writes scripts instead of calling tools one by one.
//!
//! `tools` is their fixed list, `arguments` what they take, `output` and `bindings` what they return. `gateway` keeps
//! sessions and executions behind handles; `follow` waits for them and asks for `approvals`; `tables` and `console` are its pure parts. `handler` is the MCP server on top,
//! `stdio` and `http` carry it.

mod approvals;
mod arguments;
mod bindings;
mod caller;
mod console;
mod error;
mod execution;
mod extension;
mod follow;
mod gateway;
mod handler;
mod http;
mod oauth;
mod output;
mod session;
mod settings;
mod stdio;
mod tables;
mod tools;

pub(crate) use caller::ApprovalsPage;
pub use extension::{ExtensionFuture, McpExtension};
pub(crate) use gateway::{Gateway, GatewayConfig};
pub(crate) use http::McpService;
pub use oauth::OauthSettings;
pub(crate) use oauth::{Oauth, OauthRefusal, is_jwt};
pub use settings::McpSettings;
pub(crate) use stdio::serve_stdio;
