//! An eval server for agent harnesses, and its client.
#![doc = ""]
pub mod rpc;
pub mod scomp;
