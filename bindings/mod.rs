//! The packages built into the server. To add one, create a folder with `declaration.json` and
//! `mod.rs`, and list it below.
//!
//! A package is an async function from its configuration to its bindings and mounts. The
//! declaration beside it describes the bindings that the handlers implement.

pub mod a2a;
pub mod exoclaw;
pub mod holon;
pub mod http;
pub mod kv;
pub mod memory;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod orders;
#[cfg(test)]
mod testing;

use crate::package::{NamedHandlers as Handlers, PackageContext, PackageDef, PackageInstance};

/// All built-in packages, sorted by name.
pub const BUILT_IN: &[PackageDef] = &[
    PackageDef {
        name: "a2a",
        declaration: include_str!("a2a/declaration.json"),
        open: |context| Box::pin(a2a::open(context)),
    },
    PackageDef {
        name: "exoclaw",
        declaration: include_str!("exoclaw/declaration.json"),
        open: |context| Box::pin(exoclaw::open(context)),
    },
    PackageDef {
        name: "holon",
        declaration: include_str!("holon/declaration.json"),
        open: |context| Box::pin(holon::open(context)),
    },
    PackageDef {
        name: "http",
        declaration: include_str!("http/declaration.json"),
        open: |context| Box::pin(http::open(context)),
    },
    PackageDef {
        name: "kv",
        declaration: include_str!("kv/declaration.json"),
        open: |context| Box::pin(kv::open(context)),
    },
    #[cfg(feature = "mcp")]
    crate::mcp::client::PACKAGE,
    PackageDef {
        name: "memory",
        declaration: include_str!("memory/declaration.json"),
        open: |context| Box::pin(memory::open(context)),
    },
    #[cfg(feature = "openapi")]
    openapi::PACKAGE,
    PackageDef {
        name: "orders",
        declaration: include_str!("orders/declaration.json"),
        open: |context| Box::pin(orders::open(context)),
    },
];
