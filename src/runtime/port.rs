//! The way from a session to its host.

use serde_json::Value;

use crate::rpc::ErrorObject;
use crate::session::boundary::{FromSession, HandlerCall, ToSession};

/// What a session sends goes here. Nothing in it waits.
pub(crate) trait Port {
    /// Takes a message. A host in the same process may have something to say to it already, such as that CPU time is used
    /// up; otherwise that comes as any message does.
    fn send(&self, message: FromSession) -> Option<ToSession>;

    /// Takes a call that the running script makes. A host in the same process may answer it inside the turn, if the
    /// handler is ready; otherwise the answer comes as a message.
    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>>;

    /// Whether the host takes no more calls, because the session is lost to it.
    fn is_closed(&self) -> bool;
}
