//! How a call of the client fails, and what a handler may fail with.
//!
//! An error of the server, an end of the connection and a fault of the caller are distinct: the first is worth showing
//! to a model, the second is worth another attempt, the third is neither.

use std::any::Any;
use std::error::Error;

use crate::rpc::{ErrorObject, Kind};
use crate::transport::TransportError;

use super::ConsoleLine;

/// Why a call of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error("{0}")]
    Rpc(#[from] ErrorObject),
    /// The connection ended before the answer came.
    #[error("the connection closed with code {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Closed {
        /// The close code; 1006 when there was no close frame.
        code: u16,
        /// The peer's reason.
        reason: String,
    },
    /// The connection was restored, but the session and its state are gone.
    #[error("the session was lost while the connection was down")]
    SessionLost,
    /// Connecting failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The handshake failed or its answer is invalid.
    #[error("handshake: {0}")]
    Handshake(String),
    /// The request is longer than a message may be; it was not sent.
    #[error("a message of {bytes} bytes is longer than the {max} bytes that may be sent")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Too many requests wait for their answers; this one was not sent.
    #[error("too many requests wait for their answers")]
    Busy,
    /// The server's answer is not of the expected shape.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

impl ClientError {
    /// The stable name: the server's own kind for an answer of the server.
    pub fn kind(&self) -> &str {
        match self {
            Self::Rpc(error) => error.kind().unwrap_or("Error"),
            Self::Closed { .. } => "Closed",
            Self::SessionLost => "SessionLost",
            Self::Transport(_) => "Transport",
            Self::Handshake(_) => "Handshake",
            Self::TooLong { .. } => "TooLong",
            Self::Busy => "Busy",
            Self::Unexpected(_) => "Unexpected",
        }
    }

    /// The server's error, if it is one.
    pub fn rpc(&self) -> Option<&ErrorObject> {
        match self {
            Self::Rpc(error) => Some(error),
            Self::Closed { .. }
            | Self::SessionLost
            | Self::Transport(_)
            | Self::Handshake(_)
            | Self::TooLong { .. }
            | Self::Busy
            | Self::Unexpected(_) => None,
        }
    }

    /// What a model or a person needs to repair the code of a failed eval: the message, the place with the code around
    /// it, causes, suggestions, and the end of the console. For other errors, the message.
    pub fn report(&self) -> String {
        let report = self.rpc().and_then(|error| error.data.as_ref()?.get("report")?.as_str());
        report.map_or_else(|| self.to_string(), str::to_owned)
    }

    /// The console output of an eval that failed.
    pub fn console(&self) -> Vec<ConsoleLine> {
        let lines = self.rpc().and_then(|error| error.data.as_ref()?.get("console").cloned());
        lines.and_then(|lines| serde_json::from_value(lines).ok()).unwrap_or_default()
    }
}

/// What a typed handler fails with: an [`ErrorObject`] as it is, any other error by its message.
///
/// It does not implement `Error`, so that `?` can turn every error into it.
#[derive(Debug)]
pub struct CallError(pub(super) ErrorObject);

impl<E: Error + Send + Sync + 'static> From<E> for CallError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ErrorObject>() {
            Some(object) => Self(object.clone()),
            None => Self(ErrorObject::new(Kind::BindingError, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn call_error_keeps_the_code_of_an_error_object() {
        let own = ErrorObject { code: 7, message: "no".into(), data: Some(json!({"a": 1})) };
        assert_eq!(CallError::from(own.clone()).0, own);
        let foreign = CallError::from(std::io::Error::other("disk full")).0;
        assert!(foreign.is(Kind::BindingError) && foreign.message == "disk full");
    }

    #[test]
    fn failed_eval_has_the_report_of_the_server() {
        let error = ErrorObject::new(Kind::EvalError, "Error: no").with("report", "Error: no\n  at a.js:1:1");
        assert_eq!(ClientError::from(error).report(), "Error: no\n  at a.js:1:1");
    }

    #[test]
    fn failed_eval_keeps_its_console() {
        let error = ErrorObject::new(Kind::EvalError, "Error: no")
            .with("console", json!([{"level": "log", "text": "before", "atMs": 1}]));
        let error = ClientError::from(error);
        assert_eq!(error.kind(), "EvalError");
        assert_eq!(error.report(), "EvalError: Error: no");
        assert_eq!(error.console().first().map(|line| line.text.as_str()), Some("before"));
    }
}
