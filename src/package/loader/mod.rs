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
mod mcp_file;
mod open;
mod problems;
pub(crate) mod process;
pub(crate) mod reload;
pub(crate) mod stderr;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::binding::{DeclarationProblem, Handlers, PackageBindings, Policy};
use crate::package::{PackageDef, UnmappedItem};
use crate::peering::{Background, Mount};
pub use command::{CommandError, CommandPackage};
use file::PackageFile;
use open::LoadedPackage;
use problems::Problems;
use reload::LivePackage;
pub use reload::Reloaded;

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
    /// What is compared when the files are read anew.
    pub(crate) live: Vec<LivePackage>,
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
    /// What the other side offers and the package cannot.
    pub unmapped: Vec<UnmappedItem>,
    /// What became a binding, but not quite as the other side has it.
    pub notes: Vec<UnmappedItem>,
}

/// A declaration file with what was found wrong so far.
struct ReadFile<'a> {
    path: &'a Path,
    file: Option<PackageFile>,
    problems: Problems,
}

/// Where packages are declared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The folder of declaration files.
    pub folder: Option<&'a Path>,
    /// Files in the form of `mcp.json`: `{"mcpServers": {…}}`, each server a package.
    pub mcp_files: &'a [PathBuf],
}

/// Reads a folder and opens the packages in it; `"rust"` in a declaration names one of the `built_in` packages.
/// Must run inside a Tokio runtime that lives as long as they do.
pub async fn load(
    dir: &Path,
    env: &Environment,
    built_in: &[PackageDef],
) -> Result<Loaded, Vec<DeclarationProblem>> {
    load_sources(Sources { folder: Some(dir), mcp_files: &[] }, env, built_in).await
}

/// Like [`load`], from everything that declares packages.
pub async fn load_sources(
    sources: Sources<'_>,
    env: &Environment,
    built_in: &[PackageDef],
) -> Result<Loaded, Vec<DeclarationProblem>> {
    let found = match sources.folder {
        Some(folder) => file::find(folder).map_err(|problem| vec![problem])?,
        None => file::Found::default(),
    };
    let files = read_all(&found.declarations, sources.mcp_files);
    let opening = files.into_iter().map(|read| open_in_time(read, env, built_in));
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

/// The service scripts of a folder, sorted; none if it cannot be read.
pub fn services_in(folder: &Path) -> Vec<PathBuf> {
    file::find(folder).map(|found| found.services).unwrap_or_default()
}

/// Reads the files. Of two packages with one name, the second is a problem.
fn read_all<'a>(declarations: &'a [PathBuf], mcp_files: &'a [PathBuf]) -> Vec<ReadFile<'a>> {
    let mut read: Vec<ReadFile<'_>> = Vec::new();
    for path in declarations {
        let mut problems = Problems::of(path);
        let file = file::read(path, &mut problems);
        read.push(ReadFile { path, file, problems });
    }
    for path in mcp_files {
        let servers = mcp_file::read(path).into_iter();
        read.extend(servers.map(|(file, problems)| ReadFile { path, file, problems }));
    }
    for at in 1..read.len() {
        let (earlier, later) = read.split_at_mut(at);
        if let Some(one) = later.first_mut()
            && let Some(file) = &one.file
            && let Some(same) = earlier.iter().find(|other| other.name() == Some(&file.name))
        {
            let message = format!("`{}` is already declared in {}", file.name, same.path.display());
            one.problems.add(file.name_place(), message);
        }
    }
    read
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
        self.live.push(LivePackage::new(&package));
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
