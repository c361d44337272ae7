//! Bindings: the typed functions through which scripts reach the world.
//!
//! A [`Handler`] serves the calls of one [`Binding`]. [`Handlers`] is all of a server's, by the numbers of its catalog;
//! policy, approval, limits, audit and metrics of a call happen there (`invoke`). Packages from a folder and handlers from
//! code are registered alike, and change their bindings through a [`BindingPublisher`].

mod arguments;
mod binding_fn;
mod call;
mod callbacks;
mod cancel;
mod definition;
mod error;
mod error_kind;
mod function;
mod handler;
mod handlers;
mod invoke;
#[doc(hidden)]
#[allow(missing_docs, reason = "called by generated code alone")]
pub mod macro_support;
mod policy;
mod policy_names;
mod publisher;
mod roles;
mod slots;
mod state;
pub(crate) mod tags;
pub(crate) mod type_schema;
pub mod values;

pub use arguments::Arguments;
pub use binding_fn::{BindingFn, Input};
pub use call::{Call, FunctionRef, SessionScope};
pub(crate) use call::{HostFunctions, NativeFunction};
pub(crate) use callbacks::{CallbackReceiver, CallbackRequest, CallbackRoute, Callbacks, SessionGone};
pub use cancel::CancelSignal;
pub(crate) use definition::is_control_name;
pub use definition::{Binding, BindingLimits, DeclarationProblem};
pub use error::BindingError;
pub use error_kind::ErrorKind;
pub use function::Function;
pub use handler::{Handler, HandlerFuture, add_effects_with_member, handler, typed};
pub use handlers::Handlers;
pub(crate) use handlers::{HandlerEntry, PackageBindings};
pub(crate) use invoke::{BegunCall, CallContext};
pub(crate) use policy::Decision;
pub use policy::{Policy, Principal};
pub(crate) use policy_names::PolicyNames;
pub use policy_names::UnknownName;
pub use publisher::BindingPublisher;
pub use roles::{MissingRole, Role, Roles};
pub use state::{MissingState, State, States};
