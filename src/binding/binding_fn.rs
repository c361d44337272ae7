//! Functions with `#[scomp::binding]`: their declaration is made of their signature.

use std::ops::Deref;
use std::sync::Arc;

use super::{BindingLimits, Handler, MissingState, States};
use crate::protocol::declaration::Declaration;

/// A function with `#[scomp::binding]`. The attribute implements it for a type with the name of the function.
///
/// ```
/// use scomp::binding::BindingFn as _;
///
/// /// Adds two numbers.
/// #[scomp::binding]
/// async fn add_numbers(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// assert_eq!(add_numbers::NAME, "addNumbers");
/// assert_eq!(add_numbers::declaration().description.as_deref(), Some("Adds two numbers."));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a binding function",
    label = "expected the name of a function with `#[scomp::binding]`",
    note = "a function without the attribute is bound with `.bind(name, description, function)`"
)]
pub trait BindingFn {
    /// The name by which scripts call it.
    const NAME: &'static str;

    /// What scripts and clients see of it.
    fn declaration() -> Declaration;

    /// Its limits.
    fn limits() -> BindingLimits;

    /// The handler, with the states that its arguments name.
    fn handler(states: &States) -> Result<Arc<dyn Handler>, MissingState>;
}

/// The whole input of a [binding function](macro@crate::binding), as one type instead of an argument for each field.
///
/// ```
/// use scomp::binding::Input;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, schemars::JsonSchema)]
/// struct Mail { to: String, text: String }
///
/// /// Sends a mail.
/// #[scomp::binding(name = "mail.send", effects = ["external"])]
/// async fn send(Input(mail): Input<Mail>) -> usize {
///     mail.text.len()
/// }
/// # let _ = send;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input<T>(pub T);

impl<T> Deref for Input<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
