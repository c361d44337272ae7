//! The macros of the crate `scomp`, which exports them: use them from there.
//!
//! `#[scomp::binding]` makes a binding of a function, and `#[derive(scomp::ErrorKind)]` gives the values of an error type
//! kinds of their own. What they write calls `scomp::__private` and nothing else, so that the names in a program do not
//! matter to it.

mod error_kind;
mod expand;
mod names;
mod options;
mod signature;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, parse_macro_input};

use options::Options;
use signature::Signature;

/// Makes a binding of a function: its documentation is the description, its signature the schemas.
///
/// The function stays as it is. A type of the same name is declared beside it, by which it is added to a package or a
/// server: `Package::new("orders").add::<get_order>()`.
///
/// | argument of the function | what it gets |
/// |---|---|
/// | `id: String`, any type that implements `Deserialize` and `JsonSchema` | the field `id` of the input; an `Option` may be absent. Its attributes and documentation are those of the field: `#[serde(default)]`, `#[schemars(range(min = 1))]` |
/// | `Input(query): Input<Query>` | the whole input, instead of fields |
/// | `visit: Function<(u32,), String>` | a function of the script |
/// | `db: State<Db>` | the state of that type, from `.state(db)` of the package or the server |
/// | `call: Call` | the call itself: the session, its principal, the way back to the client |
///
/// Names become camel case: `get_order(page_size: u32)` is `getOrder({ pageSize })`. Fields that the function does not
/// have are refused. It returns a type that implements `Serialize` and `JsonSchema`, or a `Result` of one; the error is a
/// `BindingError`, a type with `#[derive(scomp::ErrorKind)]`, or any `std::error::Error`. It may be `async` or not; what
/// blocks belongs in `tokio::task::spawn_blocking`, because it runs beside other sessions.
///
/// | option | meaning |
/// |---|---|
/// | `name = "orders.get"` | the name, instead of that of the function |
/// | `effects = ["read"]` | what a call may do: `read`, `write`, `external`, or names of your own |
/// | `timeout_ms = 5_000` | longest duration of a call |
/// | `concurrency = 4` | calls that run concurrently |
/// | `crate = other::path` | where the crate `scomp` is, if it was renamed |
#[proc_macro_attribute]
pub fn binding(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    let kept = expand::without_argument_attributes(&function);
    let written = syn::parse::<Options>(options)
        .and_then(|options| Ok(expand::binding(&options, &function, &Signature::read(&function)?)))
        .unwrap_or_else(syn::Error::into_compile_error);
    // The function is there even if it is not a binding, so that there is no second error for each of its callers.
    quote::quote!(#kept #written).into()
}

/// Gives the values of an error type kinds of their own, by which scripts and clients tell them apart.
///
/// `#[kind("OrderNotFound")]` on a variant, or on a struct, is its kind; `code = 404` beside it is the number of the error
/// on the wire, -32000 otherwise. Fields with `#[data]` are in the `data` of the error. What has no kind is a
/// `BindingError`. The text is that of `Display`, for instance from `thiserror`.
#[proc_macro_derive(ErrorKind, attributes(kind, data))]
pub fn error_kind(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    error_kind::derive(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}
