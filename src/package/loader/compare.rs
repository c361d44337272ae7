//! The declarations of a file, compared with what the package itself offers.

use super::file::Declared;
use super::problems::Problems;
use crate::binding::Binding;
use crate::catalog::CompiledSchemas;
use crate::protocol::declaration::Declaration;
use crate::schema::SchemaSource;

/// Adds to the bindings of a package their places in the file. If the file declares bindings, each of them must have a
/// handler and each handler a declaration.
pub(super) fn pair_with_declared(
    bindings: Vec<Binding>,
    declared: Option<&[Declared]>,
    problems: &mut Problems,
) -> Vec<(Binding, String)> {
    let Some(declared) = declared else {
        let place = |(at, binding)| (binding, format!("/bindings/{at}"));
        return bindings.into_iter().enumerate().map(place).collect();
    };
    let mut left = bindings;
    let mut paired: Vec<(Binding, String)> = Vec::new();
    for Declared { declaration, path, .. } in declared {
        let name = &declaration.name;
        match left.iter().position(|binding| binding.declaration.name == *name) {
            Some(at) => paired.push((left.swap_remove(at), path.clone())),
            // A second declaration of one name finds no handler either; the first one took it.
            None if paired.iter().any(|(other, _)| other.declaration.name == *name) => {
                problems.add(format!("{path}/name"), format!("`{name}` is declared twice"));
            }
            None => problems.add(format!("{path}/name"), format!("no handler for `{name}`")),
        }
    }
    for binding in left {
        problems.add("/bindings", format!("the handler `{}` is not declared", binding.declaration.name));
    }
    paired
}

/// Reports what is wrong with every schema of the file.
pub(super) fn check_schemas(declared: &[Declared], problems: &mut Problems) {
    for Declared { declaration, path, .. } in declared {
        if let Err(error) = CompiledSchemas::compile(declaration, SchemaSource::Executable) {
            problems.add(format!("{path}{}", error.path), error.message);
        }
    }
}

/// The file and the executable must agree: an operator reads the one, scripts call the other.
pub(super) fn compare_with_command(declared: &[Declared], offered: &[Declaration], problems: &mut Problems) {
    for Declared { declaration, path, .. } in declared {
        match offered.iter().find(|other| other.name == declaration.name) {
            Some(other) => {
                for field in differing_fields(declaration, other) {
                    let message = format!("the command declares `{}` differently", declaration.name);
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

/// Descriptions and hints may differ; schemas and effects are the contract.
fn differing_fields(ours: &Declaration, theirs: &Declaration) -> impl Iterator<Item = &'static str> {
    let differs = [
        ("input", ours.input != theirs.input),
        ("output", ours.output != theirs.output),
        ("effects", ours.effects != theirs.effects),
    ];
    differs.into_iter().filter_map(|(field, differs)| differs.then_some(field))
}
