//! Reads the declaration files of a running server anew and replaces the packages that changed.
//!
//! A package changed if its declaration file did, or, of an executable, a file beside it in a folder of its own. Either all files are right and every change applies, or nothing does. A package that is reached from outside, or
//! that works beside the sessions, is tied to the server's start: its change is reported and waits for a restart.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::join_all;

use super::open::LoadedPackage;
use super::{CommandPackage, Environment, ReadFile, Sources, file, open_in_time, read_all};
use crate::binding::{BindingPublisher, DeclarationProblem, Handlers, PackageBindings};
use crate::package::PackageDef;

/// Files beside a declaration that are looked at. A folder with more has a package manager, and a lock file among the first.
const FILES_LOOKED_AT_MAX: usize = 256;

/// A package that is registered.
#[derive(Debug)]
pub(crate) struct LivePackage {
    name: String,
    origin: PathBuf,
    fingerprint: u64,
    publisher: BindingPublisher,
    command: Option<Arc<CommandPackage>>,
    /// Tied to the start of the server.
    is_fixed: bool,
}

/// What a reload did, by the names of packages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// New ones.
    pub added: Vec<String>,
    /// Those that were replaced.
    pub changed: Vec<String>,
    /// Those whose files are gone.
    pub removed: Vec<String>,
    /// Those that changed and need a restart of the server.
    pub waiting: Vec<String>,
}

impl LivePackage {
    pub(super) fn new(package: &LoadedPackage) -> Self {
        let instance = &package.instance;
        Self {
            name: package.info.name.clone(),
            origin: package.info.origin.clone(),
            fingerprint: fingerprint(&package.info.origin, package.command.is_some()),
            publisher: package.publisher.clone(),
            command: package.command.clone(),
            is_fixed: !instance.mounts.is_empty()
                || !instance.background.is_empty()
                || !instance.policies.is_empty(),
        }
    }

    fn is_of(&self, read: &ReadFile<'_>) -> bool {
        self.origin == read.path && read.name() == Some(&self.name)
    }
}

/// What a package is made of, in a number: the text of its file, and, of an executable, the times of the files beside it. What
/// lies beside a built-in package is its data.
fn fingerprint(declaration: &Path, is_executable: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read(declaration).ok().hash(&mut hasher);
    if is_executable
        && declaration.file_name().is_some_and(|name| name == "declaration.json")
        && let Some(folder) = declaration.parent()
        && let Ok(entries) = std::fs::read_dir(folder)
    {
        let modified = |entry: std::fs::DirEntry| -> Option<(PathBuf, u64, SystemTime)> {
            let found = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((entry.path(), found.len(), found.modified().ok()?))
        };
        let mut files: Vec<_> = entries.flatten().take(FILES_LOOKED_AT_MAX).filter_map(modified).collect();
        files.sort();
        files.hash(&mut hasher);
    }
    hasher.finish()
}

/// Replaces what changed. On an error nothing has changed.
pub(crate) async fn reload(
    live: &mut Vec<LivePackage>,
    handlers: &Arc<Handlers>,
    sources: Sources<'_>,
    env: &Environment,
    built_in: &[PackageDef],
) -> Result<Reloaded, Vec<DeclarationProblem>> {
    let found = match sources.folder {
        Some(folder) => file::find(folder).map_err(|problem| vec![problem])?,
        None => file::Found::default(),
    };
    let files = read_all(&found.declarations, sources.mcp_files);
    let (mut reloaded, mut opening) = (Reloaded::default(), Vec::new());
    let mut gone: Vec<usize> = (0..live.len()).collect();
    for read in files {
        let Some(at) = live.iter().position(|package| package.is_of(&read)) else {
            opening.push((None, read));
            continue;
        };
        gone.retain(|index| *index != at);
        let is_same = live
            .get(at)
            .is_some_and(|package| package.fingerprint == fingerprint(read.path, package.command.is_some()));
        match live.get(at) {
            Some(package) if !is_same && package.is_fixed => reloaded.waiting.push(package.name.clone()),
            Some(_) if !is_same => opening.push((Some(at), read)),
            Some(_) | None => {}
        }
    }
    let opened = join_all(opening.into_iter().map(|(at, read)| async move {
        let (package, problems) = open_in_time(read, env, built_in).await;
        (at, package, problems.into_vec())
    }))
    .await;
    let problems: Vec<_> = opened.iter().flat_map(|(_, _, problems)| problems.clone()).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    for (at, package) in opened.into_iter().filter_map(|(at, package, _)| Some((at, package?))) {
        put_in(live, handlers, at, package, &mut reloaded);
    }
    remove(live, handlers, &gone, &mut reloaded);
    Ok(reloaded)
}

fn put_in(
    live: &mut Vec<LivePackage>,
    handlers: &Arc<Handlers>,
    at: Option<usize>,
    package: LoadedPackage,
    reloaded: &mut Reloaded,
) {
    let now = LivePackage::new(&package);
    let name = now.name.clone();
    if now.is_fixed {
        return reloaded.waiting.push(name);
    }
    let LoadedPackage { source, bindings, publisher, .. } = package;
    let bindings = PackageBindings { origin: now.origin.display().to_string(), source, bindings, publisher };
    let registration = match at.and_then(|at| live.get_mut(at)) {
        Some(before) => {
            let registration = handlers.supersede(&before.publisher, bindings);
            *before = now;
            reloaded.changed.push(name);
            registration
        }
        None => {
            let registration = handlers.add(bindings);
            live.push(now);
            reloaded.added.push(name);
            registration
        }
    };
    for problem in registration.problems {
        tracing::error!("a binding is refused: {problem}");
    }
}

fn remove(live: &mut Vec<LivePackage>, handlers: &Arc<Handlers>, gone: &[usize], reloaded: &mut Reloaded) {
    // From the last on, so that the places of the others stay.
    for at in gone.iter().rev() {
        match live.get(*at) {
            Some(package) if package.is_fixed => reloaded.waiting.push(package.name.clone()),
            Some(_) => {
                let package = live.remove(*at);
                let none = PackageBindings {
                    origin: package.origin.display().to_string(),
                    source: crate::schema::SchemaSource::Operator,
                    bindings: Vec::new(),
                    publisher: BindingPublisher::default(),
                };
                handlers.supersede(&package.publisher, none);
                reloaded.removed.push(package.name);
            }
            None => {}
        }
    }
}

/// The executables behind packages.
pub(crate) fn commands(live: &[LivePackage]) -> Vec<Arc<CommandPackage>> {
    live.iter().filter_map(|package| package.command.clone()).collect()
}
