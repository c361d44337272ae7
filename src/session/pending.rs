//! Calls to the client that wait for the end of the turn.

use serde::{Deserialize, Serialize};

use super::ChargedTo;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;

/// A call to the client that the script made, and that leaves the session when the turn is over or suspended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingCall {
    /// The number of the script's call.
    pub call: u64,
    /// Who pays for it.
    pub charged_to: ChargedTo,
    /// What it reaches.
    pub target: PendingTarget,
    /// How many invokes it is inside of.
    pub depth: u32,
}

/// What a call to the client reaches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum PendingTarget {
    /// A binding of the client.
    Binding(String, Payload),
    /// A function of the client.
    Function(FnRef, Payload),
}

impl PendingTarget {
    /// What it is called with.
    pub(super) fn payload(&self) -> &Payload {
        match self {
            Self::Binding(_, payload) | Self::Function(_, payload) => payload,
        }
    }
}
