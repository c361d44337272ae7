//! An eval server for agent harnesses, and its client.
#[cfg(feature = "server")]
pub mod binding;
pub mod limits;
pub mod rpc;
#[cfg(feature = "server")]
pub mod runtime;
pub mod scomp;
