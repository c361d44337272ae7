//! The way from a session to its host.

use serde_json::Value;

use super::driver::Fork;
use crate::rpc::{ErrorObject, Kind};
use crate::session::boundary::{FromSession, HandlerCall, ToSession};

/// A place for a fork, given up when dropped.
pub(crate) trait ForkAdmission {
    /// The id that it will have.
    fn session_id(&self) -> &str;

    /// Starts it on this thread. Answered by [`ToSession::Forked`].
    fn start(self: Box<Self>, request: u64, fork: Box<Fork>);
}

/// What a session sends goes here. Nothing in it waits.
pub(crate) trait Port {
    /// Takes a message. A host in the same process may have something to say to it already, such as that CPU time is used
    /// up; otherwise that comes as any message does.
    fn send(&self, message: FromSession) -> Option<ToSession>;

    /// Takes a call that the running script makes. A host in the same process may answer it inside the turn, if the
    /// handler is ready; otherwise the answer comes as a message.
    fn call(&self, call: HandlerCall) -> Option<Result<Value, ErrorObject>>;

    /// Asks for a place for a fork of the session. The heap of a fork is no message: a host in another process would keep
    /// both there.
    fn admit_fork(&self) -> Result<Box<dyn ForkAdmission>, ErrorObject> {
        Err(ErrorObject::new(Kind::ImagesUnavailable, "this server does not fork sessions"))
    }

    /// Whether the host takes no more calls, because the session is lost to it.
    fn is_closed(&self) -> bool;
}
