//! Why a value cannot be encoded, and where in it.

use crate::protocol::declaration::pointer_to;

/// Why a value has no form on the wire.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It cannot be serialized, or contains itself.
    Unserializable(String),
    /// It is larger than allowed.
    TooLarge,
    /// It is a promise that is not settled, or was rejected.
    Unsettled,
    /// No room for one more function.
    TooManyRefs,
    /// The script was stopped during the walk.
    Stopped,
}

/// A [`Fault`] and where it is.
#[derive(Debug)]
pub(crate) struct EncodeError {
    /// What is wrong.
    pub(crate) fault: Fault,
    /// From the value outwards, so it is built while the walk comes back.
    inner_first: Vec<String>,
}

impl EncodeError {
    /// An error at the current place.
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, inner_first: Vec::new() }
    }

    pub(super) fn unserializable(why: impl Into<String>) -> Self {
        Self::new(Fault::Unserializable(why.into()))
    }

    pub(super) fn inside(mut self, segment: impl Into<String>) -> Self {
        self.inner_first.push(segment.into());
        self
    }

    /// The place as a JSON Pointer.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.inner_first.iter().rev() {
            path.push_str(&pointer_to(segment));
        }
        path
    }
}
