//! An eval server for agent harnesses, and its client.
#[cfg(feature = "server")]
pub mod binding;
#[cfg(feature = "server")]
#[path = "../bindings/mod.rs"]
pub mod bindings;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
pub mod limits;
#[cfg(feature = "server")]
pub mod observe;
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
