//! What a client and its session say to each other, with the ids of the wire replaced by the session's: two enums that
//! could travel between processes.
//!
//! A connection's driver knows the wire and its ids; a session knows scripts. Neither calls into the other. Requests
//! of the client are named by their JSON-RPC id, calls of the session by a number of the session's own.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::methods::{EvalParams, Payload, RawPayload, Target};
use crate::rpc::{ErrorObject, Id};

/// From the client to its session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FromClient {
    /// The client wants code to run.
    Eval {
        /// Its request.
        request: Id,
        /// What to run and how.
        params: EvalParams,
    },
    /// The client calls a binding of the server or a function of the script.
    Invoke {
        /// Its request.
        request: Id,
        /// What it calls.
        target: Target,
        /// With what.
        payload: RawPayload,
    },
    /// The client answered a [`ToClient::Call`].
    Answer {
        /// Which.
        call: u64,
        /// The value as its text, or the error.
        outcome: Result<Box<RawValue>, ErrorObject>,
    },
    /// The client gives up a function of the script.
    Release {
        /// Its reference.
        reference: String,
        /// How often it was received.
        count: u64,
    },
}

/// From the session to its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToClient {
    /// A request is answered.
    Answered {
        /// Which.
        request: Id,
        /// Its `result`, ready to be written, or the error.
        outcome: Result<Box<RawValue>, ErrorObject>,
    },
    /// The session calls a binding or a function of the client.
    Call {
        /// Names the call in the answer.
        call: u64,
        /// What it calls.
        target: Target,
        /// With what.
        payload: Payload,
    },
    /// The answer to this call is not awaited any more.
    GiveUp {
        /// Which.
        call: u64,
    },
    /// The script dropped a function of the client.
    Release {
        /// Its reference.
        reference: String,
        /// How often it was received.
        count: u64,
    },
    /// The connection is to be closed.
    Close(Closing),
}

/// Why a session ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Closing {
    /// The client asked for it.
    ByClient,
    /// Another connection resumed the session.
    TakenOver,
    /// The server stops.
    GoingAway,
    /// The session was lost through a fault of ours.
    Fault,
}

impl Closing {
    /// The WebSocket close code and reason.
    pub fn code_and_reason(self) -> (u16, &'static str) {
        match self {
            Self::ByClient => (1000, "session closed"),
            Self::TakenOver => (4001, "taken over"),
            Self::GoingAway => (1001, "going away"),
            Self::Fault => (1011, "session lost"),
        }
    }
}
