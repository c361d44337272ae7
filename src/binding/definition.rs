//! What a package hands over for each of its bindings, and what can be wrong with it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Handler;
use crate::protocol::declaration::Declaration;

/// A binding of a package: its declaration, its limits and the function behind it.
#[derive(Clone)]
pub struct Binding {
    /// What scripts and clients see of it.
    pub declaration: Declaration,
    /// What is absent is the server's default.
    pub limits: BindingLimits,
    /// Serves the calls.
    pub handler: Arc<dyn Handler>,
}

impl Binding {
    /// A binding with the default limits.
    pub fn new(declaration: Declaration, handler: Arc<dyn Handler>) -> Self {
        Self { declaration, limits: BindingLimits::default(), handler }
    }

    /// The same binding with other limits.
    #[must_use]
    pub fn limits(mut self, limits: BindingLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Binding").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}

/// The limits of one binding; what is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct BindingLimits {
    /// How long a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many calls may run concurrently, over all sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
}

/// Something wrong with a declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {path}{}{message}", if path.is_empty() { "" } else { ": " })]
pub struct DeclarationProblem {
    /// The declaration file, or the name of a package made in code.
    pub origin: String,
    /// JSON Pointer into the declaration file.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// Whether a name belongs to the server's control bindings (`session.cancel`, `bindings.types`), present or future.
pub(crate) fn is_control_name(name: &str) -> bool {
    matches!(name.split('.').next(), Some("session" | "bindings"))
}
