//! The packages that come with the server. A new one is a folder with `declaration.json` and `mod.rs`, and a line below.
//!
//! A package is a function from its configuration to its handlers, and to where it is reached from outside; the
//! declaration beside it says what the handlers are.

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

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::binding::{Handler, Policy};
use crate::peering::{Background, Mount};

/// The handlers of a package, by the names of their bindings.
pub type Handlers = Vec<(&'static str, Arc<dyn Handler>)>;

/// What a package is made from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Its configuration, checked against its schema.
    pub config: &'a Value,
    /// Where its declaration stands: paths in the configuration start here.
    pub folder: &'a Path,
}

/// A package that is ready.
#[derive(Default)]
pub struct Opened {
    /// Its handlers.
    pub handlers: Handlers,
    /// Where it is reached from outside.
    pub mounts: Vec<Mount>,
    /// What it does as long as the server runs.
    pub background: Vec<Background>,
    /// The policies in its configuration, each with its JSON Pointer there. Their names are checked at start.
    pub policies: Vec<(&'static str, Policy)>,
}

impl From<Handlers> for Opened {
    fn from(handlers: Handlers) -> Self {
        Self { handlers, ..Self::default() }
    }
}

/// A package that is built in.
#[derive(Debug)]
pub struct BuiltIn {
    /// What `"rust"` calls it.
    pub name: &'static str,
    /// Its own declaration file, which stands in for what another file leaves out.
    pub declaration: &'static str,
    /// Makes it from a checked configuration, or says what is wrong with that.
    pub open: fn(&Setup<'_>) -> Result<Opened, String>,
}

/// All of them, by name.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "a2a", declaration: include_str!("a2a/declaration.json"), open: a2a::open },
    BuiltIn { name: "exoclaw", declaration: include_str!("exoclaw/declaration.json"), open: exoclaw::open },
    BuiltIn { name: "holon", declaration: include_str!("holon/declaration.json"), open: holon::open },
    BuiltIn { name: "http", declaration: include_str!("http/declaration.json"), open: http::open },
    BuiltIn { name: "kv", declaration: include_str!("kv/declaration.json"), open: kv::open },
    BuiltIn { name: "memory", declaration: include_str!("memory/declaration.json"), open: memory::open },
    BuiltIn { name: "orders", declaration: include_str!("orders/declaration.json"), open: orders::open },
];

/// The built-in package of that name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|package| package.name == name)
}
