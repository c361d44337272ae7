//! Packages: sets of bindings that belong together, from code, from a folder or from an executable.
//!
//! [`Package`] collects handlers in code, [`loader`] reads a folder, [`serve_stdio`] is the other end of a package that
//! is an executable. A [`PackageDef`] is a package that is compiled in; [`Bindings`] collects its handlers.

mod bindings;
mod builder;
mod definition;
#[cfg_attr(
    not(any(feature = "mcp", feature = "openapi")),
    allow(dead_code, reason = "without MCP and OpenAPI only the names of packages are mapped")
)]
pub(crate) mod identifiers;
pub mod loader;
mod secrets;
mod stdio;

pub use crate::peering::{Background, Endpoint, Host, IncomingConnection, Mount, MountGate, MountKind};
pub use bindings::Bindings;
pub use builder::{Package, PackageError};
pub use definition::{NamedHandlers, OpenPackage, PackageContext, PackageDef, PackageInstance, UnmappedItem};
pub use secrets::Secrets;
pub use stdio::{serve_over, serve_stdio, serve_stdio_with};
