//! What the code that `#[scomp::binding]` and `#[derive(scomp::ErrorKind)]` write calls. Not an interface.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use super::function::Writer;
use super::{BindingError, Call, ErrorKind, Handler, function, type_schema};
use crate::protocol::declaration::Declaration;

pub use super::{BindingFn, BindingLimits, Input, MissingState, States, handler};
pub use crate::protocol::declaration;
pub use schemars;
pub use serde;
pub use serde_json;

/// The handler of a binding function.
pub type DynHandler = Arc<dyn Handler>;

/// The declaration of a binding with these types.
pub fn declare<I: JsonSchema, O: JsonSchema>(name: &str, description: &str, effects: &[&str]) -> Declaration {
    Declaration {
        description: Some(description.to_owned()),
        input: Some(type_schema::of_input::<I>()),
        output: Some(type_schema::of_output::<O>()),
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        ..Declaration::named(name)
    }
}

/// Reads the input of a call.
pub fn read<I: DeserializeOwned>(input: Value, call: &Call) -> Result<I, BindingError> {
    function::read(input, call)
}

/// Puts a field of an error into its data; one that has no JSON form is left out.
pub fn insert(data: &mut Map<String, Value>, name: &str, field: &impl Serialize) {
    if let Ok(value) = serde_json::to_value(field) {
        data.insert(name.to_owned(), value);
    }
}

/// An error that a binding function may return.
#[diagnostic::on_unimplemented(
    message = "a binding function cannot fail with `{Self}`",
    label = "expected `BindingError`, a type with `#[derive(scomp::ErrorKind)]`, or one that implements `std::error::Error`"
)]
pub trait Failure {}

// Which conversion an error takes is found by method resolution: the first of these traits whose bounds hold, in the
// order in which `(&&ErrorType::of(&error)).conversion()` finds them. Traits alone cannot say "this one, otherwise that".

/// The type of an error.
pub struct ErrorType<E>(PhantomData<E>);

impl<E> ErrorType<E> {
    pub fn of(_: &E) -> Self {
        Self(PhantomData)
    }
}

/// For errors with kinds of their own.
pub trait KindConversion {
    fn conversion(&self) -> WithKind {
        WithKind
    }
}

impl<E: ErrorKind> KindConversion for &ErrorType<E> {}

/// For all other errors.
pub trait PlainConversion {
    fn conversion(&self) -> Plain {
        Plain
    }
}

impl<E: Into<BindingError>> PlainConversion for &&ErrorType<E> {}

/// For types that are not errors, so that the compiler says which types are.
pub trait NoConversion {
    fn conversion(&self) -> NotAnError {
        NotAnError
    }
}

impl<E> NoConversion for ErrorType<E> {}

pub struct WithKind;
pub struct Plain;
pub struct NotAnError;

impl WithKind {
    pub fn convert<E: ErrorKind>(self, error: E) -> BindingError {
        BindingError::with_kind(&error)
    }
}

impl Plain {
    pub fn convert<E: Into<BindingError>>(self, error: E) -> BindingError {
        error.into()
    }
}

impl NotAnError {
    pub fn convert<E: Failure>(self, _: E) -> BindingError {
        BindingError::new("unreachable: no type is a `Failure`")
    }
}
