//! An eval server for agent harnesses, and its client.
//!
//! A harness sends JavaScript or TypeScript over a connection; it runs in a QuickJS session that keeps its state, and
//! reaches the world only through bindings. The wire is scomp v0.1: JSON-RPC 2.0 in both directions.
//!
//! # A server with a binding of its own
//!
//! [`server::Server::builder`] takes functions over serde types ([`server::ServerBuilder::bind`]), packages
//! ([`binding::Package`]) or a folder of them ([`binding::loader`]). A handler gets its input and a [`binding::Call`],
//! through which it calls back into the client or the script.
//!
//! # A client
//!
//! [`client::Client`] connects over WebSocket, to a child process, or to a server in the same process, declares
//! bindings as closures, and evaluates. It builds without QuickJS: `--no-default-features --features client`.
//!
//! # Underneath
//!
//! [`rpc`] and [`scomp`] are pure: messages, ids, declarations, the state machine of a connection. [`transport`]
//! carries texts. Sessions and the shards that they run on are in `runtime`; `session` keeps the directory of them.
#[cfg(feature = "server")]
pub mod binding;
#[cfg(feature = "server")]
#[path = "../bindings/mod.rs"]
pub mod bindings;
#[cfg(feature = "client")]
pub mod budget;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(all(feature = "server", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
#[cfg(feature = "server")]
pub mod observe;
#[cfg(feature = "server")]
pub mod peering;
#[cfg(feature = "server")]
pub mod quota;
pub mod rpc;
#[cfg(feature = "server")]
pub mod runtime;
pub mod scomp;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod session;
#[cfg(feature = "client")]
pub mod transport;

#[cfg(feature = "server")]
pub use binding::{serve_stdio, serve_stdio_with};
/// The crate that derives schemas, in the version whose traits are used here.
#[cfg(feature = "server")]
pub use schemars;
