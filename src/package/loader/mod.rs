//! Packages from a folder: `DIR/*/declaration.json` and `DIR/*.json`, each with the handlers that it names.
//!
//! The packages are opened concurrently and registered in the order of their files. Loading goes on after a problem, so
//! that an operator sees all of them, each with its file and JSON Pointer. A folder with a problem is not half loaded:
//! either everything is there, or nothing is.

mod bridge;
mod command;
mod compare;
mod config;
mod file;
mod open;
mod problems;
mod process;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::binding::{DeclarationProblem, Handlers, PackageBindings, Policy};
use crate::package::PackageDef;
use crate::peering::{Background, Mount};
pub use command::{CommandError, CommandPackage};
use file::PackageFile;
use open::LoadedPackage;
use problems::Problems;

/// How long a package may take to open.
/// Longer than the handshake of an executable; a database or another server that takes more holds up every client.
pub const OPEN_TIME_MAX: Duration = Duration::from_secs(30);

/// The environment that configurations are filled from.
pub type Environment = HashMap<String, String>;

/// The environment of this process. What is not UTF-8 is left out: JSON cannot hold it.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What a folder holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All bindings of all packages.
    pub handlers: Arc<Handlers>,
    /// Where they come from.
    pub packages: Vec<PackageInfo>,
    /// `DIR/services/*.js` and `*.ts`, sorted: scripts that are to run for as long as the server does.
    pub services: Vec<PathBuf>,
    /// The executables that were started. They end when these handles and the handlers are gone.
    pub commands: Vec<Arc<CommandPackage>>,
    /// Where packages are reached from outside.
    pub mounts: Vec<Mount>,
    /// What packages do as long as the server runs.
    pub background: Vec<Background>,
    /// The policies in their configurations, each with its file and JSON Pointer.
    pub policies: Vec<(String, Policy)>,
}

/// One package, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageInfo {
    /// Its name.
    pub name: String,
    /// What its file says about it.
    pub description: Option<String>,
    /// Its declaration file.
    pub origin: PathBuf,
    /// The names of its bindings at the start.
    pub bindings: Vec<String>,
}

/// A declaration file with what was found wrong so far.
struct ReadFile<'a> {
    path: &'a Path,
    file: Option<PackageFile>,
    problems: Problems,
}

/// Reads a folder and opens the packages in it; `"rust"` in a declaration names one of the `built_in` packages.
/// Must run inside a Tokio runtime that lives as long as they do.
pub async fn load(
    dir: &Path,
    env: &Environment,
    built_in: &[PackageDef],
) -> Result<Loaded, Vec<DeclarationProblem>> {
    let found = file::find(dir).map_err(|problem| vec![problem])?;
    let opening = read_all(&found.declarations).into_iter().map(|read| open_in_time(read, env, built_in));
    let mut loaded = Loaded { services: found.services, ..Loaded::default() };
    let mut all = Vec::new();
    for (package, mut problems) in join_all(opening).await {
        if let Some(package) = package {
            loaded.add(package, &mut problems);
        }
        all.extend(problems.into_vec());
    }
    if all.is_empty() { Ok(loaded) } else { Err(all) }
}

/// Reads the files. Of two packages with one name, the second is a problem.
fn read_all(paths: &[PathBuf]) -> Vec<ReadFile<'_>> {
    let mut files: Vec<ReadFile<'_>> = Vec::new();
    for path in paths {
        let mut problems = Problems::of(path);
        let file = file::read(path, &mut problems);
        if let Some(name) = file.as_ref().map(|file| &file.name)
            && let Some(earlier) = files.iter().find(|other| other.name() == Some(name))
        {
            problems.add("/package", format!("`{name}` is already declared in {}", earlier.path.display()));
        }
        files.push(ReadFile { path, file, problems });
    }
    files
}

impl ReadFile<'_> {
    fn name(&self) -> Option<&String> {
        self.file.as_ref().map(|file| &file.name)
    }
}

async fn open_in_time(
    read: ReadFile<'_>,
    env: &Environment,
    built_in: &[PackageDef],
) -> (Option<LoadedPackage>, Problems) {
    let ReadFile { path, file, mut problems } = read;
    let Some(file) = file else { return (None, problems) };
    let opening = open::open(path, &file, env, built_in, &mut problems);
    let package = match tokio::time::timeout(OPEN_TIME_MAX, opening).await {
        Ok(package) => package,
        Err(_) => {
            problems.add("", format!("the package did not open within {} s", OPEN_TIME_MAX.as_secs()));
            None
        }
    };
    (package, problems)
}

impl Loaded {
    /// Registers a package that is open.
    fn add(&mut self, package: LoadedPackage, problems: &mut Problems) {
        let LoadedPackage { info, source, bindings, instance, publisher, command } = package;
        let place = |pointer| format!("{}: /config{pointer}/", problems.origin());
        self.policies.extend(instance.policies.into_iter().map(|(pointer, policy)| (place(pointer), policy)));
        for mount in instance.mounts {
            let is_same = |other: &Mount| other.listen == mount.listen && other.path == mount.path;
            if self.mounts.iter().any(is_same) {
                problems.add("/config", format!("another package is already mounted at {}", mount.path));
            } else {
                self.mounts.push(mount);
            }
        }
        self.background.extend(instance.background);
        self.commands.extend(command);
        let origin = problems.origin().to_owned();
        let registration = self.handlers.add(PackageBindings { origin, source, bindings, publisher });
        registration.problems.into_iter().for_each(|problem| problems.push(problem));
        self.packages.push(PackageInfo { bindings: registration.names, ..info });
    }
}

#[cfg(test)]
mod tests;
