//! The bindings of a folder, as the commands see them.

use std::path::Path;

use scomp::binding::DeclarationProblem;
use scomp::package::loader::{self, Loaded};

/// Reads the packages of `dir`; every problem is reported, not only the first.
pub(super) async fn load(dir: &Path) -> Result<Loaded, Vec<DeclarationProblem>> {
    loader::load(dir, &loader::environment(), scomp::bindings::BUILT_IN).await
}

/// The bindings of a folder, if one is named.
pub(super) async fn load_if_any(dir: Option<&Path>) -> Result<Loaded, Vec<DeclarationProblem>> {
    match dir {
        Some(dir) => load(dir).await,
        None => Ok(Loaded::default()),
    }
}

/// All problems, one per line.
pub(super) fn join_problems(problems: &[DeclarationProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
