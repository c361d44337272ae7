//! Bindings: the typed functions through which scripts reach the world.
//!
//! A [`Handler`] does the work, a [`Binding`] is a handler with its declaration, compiled schemas and limits, a
//! [`Registry`] is the set that a server offers. Packages from a folder and handlers from code end up here alike.

mod call;
mod error;
mod handler;
mod invoke;
pub mod loader;
mod package;
pub(crate) mod places;
mod policy;
mod policy_names;
pub mod reference;
mod registry;
mod roles;
pub mod schema;
pub mod search;
mod stdio;
pub(crate) mod tags;
mod typed_functions;
pub mod typescript;

pub use call::{Call, FunctionRef, HostLink, HostRequest, NativeFunction, Natives, Releases, SessionScope};
pub use error::BindingError;
pub use handler::{Handler, HandlerFuture, add_effects_with_member, handler, typed};
pub use invoke::{Caller, invalid};
pub use package::{Package, PackageError};
pub use policy::{Decision, Policy, Principal, UnknownNames};
pub use policy_names::{PolicyNames, STANDARD_EFFECTS, UnknownName};
pub(crate) use registry::DeclaredSchemas;
pub use registry::{Binding, BindingLimits, Registry, RegistryProblem};
pub use roles::{MissingRole, Role, Roles};
pub use stdio::{serve_over, serve_stdio, serve_stdio_with};
pub use typed_functions::{FunctionPlace, FunctionSchemas};
