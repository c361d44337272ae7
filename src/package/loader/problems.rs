//! The problems of one file, as they are found.

use crate::protocol::declaration::pointer_to;
use std::path::Path;

use crate::binding::DeclarationProblem;

/// Collects what is wrong with a file.
pub(super) struct Problems {
    origin: String,
    found: Vec<DeclarationProblem>,
}

impl Problems {
    pub(super) fn of(file: &Path) -> Self {
        Self { origin: file.display().to_string(), found: Vec::new() }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Something is wrong at this JSON Pointer.
    pub(super) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.push(DeclarationProblem {
            origin: self.origin.clone(),
            path: path.into(),
            message: message.into(),
        });
    }

    pub(super) fn push(&mut self, problem: DeclarationProblem) {
        self.found.push(problem);
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn into_vec(self) -> Vec<DeclarationProblem> {
        self.found
    }
}

/// The JSON Pointer of a member.
pub(super) fn member(path: &str, key: &str) -> String {
    format!("{path}{}", pointer_to(key))
}
