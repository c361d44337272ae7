//! Error kinds that a package names itself.

use serde_json::{Map, Value};

use super::BindingError;
use crate::rpc::{ErrorObject, code};

/// An error type whose values have kinds of their own, derived with `#[derive(scomp::ErrorKind)]`.
///
/// The kind is `data.kind` of the error on the wire, and `error.name` in a script that catches it. Return the type from a
/// [binding function](macro@crate::binding); elsewhere [`BindingError::with_kind`] converts it. With `?` into a
/// [`BindingError`] it would be an error like any other and lose its kind.
///
/// ```
/// use scomp::package::Package;
/// use scomp::testing::TestServer;
///
/// #[derive(Debug, thiserror::Error, scomp::ErrorKind)]
/// enum OrderError {
///     #[error("order {id} not found")]
///     #[kind("OrderNotFound", code = 404)]
///     NotFound { #[data] id: String },
///     /// Without a kind of its own it is a `BindingError`.
///     #[error(transparent)]
///     Database(#[from] std::io::Error),
/// }
///
/// /// Fetches the total of an order.
/// #[scomp::binding(name = "orders.total", effects = ["read"])]
/// async fn total(id: String) -> Result<f64, OrderError> {
///     Err(OrderError::NotFound { id })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start(Package::new("orders").add::<total>()).await?;
/// let code = "try { await orders.total({ id: 'o_9' }) } catch (e) { [e.name, e.code, e.data.id] }";
/// assert_eq!(server.eval(code).await?, serde_json::json!(["OrderNotFound", 404, "o_9"]));
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no error kinds",
    label = "expected a type with `#[derive(scomp::ErrorKind)]`"
)]
pub trait ErrorKind: std::fmt::Display {
    /// The stable name; `None` is `BindingError`.
    fn kind(&self) -> Option<&'static str>;

    /// The number of the error on the wire.
    fn code(&self) -> i64 {
        code::EVAL
    }

    /// What programs get beside the kind.
    fn data(&self) -> Map<String, Value> {
        Map::new()
    }
}

impl BindingError {
    /// The failure with the kind, code and data of an error type of your own.
    pub fn with_kind(error: &impl ErrorKind) -> Self {
        let plain = Self::new(error.to_string()).into_object();
        let mut data = error.data();
        let kind = error.kind().or(plain.kind()).unwrap_or_default();
        data.insert("kind".to_owned(), Value::from(kind));
        Self::from(ErrorObject { code: error.code(), data: Some(Value::Object(data)), ..plain })
    }
}
