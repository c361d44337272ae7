//! Bindings: the typed functions through which scripts reach the world.
//!
//! A [`Handler`] does the work, a [`Binding`] is a handler with its declaration, compiled schemas and limits, a
//! [`Registry`] is the set that a server offers. Packages from a folder and handlers from code end up here alike.

mod call;
mod error;
mod handler;
mod invoke;
mod policy;
mod policy_names;
mod registry;
mod roles;
pub(crate) mod tags;

pub use call::{
    Call, CallbackRequest, Callbacks, DroppedRefs, FunctionRef, HostFunctions, NativeFunction, SessionScope,
};
pub use error::BindingError;
pub use handler::{Handler, HandlerFuture, add_effects_with_member, handler, typed};
pub use invoke::{CallContext, invalid};
pub use policy::{Decision, Policy, Principal, UnknownNames};
pub use policy_names::{PolicyNames, STANDARD_EFFECTS, UnknownName};
pub(crate) use registry::DeclaredSchemas;
pub(crate) use registry::is_control_name;
pub use registry::{Binding, BindingLimits, Registry, RegistryProblem};
pub use roles::{MissingRole, Role, Roles};
