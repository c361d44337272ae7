//! Packages from a folder: `DIR/*/declaration.json` and `DIR/*.json`, each with the handlers that it names.
//!
//! Loading goes on after a problem, so that an operator sees all of them at once, each with its file and JSON Pointer.
//! A folder with a problem is not half loaded: either everything is there, or nothing is.

mod bridge;
mod command;
mod config;
mod file;
mod problems;
mod process;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::binding::{
    Binding, BindingLimits, BindingPublisher, DeclarationProblem, Handler, Handlers, PackageBindings, Policy,
};
use crate::catalog::CompiledSchemas;
use crate::package::{PackageContext, PackageDef, PackageInstance};
use crate::peering::{Background, Mount};
use crate::protocol::declaration::Declaration;
use crate::schema::SchemaSource;
use command::Launch;
pub use command::{CommandError, CommandPackage};
use file::{Declared, PackageFile, Source};
use problems::Problems;

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
    /// What it says of itself.
    pub description: Option<String>,
    /// Its declaration file.
    pub origin: PathBuf,
    /// The names of its bindings.
    pub bindings: Vec<String>,
}

/// One declared binding with what runs it and where it stands in its file.
struct Ready {
    declaration: Declaration,
    limits: BindingLimits,
    handler: Arc<dyn Handler>,
    path: String,
}

/// Reads a folder and starts the executables in it; `"rust"` in a declaration names one of the `built_in` packages.
/// Must run inside a Tokio runtime that lives as long as they do.
pub async fn load(
    dir: &Path,
    env: &Environment,
    built_in: &[PackageDef],
) -> Result<Loaded, Vec<DeclarationProblem>> {
    let mut loaded = Loaded::default();
    let found = file::find(dir).map_err(|problem| vec![problem])?;
    let mut all = Vec::new();
    for path in &found.declarations {
        let mut problems = Problems::of(path);
        load_package(path, env, built_in, &mut loaded, &mut problems).await;
        all.extend(problems.into_vec());
    }
    loaded.services = found.services;
    if all.is_empty() { Ok(loaded) } else { Err(all) }
}

async fn load_package(
    path: &Path,
    env: &Environment,
    built_in: &[PackageDef],
    loaded: &mut Loaded,
    problems: &mut Problems,
) {
    let Some(package) = file::read(path, problems) else {
        return;
    };
    if let Some(earlier) = loaded.packages.iter().find(|other| other.name == package.name) {
        let message = format!("`{}` stands in {} already", package.name, earlier.origin.display());
        problems.add("/package", message);
    }
    let info = PackageInfo {
        name: package.name.clone(),
        description: package.description.clone(),
        origin: path.to_owned(),
        bindings: Vec::new(),
    };
    let ready = match &package.source {
        Source::Rust(name) => match find_built_in(built_in, name, problems) {
            Some(definition) => open_built_in(definition, path, &package, env, loaded, problems),
            None => Vec::new(),
        },
        Source::Command(_) => command(path, &package, env, &mut loaded.commands, problems).await,
    };
    let source = match &package.source {
        Source::Rust(_) => SchemaSource::Operator,
        Source::Command(_) => SchemaSource::Executable,
    };
    let bindings = register(ready, source, &loaded.handlers, problems);
    loaded.packages.push(PackageInfo { bindings, ..info });
}

fn folder_of(declaration: &Path) -> &Path {
    declaration.parent().unwrap_or(Path::new("."))
}

fn register(
    ready: Vec<Ready>,
    source: SchemaSource<'static>,
    handlers: &Arc<Handlers>,
    problems: &mut Problems,
) -> Vec<String> {
    let bindings = ready.into_iter().map(|ready| {
        let Ready { declaration, limits, handler, path } = ready;
        (Binding { declaration, limits, handler }, path)
    });
    let registration = handlers.add(PackageBindings {
        origin: problems.origin().to_owned(),
        source,
        bindings: bindings.collect(),
        publisher: BindingPublisher::default(),
    });
    registration.problems.into_iter().for_each(|problem| problems.push(problem));
    registration.names
}

fn find_built_in<'a>(
    built_in: &'a [PackageDef],
    name: &str,
    problems: &mut Problems,
) -> Option<&'a PackageDef> {
    let found = built_in.iter().find(|definition| definition.name == name);
    if found.is_none() {
        let known: Vec<&str> = built_in.iter().map(|definition| definition.name).collect();
        problems.add("/rust", format!("no built-in package `{name}`; expected one of {}", known.join(", ")));
    }
    found
}

fn open_built_in(
    definition: &PackageDef,
    path: &Path,
    package: &PackageFile,
    env: &Environment,
    loaded: &mut Loaded,
    problems: &mut Problems,
) -> Vec<Ready> {
    let own = own_declaration(definition, problems);
    let declared = match (&package.bindings, &own) {
        (Some(declared), _) => declared.clone(),
        (None, Some(own)) => own.bindings.clone().unwrap_or_default(),
        (None, None) => return Vec::new(),
    };
    let stated = package.config.as_ref().or(own.as_ref().and_then(|own| own.config.as_ref()));
    let schemas = [package.config_schema.as_ref(), own.as_ref().and_then(|own| own.config_schema.as_ref())];
    let Some(config) = config::checked(stated, schemas.into_iter().flatten(), env, problems) else {
        return Vec::new();
    };
    match (definition.open)(&PackageContext { config: &config, folder: folder_of(path) }) {
        Ok(PackageInstance { handlers, mounts, background, policies }) => {
            let place = |pointer| format!("{}: /config{pointer}/", problems.origin());
            let policies = policies.into_iter().map(|(pointer, policy)| (place(pointer), policy));
            loaded.policies.extend(policies);
            for mount in mounts {
                let same = |other: &Mount| other.listen == mount.listen && other.path == mount.path;
                if loaded.mounts.iter().any(same) {
                    problems.add("/config", format!("another package is reached at {} already", mount.path));
                } else {
                    loaded.mounts.push(mount);
                }
            }
            loaded.background.extend(background);
            matched(declared, handlers, problems)
        }
        Err(message) => {
            problems.add("/config", message);
            Vec::new()
        }
    }
}

/// The declaration that a built-in package brings along. It is read like any other: it is a file that people edit.
fn own_declaration(definition: &PackageDef, problems: &mut Problems) -> Option<PackageFile> {
    let mut own_problems = Problems::of(Path::new(&format!("<built-in {}>", definition.name)));
    let own = file::parse(definition.declaration, &mut own_problems);
    own_problems.into_vec().into_iter().for_each(|problem| problems.push(problem));
    own
}

/// Brings declarations and handlers together; each must have the other.
fn matched(
    declared: Vec<Declared>,
    mut handlers: Vec<(&'static str, Arc<dyn Handler>)>,
    problems: &mut Problems,
) -> Vec<Ready> {
    let mut ready = Vec::new();
    for Declared { declaration, limits, path } in declared {
        match handlers.iter().position(|(name, _)| *name == declaration.name) {
            Some(at) => {
                let (_, handler) = handlers.swap_remove(at);
                ready.push(Ready { declaration, limits, handler, path });
            }
            // A second declaration of one name finds no handler either; the first one took it.
            None if ready.iter().any(|other: &Ready| other.declaration.name == declaration.name) => {
                problems.add(format!("{path}/name"), format!("`{}` is declared twice", declaration.name));
            }
            None => problems.add(format!("{path}/name"), format!("no handler for `{}`", declaration.name)),
        }
    }
    for (name, _) in handlers {
        problems.add("/bindings", format!("the handler `{name}` is not declared"));
    }
    ready
}

async fn command(
    path: &Path,
    package: &PackageFile,
    env: &Environment,
    commands: &mut Vec<Arc<CommandPackage>>,
    problems: &mut Problems,
) -> Vec<Ready> {
    let schema = package.config_schema.as_ref();
    let config = config::checked(package.config.as_ref(), schema.into_iter(), env, problems);
    // Before the executable is started: what is wrong with the file is said of the file, whatever the other does of it.
    refuse_schemas(package.bindings.as_deref().unwrap_or_default(), problems);
    let Some(config) = config.filter(|_| problems.count() == 0) else {
        return Vec::new();
    };
    let Some(launch) = Launch::new(package, folder_of(path), env, config) else {
        return Vec::new();
    };
    match CommandPackage::start(launch).await {
        Ok(started) => {
            let started = Arc::new(started);
            commands.push(Arc::clone(&started));
            offered(&started, package.bindings.as_deref(), problems)
        }
        Err(error) => {
            problems.add("/command", error.to_string());
            Vec::new()
        }
    }
}

/// Says of every schema of the file what is wrong with it.
fn refuse_schemas(declared: &[Declared], problems: &mut Problems) {
    for Declared { declaration, path, .. } in declared {
        if let Err(error) = CompiledSchemas::compile(declaration, SchemaSource::Executable) {
            problems.add(format!("{path}{}", error.path), error.message);
        }
    }
}

/// The bindings of an executable, held against the declaration's list when there is one.
fn offered(
    package: &Arc<CommandPackage>,
    declared: Option<&[Declared]>,
    problems: &mut Problems,
) -> Vec<Ready> {
    let offered = match command::declarations(package.bindings()) {
        Ok(offered) => offered,
        Err(message) => {
            problems.add("/command", message);
            return Vec::new();
        }
    };
    let declared = match declared {
        Some(declared) => {
            compare(declared, &offered, problems);
            declared.to_vec()
        }
        None => offered.into_iter().map(|declaration| Declared::bare(declaration, "/command")).collect(),
    };
    let ready = |Declared { declaration, limits, path }| Ready {
        handler: package.handler(&declaration),
        declaration,
        limits,
        path,
    };
    declared.into_iter().map(ready).collect()
}

/// What the file says and what the executable says must be the same: an operator reads the one, scripts call the other.
fn compare(declared: &[Declared], offered: &[Declaration], problems: &mut Problems) {
    for Declared { declaration, path, .. } in declared {
        match offered.iter().find(|other| other.name == declaration.name) {
            Some(other) => {
                for field in differing_fields(declaration, other) {
                    let message = format!("the command says otherwise of `{}`", declaration.name);
                    problems.add(format!("{path}/{field}"), message);
                }
            }
            None => {
                let message = format!("the command does not offer `{}`", declaration.name);
                problems.add(format!("{path}/name"), message);
            }
        }
    }
    let is_declared = |name: &str| declared.iter().any(|one| one.declaration.name == name);
    for other in offered.iter().filter(|other| !is_declared(&other.name)) {
        problems.add("/bindings", format!("the command offers `{}`, which is not declared", other.name));
    }
}

/// Descriptions and hints are words; schemas and effects are the contract.
fn differing_fields(ours: &Declaration, theirs: &Declaration) -> impl Iterator<Item = &'static str> {
    let differs = [
        ("input", ours.input != theirs.input),
        ("output", ours.output != theirs.output),
        ("effects", ours.effects != theirs.effects),
    ];
    differs.into_iter().filter_map(|(field, differs)| differs.then_some(field))
}

#[cfg(test)]
mod tests;
