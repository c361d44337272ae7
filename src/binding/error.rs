//! What a handler may fail with.

use serde_json::Value;

use crate::rpc::{ErrorObject, Kind};

/// The codes that JSON-RPC keeps for itself and for implementations of it.
const RESERVED_CODES: std::ops::RangeInclusive<i64> = -32_768..=-32_000;

/// A handler's failure: its code, message and data reach the script and the client as they are.
///
/// Any [`std::error::Error`] becomes one with `?`, with code -32000 and kind `BindingError`.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingError(ErrorObject);

impl BindingError {
    /// A failure of kind `BindingError`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(ErrorObject::new(Kind::BindingError, message))
    }

    /// A failure with a code of the handler's own.
    pub fn with_code(code: i64, message: impl Into<String>) -> Self {
        Self(ErrorObject { code, message: message.into(), data: None })
    }

    /// A failure of one of the stable kinds.
    pub fn of_kind(kind: Kind, message: impl Into<String>) -> Self {
        Self(ErrorObject::new(kind, message))
    }

    /// The same with `data` for programs.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.0.data = Some(data);
        self
    }

    /// The code that a script gave its own error, or a handler the failure; `None` for those of the protocol itself.
    pub fn own_code(&self) -> Option<i64> {
        let thrown = self.0.data.as_ref().and_then(|data| data.get("code")).and_then(Value::as_i64);
        thrown.or(Some(self.0.code)).filter(|code| !RESERVED_CODES.contains(code))
    }

    /// What a script said when it threw: the message of its error, without the name before it.
    pub fn own_message(&self) -> &str {
        match self.0.message.split_once(": ") {
            Some((name, message)) if is_error_name(name) => message,
            _ => &self.0.message,
        }
    }

    /// The stable kind, if it has one.
    pub fn kind(&self) -> Option<&str> {
        self.0.kind()
    }

    /// The error as it goes on the wire.
    pub fn into_object(self) -> ErrorObject {
        self.0
    }
}

fn is_error_name(text: &str) -> bool {
    text.ends_with("Error") && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

impl<E: std::error::Error + 'static> From<E> for BindingError {
    /// An error from the other side of a call is kept as it is; any other becomes a `BindingError`.
    fn from(error: E) -> Self {
        match (&error as &dyn std::any::Any).downcast_ref::<ErrorObject>() {
            Some(object) => Self(object.clone()),
            None => Self::new(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn thrown(message: &str, data: Value) -> BindingError {
        BindingError::of_kind(Kind::EvalError, message).data(data)
    }

    #[test]
    fn own_message_leaves_out_the_error_name() {
        assert_eq!(thrown("Error: nope", json!({})).own_message(), "nope");
        assert_eq!(thrown("Error: TypeError: x", json!({})).own_message(), "TypeError: x");
        assert_eq!(thrown("a problem: x", json!({})).own_message(), "a problem: x");
        assert_eq!(thrown("NotFoundError", json!({})).own_message(), "NotFoundError");
    }

    #[test]
    fn own_code_leaves_out_codes_of_the_protocol() {
        assert_eq!(thrown("Error: nope", json!({"code": 5})).own_code(), Some(5));
        assert_eq!(thrown("Error: nope", json!({"code": -32_000})).own_code(), None);
        assert_eq!(thrown("Error: nope", json!({})).own_code(), None);
        assert_eq!(BindingError::with_code(14, "down").own_code(), Some(14));
    }
}
