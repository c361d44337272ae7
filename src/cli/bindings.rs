//! The bindings of a folder, as the commands see them.

use std::path::{Path, PathBuf};

use scomp::binding::{Registry, RegistryProblem};

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// All bindings of all packages.
    pub(super) registry: Registry,
    /// Where they come from.
    pub(super) packages: Vec<PackageInfo>,
    /// Scripts that run for as long as the server does.
    pub(super) services: Vec<PathBuf>,
}

/// One package, for an operator.
#[derive(Debug)]
pub(super) struct PackageInfo {
    /// Its name.
    pub(super) name: String,
    /// Its declaration file.
    pub(super) origin: PathBuf,
    /// The names of its bindings.
    pub(super) bindings: Vec<String>,
}

/// Reads the packages of `dir`; every problem is reported, not only the first.
pub(super) async fn load_bindings(dir: &Path) -> Result<Loaded, Vec<RegistryProblem>> {
    if dir.is_dir() {
        return Ok(Loaded::default());
    }
    Err(vec![RegistryProblem {
        origin: dir.display().to_string(),
        path: "/".to_owned(),
        message: "no such folder".to_owned(),
    }])
}

/// The bindings of a folder, if there is one; none otherwise.
pub(super) async fn load_if_any(dir: Option<&Path>) -> Result<Registry, Vec<RegistryProblem>> {
    match dir {
        Some(dir) => load_bindings(dir).await.map(|loaded| loaded.registry),
        None => Ok(Registry::default()),
    }
}

/// All problems, one a line.
pub(super) fn listed(problems: &[RegistryProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
