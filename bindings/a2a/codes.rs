//! The error codes of the protocol, and a refusal: a code with the words for people.
//!
//! Codes and names are those of the protocol's own table; the frame that carries them is made in `wire.rs`.

/// Why the gateway says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    ConnectionRefused,
    ConnectionTimeout,
    ConnectionReset,
    ProtocolError,
    InvalidJson,
    MissingField,
    InvalidType,
    UnknownType,
    InvalidContent,
    AgentNotFound,
    AgentOffline,
    AgentBusy,
    AgentError,
    SessionNotFound,
    SessionExpired,
    SessionLocked,
    SessionCorrupt,
    AuthRequired,
    AuthFailed,
    TokenExpired,
    PermissionDenied,
}

impl ErrorCode {
    /// All of them.
    const ALL: [Self; 21] = [
        Self::ConnectionRefused,
        Self::ConnectionTimeout,
        Self::ConnectionReset,
        Self::ProtocolError,
        Self::InvalidJson,
        Self::MissingField,
        Self::InvalidType,
        Self::UnknownType,
        Self::InvalidContent,
        Self::AgentNotFound,
        Self::AgentOffline,
        Self::AgentBusy,
        Self::AgentError,
        Self::SessionNotFound,
        Self::SessionExpired,
        Self::SessionLocked,
        Self::SessionCorrupt,
        Self::AuthRequired,
        Self::AuthFailed,
        Self::TokenExpired,
        Self::PermissionDenied,
    ];

    /// The number of the error of that name.
    pub(crate) fn number_of(name: &str) -> Option<u16> {
        Self::ALL.into_iter().map(Self::parts).find(|(_, known)| *known == name).map(|(number, _)| number)
    }

    /// Its number and its name on the wire.
    pub(crate) fn parts(self) -> (u16, &'static str) {
        match self {
            Self::ConnectionRefused => (1001, "CONNECTION_REFUSED"),
            Self::ConnectionTimeout => (1002, "CONNECTION_TIMEOUT"),
            Self::ConnectionReset => (1003, "CONNECTION_RESET"),
            Self::ProtocolError => (1004, "PROTOCOL_ERROR"),
            Self::InvalidJson => (2001, "INVALID_JSON"),
            Self::MissingField => (2002, "MISSING_FIELD"),
            Self::InvalidType => (2003, "INVALID_TYPE"),
            Self::UnknownType => (2004, "UNKNOWN_TYPE"),
            Self::InvalidContent => (2005, "INVALID_CONTENT"),
            Self::AgentNotFound => (3001, "AGENT_NOT_FOUND"),
            Self::AgentOffline => (3002, "AGENT_OFFLINE"),
            Self::AgentBusy => (3003, "AGENT_BUSY"),
            Self::AgentError => (3004, "AGENT_ERROR"),
            Self::SessionNotFound => (4001, "SESSION_NOT_FOUND"),
            Self::SessionExpired => (4002, "SESSION_EXPIRED"),
            Self::SessionLocked => (4003, "SESSION_LOCKED"),
            Self::SessionCorrupt => (4004, "SESSION_CORRUPT"),
            Self::AuthRequired => (5001, "AUTH_REQUIRED"),
            Self::AuthFailed => (5002, "AUTH_FAILED"),
            Self::TokenExpired => (5003, "TOKEN_EXPIRED"),
            Self::PermissionDenied => (5004, "PERMISSION_DENIED"),
        }
    }

    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        self.parts().1
    }
}

/// A frame that is not acted upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A field that must be there is not.
    pub(crate) fn missing(field: &str) -> Self {
        Self::new(ErrorCode::MissingField, format!("{field} is missing"))
    }

    /// A field is there with another type.
    pub(crate) fn mistyped(field: &str, expected: &str) -> Self {
        Self::new(ErrorCode::InvalidType, format!("{field}: expected {expected}"))
    }

    /// A field has the right type and a value that means nothing.
    pub(crate) fn invalid(field: &str, expected: &str) -> Self {
        Self::new(ErrorCode::InvalidContent, format!("{field}: expected {expected}"))
    }
}
