//! A record of an image: a header in the clear, and a body that is sealed.
//!
//! The header names everything that decides whether the body may be used here, so that most refusals need no key. All
//! of it is authenticated with the body. Numbers are little-endian; a record is used on the machine that wrote it, or
//! on one of its kind.

mod body;
mod header;

pub(crate) use body::{Snapshot, decode_body, encode_body};
pub(crate) use header::{HEADER_BYTES, Header};

use super::{HEAP_BYTES_MAX, PAGE_BYTES, ROOTS_BYTES_MAX, STATE_BYTES_MAX};

/// Whose heap it is, and who may load it. The same for all records of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The hash of [`Build`](super::build::Build).
    pub(crate) build: [u8; 32],
    pub(crate) session: [u8; 16],
    /// The number of the address window.
    pub(crate) slot: u64,
    /// The first address of the window.
    pub(crate) base: u64,
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Every page that is not zero.
    Full,
    /// The pages that differ from the record before.
    Delta,
}

/// Longest sealed part of a record: the longest heap, its run table and what lies beside it.
pub(crate) const SEALED_BYTES_MAX: usize =
    HEAP_BYTES_MAX + HEAP_BYTES_MAX / PAGE_BYTES * 8 + ROOTS_BYTES_MAX + STATE_BYTES_MAX + 4096;
