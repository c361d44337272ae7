//! What scomp v0.1 adds to JSON-RPC: its methods, declarations, names, and what passes between a connection and its
//! session.
//!
//! Pure, like [`crate::rpc`]: no sockets, no clock, no locks.

pub mod client_messages;
pub mod declaration;
pub(crate) mod fn_ref;
pub(crate) mod fn_values;
pub mod methods;
pub(crate) mod names;
pub mod peer;
pub mod plain;
pub(crate) mod references;
pub(crate) mod shape;
