//! Opens one package of a folder: a built-in one with its checked configuration, or an executable.
//!
//! Either way the result is bindings with their declarations. Those of a built-in package are declared in its file or come
//! from the package itself; those of an executable come from its handshake.

use std::path::Path;
use std::sync::Arc;

use super::command::{self, CommandPackage, Launch};
use super::compare::{check_schemas, compare_with_command, pair_with_declared};
use super::config::{self, FilledConfig};
use super::file::{self, Declared, PackageFile, Source};
use super::problems::Problems;
use super::{Environment, PackageInfo};
use crate::binding::{Binding, BindingPublisher};
use crate::package::{PackageContext, PackageDef, PackageInstance};
use crate::schema::SchemaSource;

/// A package that is open but not registered.
pub(super) struct LoadedPackage {
    pub(super) info: PackageInfo,
    pub(super) source: SchemaSource<'static>,
    /// Each with the place of its declaration in the file.
    pub(super) bindings: Vec<(Binding, String)>,
    /// The rest of it.
    pub(super) instance: PackageInstance,
    pub(super) publisher: BindingPublisher,
    /// The executable behind it.
    pub(super) command: Option<Arc<CommandPackage>>,
}

impl LoadedPackage {
    fn new(path: &Path, file: &PackageFile, source: SchemaSource<'static>) -> Self {
        let info = PackageInfo {
            name: file.name.clone(),
            description: file.description.clone(),
            origin: path.to_owned(),
            bindings: Vec::new(),
            unmapped: Vec::new(),
            notes: Vec::new(),
        };
        Self {
            info,
            source,
            bindings: Vec::new(),
            instance: PackageInstance::default(),
            publisher: BindingPublisher::default(),
            command: None,
        }
    }
}

/// Opens the package of a file; `None` if there is something wrong with it.
pub(super) async fn open(
    path: &Path,
    file: &PackageFile,
    env: &Environment,
    built_in: &[PackageDef],
    problems: &mut Problems,
) -> Option<LoadedPackage> {
    match &file.source {
        Source::Rust(name) => {
            let definition = find_built_in(built_in, name, problems)?;
            let package = LoadedPackage::new(path, file, SchemaSource::Operator);
            open_built_in(definition, file, env, package, problems).await
        }
        Source::Connector(name) => {
            let Some(definition) = built_in.iter().find(|definition| definition.name == *name) else {
                problems.add(format!("/{name}"), format!("this program was built without `{name}`"));
                return None;
            };
            // What is declared comes from the other side, which makes mistakes that the operator cannot mend.
            let package = LoadedPackage::new(path, file, SchemaSource::Executable);
            open_built_in(definition, file, env, package, problems).await
        }
        Source::Command(_) => {
            let package = LoadedPackage::new(path, file, SchemaSource::Executable);
            start_command(file, env, package, problems).await
        }
    }
}

fn folder_of(declaration: &Path) -> &Path {
    declaration.parent().unwrap_or(Path::new("."))
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

async fn open_built_in(
    definition: &PackageDef,
    file: &PackageFile,
    env: &Environment,
    mut package: LoadedPackage,
    problems: &mut Problems,
) -> Option<LoadedPackage> {
    let own = own_declaration(definition, problems);
    let declared = match (&file.bindings, &own) {
        (Some(declared), _) => Some(declared.clone()),
        (None, Some(own)) => own.bindings.clone(),
        (None, None) => return None,
    };
    let stated = file.config.as_ref().or(own.as_ref().and_then(|own| own.config.as_ref()));
    let schemas = [file.config_schema.as_ref(), own.as_ref().and_then(|own| own.config_schema.as_ref())];
    let place = file.config_place();
    let FilledConfig { value, secrets } =
        config::checked(stated, &place, schemas.into_iter().flatten(), env, problems)?;
    let of_context = |one: &Declared| (one.declaration.clone(), one.limits.clone());
    let context = PackageContext {
        package: file.name.clone(),
        config: value,
        secrets,
        folder: folder_of(&package.info.origin).to_owned(),
        declared: declared.iter().flatten().map(of_context).collect(),
        bindings: package.publisher.clone(),
    };
    match (definition.open)(context).await {
        Ok(mut instance) => {
            let bindings = std::mem::take(&mut instance.bindings);
            package.bindings = pair_with_declared(bindings, declared.as_deref(), problems);
            package.info.unmapped = std::mem::take(&mut instance.unmapped);
            package.info.notes = std::mem::take(&mut instance.notes);
            package.instance = instance;
            Some(package)
        }
        Err(message) => {
            problems.add(place, message);
            None
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

async fn start_command(
    file: &PackageFile,
    env: &Environment,
    mut package: LoadedPackage,
    problems: &mut Problems,
) -> Option<LoadedPackage> {
    let schema = file.config_schema.as_ref();
    let config = config::checked(file.config.as_ref(), "/config", schema.into_iter(), env, problems);
    // Before the executable is started: what is wrong with the file is reported for the file, whatever the executable says.
    check_schemas(file.bindings.as_deref().unwrap_or_default(), problems);
    let config = config.filter(|_| problems.count() == 0)?;
    let launch = Launch::new(file, folder_of(&package.info.origin), env, config)?;
    match CommandPackage::start(launch).await {
        Ok(started) => {
            let started = Arc::new(started);
            package.bindings = bindings_of_command(&started, file.bindings.as_deref(), problems);
            package.command = Some(started);
            Some(package)
        }
        Err(error) => {
            problems.add("/command", error.to_string());
            None
        }
    }
}

/// The bindings of an executable, compared with the file's list if there is one.
fn bindings_of_command(
    package: &Arc<CommandPackage>,
    declared: Option<&[Declared]>,
    problems: &mut Problems,
) -> Vec<(Binding, String)> {
    let offered = match command::declarations(package.bindings()) {
        Ok(offered) => offered,
        Err(message) => {
            problems.add("/command", message);
            return Vec::new();
        }
    };
    let declared = match declared {
        Some(declared) => {
            compare_with_command(declared, &offered, problems);
            declared.to_vec()
        }
        None => offered.into_iter().map(|declaration| Declared::bare(declaration, "/command")).collect(),
    };
    let bind = |Declared { declaration, limits, path }| {
        (Binding { handler: package.handler(&declaration), declaration, limits }, path)
    };
    declared.into_iter().map(bind).collect()
}
