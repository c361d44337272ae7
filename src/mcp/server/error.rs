//! Why a tool of the gateway fails, in words that tell a model what to do next.

/// Why a tool failed before, or without, an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ToolError {
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    #[error(
        "session {0:?} not found: it was closed, or was unused for too long. Call execute without `session` to start a new one; its state starts empty."
    )]
    SessionNotFound(String),
    #[error(
        "execution {0:?} not found: it was never started, or it ended long ago and its outcome was forgotten."
    )]
    ExecutionNotFound(String),
    #[error("resource {0:?} not found: it never existed, or was dropped to make room for newer ones.")]
    ArtifactNotFound(String),
    #[error(
        "there are {0} sessions, as many as are allowed, and all of them are in use. Pass the `session` of an earlier result, or close one with the tool session {{\"op\": \"close\", \"session\": …}}."
    )]
    TooManySessions(usize),
    #[error(
        "{0} executions are running, as many as are allowed. Wait for one of them, or cancel it, with the tool wait."
    )]
    TooManyExecutions(usize),
    #[error("{0} calls are waiting, as many as are allowed. Try again when one of them has returned.")]
    TooManyWaits(usize),
    #[error("key {0:?} was used for other code or for another session. Use a new key for new code.")]
    KeyReused(String),
    #[error("requestState is invalid or has expired: call the tool again without it.")]
    RequestState,
    #[error("this server cannot fork sessions.")]
    ForkUnsupported,
    /// The server refused, or the session was lost.
    #[error("{message}")]
    Refused { kind: String, message: String },
}

impl ToolError {
    /// A fault of the server itself.
    pub(super) fn internal(error: &impl std::fmt::Display) -> Self {
        Self::Refused { kind: "InternalError".to_owned(), message: error.to_string() }
    }

    /// Its stable name.
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::InvalidArguments(_) => "InvalidArguments",
            Self::SessionNotFound(_) => "SessionNotFound",
            Self::ExecutionNotFound(_) => "ExecutionNotFound",
            Self::ArtifactNotFound(_) => "ArtifactNotFound",
            Self::TooManySessions(_) => "TooManySessions",
            Self::TooManyExecutions(_) => "TooManyExecutions",
            Self::TooManyWaits(_) => "TooManyWaits",
            Self::KeyReused(_) => "KeyReused",
            Self::RequestState => "RequestState",
            Self::ForkUnsupported => "ForkUnsupported",
            Self::Refused { kind, .. } => kind,
        }
    }
}

impl From<crate::client::ClientError> for ToolError {
    fn from(error: crate::client::ClientError) -> Self {
        let message = error.rpc().map_or_else(|| error.to_string(), |error| error.message.to_string());
        Self::Refused { kind: error.kind().to_owned(), message }
    }
}
