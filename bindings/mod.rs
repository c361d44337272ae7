//! The packages built into the server. To add one, create a folder with `declaration.json` and
//! `mod.rs`, and list it below.
//!
//! A package is a function from its configuration to its handlers and mounts. The declaration
//! beside it describes the bindings that the handlers implement.

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

use crate::package::{Handlers, PackageContext, PackageDef, PackageInstance};

/// All built-in packages, sorted by name.
pub const BUILT_IN: &[PackageDef] = &[
    PackageDef { name: "a2a", declaration: include_str!("a2a/declaration.json"), open: a2a::open },
    PackageDef {
        name: "exoclaw",
        declaration: include_str!("exoclaw/declaration.json"),
        open: exoclaw::open,
    },
    PackageDef { name: "holon", declaration: include_str!("holon/declaration.json"), open: holon::open },
    PackageDef { name: "http", declaration: include_str!("http/declaration.json"), open: http::open },
    PackageDef { name: "kv", declaration: include_str!("kv/declaration.json"), open: kv::open },
    PackageDef { name: "memory", declaration: include_str!("memory/declaration.json"), open: memory::open },
    PackageDef { name: "orders", declaration: include_str!("orders/declaration.json"), open: orders::open },
];
