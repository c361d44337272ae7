//! The packages that come with the server. A new one is a folder with `declaration.json` and `mod.rs`, and a line below.
//!
//! A package is a function from its configuration to its handlers; the declaration beside it says what they are.

pub mod http;
pub mod kv;
pub mod orders;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use serde_json::Value;

use crate::binding::Handler;

/// The handlers of a package, by the names of their bindings.
pub type Handlers = Vec<(&'static str, Arc<dyn Handler>)>;

/// A package that is built in.
#[derive(Debug)]
pub struct BuiltIn {
    /// What `"rust"` calls it.
    pub name: &'static str,
    /// Its own declaration file, which stands in for what another file leaves out.
    pub declaration: &'static str,
    /// Makes its handlers from a checked configuration, or says what is wrong with that.
    pub handlers: fn(&Value) -> Result<Handlers, String>,
}

/// All of them.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "http", declaration: include_str!("http/declaration.json"), handlers: http::handlers },
    BuiltIn { name: "kv", declaration: include_str!("kv/declaration.json"), handlers: kv::handlers },
    BuiltIn {
        name: "orders",
        declaration: include_str!("orders/declaration.json"),
        handlers: orders::handlers,
    },
];

/// The built-in package of that name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|package| package.name == name)
}
