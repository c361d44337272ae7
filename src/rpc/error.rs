//! The error object of JSON-RPC and the one table of codes and kinds.
//!
//! `code` is JSON-RPC's number, `data.kind` is our stable name for programs, `message` is for people. A kind always
//! has the same code, so both are defined here, once.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The JSON-RPC error codes in use.
pub mod code {
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not an acceptable JSON-RPC message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method, binding or reference does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An error of the server itself.
    pub const INTERNAL: i64 = -32603;
    /// The code ran and failed, or was refused to run.
    pub const EVAL: i64 = -32000;
    /// The handshake names a protocol version that is not supported.
    pub const UNSUPPORTED_PROTOCOL: i64 = -32001;
    /// A request before the handshake.
    pub const NOT_READY: i64 = -32002;
    /// The session cannot be resumed.
    pub const SESSION_REFUSED: i64 = -32003;
    /// A handler's answer breaks its declared schema.
    pub const INVALID_OUTPUT: i64 = -32004;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $code:expr,)*) => {
        /// The stable names in `data.kind`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The JSON-RPC code that goes with it.
            pub fn code(self) -> i64 {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

kinds! {
    /// Not JSON.
    ParseError => code::PARSE_ERROR,
    /// Not a JSON-RPC message, or one out of place.
    InvalidRequest => code::INVALID_REQUEST,
    /// The method is not defined.
    UnknownMethod => code::METHOD_NOT_FOUND,
    /// Parameters of the wrong shape.
    InvalidParams => code::INVALID_PARAMS,
    /// A protocol version that is not supported.
    UnsupportedProtocol => code::UNSUPPORTED_PROTOCOL,
    /// The handshake has to come first.
    NotReady => code::NOT_READY,
    /// Wrong token, wrong principal, unknown or expired session: one answer for all.
    SessionRefused => code::SESSION_REFUSED,
    /// An `eval` key was used before with other code.
    KeyConflict => code::INVALID_PARAMS,
    /// The code does not parse.
    SyntaxError => code::EVAL,
    /// The script threw.
    EvalError => code::EVAL,
    /// A time limit was reached.
    Timeout => code::EVAL,
    /// The memory limit was reached.
    MemoryLimit => code::EVAL,
    /// The stack limit was reached.
    StackOverflow => code::EVAL,
    /// Cancelled on request.
    Cancelled => code::EVAL,
    /// The script waits for something that cannot come.
    Deadlock => code::EVAL,
    /// The value is larger than a result may be.
    ResultTooLarge => code::EVAL,
    /// The value has no form on the wire.
    Unserializable => code::EVAL,
    /// Too many evals wait already.
    QueueFull => code::EVAL,
    /// The session ended.
    SessionClosed => code::EVAL,
    /// The heap of the session is gone; it started over.
    SessionLost => code::EVAL,
    /// The server stopped during a call; whether the binding has done its work is not known.
    OutcomeUnknown => code::EVAL,
    /// No checkpoint of that number.
    UnknownCheckpoint => code::EVAL,
    /// A call that was in flight when the session was forked: its answer goes to the original.
    Forked => code::EVAL,
    /// The server cannot keep or read images of sessions: its system, its folder or a full disk.
    ImagesUnavailable => code::EVAL,
    /// A quota or a limit of the server; try again later.
    Busy => code::EVAL,
    /// Too many live function references.
    TooManyRefs => code::EVAL,
    /// The eval's budget of binding calls is used up.
    TooManyCalls => code::EVAL,
    /// Invokes nested too deeply.
    TooDeep => code::EVAL,
    /// The policy does not allow it.
    PermissionDenied => code::EVAL,
    /// A handler failed without a code of its own.
    BindingError => code::EVAL,
    /// The peer that should have answered is gone.
    PeerGone => code::EVAL,
    /// The input breaks the declared schema.
    InvalidInput => code::INVALID_PARAMS,
    /// The output breaks the declared schema.
    InvalidOutput => code::INVALID_OUTPUT,
    /// Checking the value against its schema would take too long, so it was not checked.
    ValidationLimit => code::EVAL,
    /// No binding of that name.
    UnknownBinding => code::METHOD_NOT_FOUND,
    /// No reference of that id.
    UnknownRef => code::METHOD_NOT_FOUND,
    /// An error of the server itself.
    Internal => code::INTERNAL,
}

/// `error` of a JSON-RPC response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// JSON-RPC's number; -32000 where the peer sent none.
    #[serde(default = "default_code")]
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs; `data.kind` is the stable name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

fn default_code() -> i64 {
    code::EVAL
}

impl ErrorObject {
    /// An error of one of our kinds.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let mut data = Map::new();
        data.insert("kind".to_owned(), Value::from(kind.name()));
        Self { code: kind.code(), message: message.into(), data: Some(Value::Object(data)) }
    }

    /// The same with one more field in `data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = data {
            fields.insert(key.to_owned(), value.into());
        }
        self
    }

    /// `data.kind`, if it has one.
    pub fn kind(&self) -> Option<&str> {
        self.data.as_ref()?.get("kind")?.as_str()
    }

    /// Whether this is an error of that kind.
    pub fn is(&self, kind: Kind) -> bool {
        self.kind() == Some(kind.name())
    }
}

impl std::fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            Some(kind) => write!(f, "{kind}: {}", self.message),
            None => write!(f, "{} (code {})", self.message, self.code),
        }
    }
}

impl std::error::Error for ErrorObject {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn error_of_a_kind_carries_its_code() {
        let error = ErrorObject::new(Kind::UnknownRef, "no reference f9").with("ref", "f9");
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            json!({"code": -32601, "message": "no reference f9", "data": {"kind": "UnknownRef", "ref": "f9"}})
        );
        assert!(error.is(Kind::UnknownRef));
    }

    #[test]
    fn error_from_a_peer_without_data_has_no_kind() {
        let error: ErrorObject = serde_json::from_str(r#"{"code": 7, "message": "no"}"#).unwrap();
        assert_eq!(error.kind(), None);
        assert_eq!(error.to_string(), "no (code 7)");
    }
}
