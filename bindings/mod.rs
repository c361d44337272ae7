//! The packages that come with the server. A new one is a folder with `declaration.json` and `mod.rs`, and a line below.
//!
//! A package is an async function from its configuration to its bindings, and to where it is reached from outside; the
//! file beside it declares the bindings.

pub mod a2a;
pub mod exoclaw;
pub mod holon;
pub mod http;
pub mod kv;
pub mod memory;
pub mod orders;
mod sqlite;
#[cfg(test)]
mod testing;

use crate::package::{NamedHandlers as Handlers, PackageContext, PackageDef, PackageInstance};

/// All of them, by name.
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
    PackageDef {
        name: "memory",
        declaration: include_str!("memory/declaration.json"),
        open: |context| Box::pin(memory::open(context)),
    },
    PackageDef {
        name: "orders",
        declaration: include_str!("orders/declaration.json"),
        open: |context| Box::pin(orders::open(context)),
    },
];
