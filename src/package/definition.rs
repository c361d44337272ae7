//! A package that is compiled in: how it is named, declared and opened.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Package, Secrets};
use crate::binding::{Binding, BindingLimits, BindingPublisher, Handler, Policy};
use crate::peering::{Background, Mount};
use crate::protocol::declaration::Declaration;

/// Handlers by the names of their bindings.
pub type NamedHandlers = Vec<(&'static str, Arc<dyn Handler>)>;

/// What a package is opened with.
#[derive(Debug)]
pub struct PackageContext {
    /// The package's name in its declaration file.
    pub package: String,
    /// Its configuration, checked against its schema.
    pub config: Value,
    /// What of the configuration must appear in no text that others read.
    pub secrets: Secrets,
    /// The folder of its declaration file: paths in the configuration start here.
    pub folder: PathBuf,
    /// The bindings that its declaration file declares. Empty where the package knows better, such as one whose bindings
    /// are another server's tools.
    pub declared: Vec<(Declaration, BindingLimits)>,
    /// By which the package changes its bindings after it is open.
    pub bindings: BindingPublisher,
}

impl PackageContext {
    /// The context of a package without a declaration file.
    pub fn new(config: Value, folder: impl Into<PathBuf>) -> Self {
        Self {
            package: String::new(),
            config,
            secrets: Secrets::default(),
            folder: folder.into(),
            declared: Vec::new(),
            bindings: BindingPublisher::default(),
        }
    }

    /// Bindings of these handlers, as the declaration file declares them. One that it does not declare has a name only;
    /// if the file declares others, the package is refused.
    pub fn bind(&self, handlers: impl Into<NamedHandlers>) -> Vec<Binding> {
        let bind = |(name, handler): (&'static str, Arc<dyn Handler>)| {
            let declared = self.declared.iter().find(|(declaration, _)| declaration.name == name);
            match declared.cloned() {
                Some((declaration, limits)) => Binding { declaration, limits, handler },
                None => Binding::new(Declaration::named(name), handler),
            }
        };
        handlers.into().into_iter().map(bind).collect()
    }

    /// The bindings of a package made in code. What the declaration file says of one is what counts; one that it does not
    /// declare is as the code says.
    pub fn bind_package(&self, package: Package) -> Result<Vec<Binding>, String> {
        let mut bindings = package.into_bindings()?;
        for binding in &mut bindings {
            let declared = self.declared.iter().find(|(one, _)| one.name == binding.declaration.name);
            if let Some((declaration, limits)) = declared {
                (binding.declaration, binding.limits) = (declaration.clone(), limits.clone());
            }
        }
        Ok(bindings)
    }
}

/// A package that is open.
#[derive(Default)]
pub struct PackageInstance {
    /// What it offers at first. [`PackageContext::bindings`] changes it.
    pub bindings: Vec<Binding>,
    /// Where it is reached from outside.
    pub mounts: Vec<Mount>,
    /// What it does as long as the server runs.
    pub background: Vec<Background>,
    /// The policies in its configuration, each with its JSON Pointer there. Their names are checked at start.
    pub policies: Vec<(&'static str, Policy)>,
    /// What the other side offers and the package cannot, for the operator.
    pub unmapped: Vec<UnmappedItem>,
    /// What became a binding, but not quite as the other side has it.
    pub notes: Vec<UnmappedItem>,
}

/// A tool of another server, or an operation of a document, that did not become a binding, or not as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmappedItem {
    /// Its name there.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl From<Vec<Binding>> for PackageInstance {
    fn from(bindings: Vec<Binding>) -> Self {
        Self { bindings, ..Self::default() }
    }
}

/// Opens a package, or returns what is wrong with its configuration.
pub type OpenPackage = fn(PackageContext) -> BoxFuture<'static, Result<PackageInstance, String>>;

/// A package that is built in.
#[derive(Debug)]
pub struct PackageDef {
    /// By which `"rust"` in a declaration file names it.
    pub name: &'static str,
    /// Its own declaration file, from which other files take what they leave out.
    pub declaration: &'static str,
    /// Called once per declaration file, concurrently with other packages.
    pub open: OpenPackage,
}
