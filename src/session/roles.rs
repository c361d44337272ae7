//! The small types that say for whom something happens.
//!
//! | type | question |
//! |---|---|
//! | [`ChargedTo`] | whose CPU time, calls and console lines are these? |
//! | [`RefHolder`] | who outside holds a function of the script? |
//! | [`ValueSource`] | whose references are meant by `$fn` in a value that comes in? |
//! | [`InvokedBy`](super::InvokedBy) | who called a function or a binding, and gets the answer? |
//! | [`Requester`] | which request of which connection is to be answered? |

use serde::{Deserialize, Serialize};

use crate::rpc::{Id, Kind};

/// For whom JavaScript runs, so that each pays for its own calls and has its own console lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ChargedTo {
    /// The eval of that number.
    Eval(u64),
    /// A call into a function of the script.
    Invocation(u64),
    /// Jobs and timers whose eval is over.
    Background,
}

/// Who holds a function of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum RefHolder {
    /// The client, until its connection ends.
    Client,
    /// A handler of a server binding.
    Handler,
}

/// Whose references are meant by `$fn` in a value that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ValueSource {
    /// The client of that connection, which may be gone when the value is built.
    Client(u64),
    /// A handler, which names functions as the session does.
    Handler,
}

/// A request of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requester {
    /// The number of the connection.
    pub connection: u64,
    /// The request's own id.
    pub id: Id,
    /// The host's number for the bytes that the request is charged with until it is answered; 0 for none.
    pub charge: u64,
}

/// Why a script is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stop {
    /// Its CPU time is used up.
    Cpu,
    /// Its time by the clock is used up.
    Wall,
    /// The CPU quota of its principal is overdrawn.
    Quota,
    /// Its memory is used up.
    Memory,
    /// The client cancelled it.
    Cancelled,
    /// The session ends.
    Closed,
    /// The server failed while it ran.
    Internal,
    /// The heap of the session could not be read back.
    Lost,
}

impl Stop {
    /// The kind of the error that the client gets.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Cpu | Self::Wall | Self::Quota => Kind::Timeout,
            Self::Memory => Kind::MemoryLimit,
            Self::Cancelled => Kind::Cancelled,
            Self::Closed => Kind::SessionClosed,
            Self::Internal => Kind::Internal,
            Self::Lost => Kind::SessionLost,
        }
    }
}
