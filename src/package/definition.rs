//! A package that is compiled in: how it is named, declared and opened.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::binding::{Handler, Policy};
use crate::peering::{Background, Mount};

/// The handlers of a package, by the names of their bindings.
pub type Handlers = Vec<(&'static str, Arc<dyn Handler>)>;

/// What a package is made from.
#[derive(Debug)]
pub struct PackageContext<'a> {
    /// Its configuration, checked against its schema.
    pub config: &'a Value,
    /// Where its declaration stands: paths in the configuration start here.
    pub folder: &'a Path,
}

/// A package that is ready.
#[derive(Default)]
pub struct PackageInstance {
    /// Its handlers.
    pub handlers: Handlers,
    /// Where it is reached from outside.
    pub mounts: Vec<Mount>,
    /// What it does as long as the server runs.
    pub background: Vec<Background>,
    /// The policies in its configuration, each with its JSON Pointer there. Their names are checked at start.
    pub policies: Vec<(&'static str, Policy)>,
}

impl From<Handlers> for PackageInstance {
    fn from(handlers: Handlers) -> Self {
        Self { handlers, ..Self::default() }
    }
}

/// A package that is built in.
#[derive(Debug)]
pub struct PackageDef {
    /// What `"rust"` calls it.
    pub name: &'static str,
    /// Its own declaration file, which stands in for what another file leaves out.
    pub declaration: &'static str,
    /// Makes it from a checked configuration, or says what is wrong with that.
    pub open: fn(&PackageContext<'_>) -> Result<PackageInstance, String>,
}
