//! The error codes of the protocol, and an error with a code and a message.
//!
//! Codes and names are those of the protocol's table; `wire.rs` builds the frame that carries them.

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

    pub(crate) fn number_of(name: &str) -> Option<u16> {
        Self::ALL.into_iter().map(Self::parts).find(|(_, known)| *known == name).map(|(number, _)| number)
    }

    /// Returns the number and the name on the wire.
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

    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        self.parts().1
    }
}

/// An error that the gateway sends to a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct GatewayError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl GatewayError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A required field is absent.
    pub(crate) fn missing(field: &str) -> Self {
        Self::new(ErrorCode::MissingField, format!("{field} is missing"))
    }

    /// A field has the wrong JSON type.
    pub(crate) fn wrong_type(field: &str, expected: &str) -> Self {
        Self::new(ErrorCode::InvalidType, format!("{field}: expected {expected}"))
    }

    /// A field has the right type and an invalid value.
    pub(crate) fn invalid(field: &str, expected: &str) -> Self {
        Self::new(ErrorCode::InvalidContent, format!("{field}: expected {expected}"))
    }
}
