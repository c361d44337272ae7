//! An eval server for agent harnesses, and its client.
#[cfg(feature = "server")]
pub mod binding;
#[cfg(feature = "client")]
pub mod client;
pub mod limits;
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
