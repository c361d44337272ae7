//! What a handler may fail with.

use serde_json::Value;

use crate::rpc::{ErrorObject, Kind};

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

    /// The error as it goes on the wire.
    pub fn into_object(self) -> ErrorObject {
        self.0
    }
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
