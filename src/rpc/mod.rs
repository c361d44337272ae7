//! JSON-RPC 2.0 between two equal peers: messages, ids and errors.
//!
//! Pure: text in, typed messages out. No sockets, no clock, no locks. What scomp adds on top (methods, bindings,
//! references) lives in `protocol`.

mod error;
mod id;
mod message;
mod tables;

pub use error::{ErrorObject, Kind, code};
pub use id::{ID_BYTES_MAX, Id};
pub use message::{
    Message, Refusal, decode, decode_within, encode_failure, encode_raw_success, encode_request,
    encode_success,
};
pub use tables::{Full, Inbound, InboundRefusal, OurId, Outbound, ResponseMatch};
