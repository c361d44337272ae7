//! A set of bindings that belong together, with their handlers.

use std::sync::Arc;

use super::{BindingLimits, Handler, Registry, RegistryProblem};
use crate::scomp::declaration::Declaration;

/// What can be wrong with a package: every problem, not only the first.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct PackageError(pub Vec<RegistryProblem>);

/// Bindings made in code.
#[derive(Clone, Default)]
pub struct Package {
    name: String,
    bindings: Vec<(Declaration, BindingLimits, Arc<dyn Handler>)>,
}

impl Package {
    /// An empty package.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), bindings: Vec::new() }
    }

    /// Adds a binding with a declaration made by hand.
    #[must_use]
    pub fn with(
        mut self,
        declaration: Declaration,
        limits: BindingLimits,
        handler: Arc<dyn Handler>,
    ) -> Self {
        self.bindings.push((declaration, limits, handler));
        self
    }

    /// Puts all bindings into a registry; all problems are reported.
    pub fn register(self, registry: &mut Registry) -> Result<(), PackageError> {
        let problems: Vec<RegistryProblem> = self
            .bindings
            .into_iter()
            .enumerate()
            .filter_map(|(index, (declaration, limits, handler))| {
                registry.add(declaration, &limits, handler, &self.name, &format!("/bindings/{index}")).err()
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(PackageError(problems)) }
    }
}
