//! `scomp-serve types`: TypeScript declarations of all bindings, for a model or an editor.

use scomp::catalog::typescript;
use scomp::config::Overrides;

use super::args::TypesArgs;
use super::{Failure, bindings, output};

/// Prints the declarations.
pub(super) async fn run(args: &TypesArgs) -> Result<(), Failure> {
    let settings = args.settings.load(Overrides::default())?;
    let loaded = bindings::load(&settings)
        .await
        .map_err(|problems| Failure::Run(bindings::join_problems(&problems)))?;
    let catalog = loaded.handlers.catalog();
    output::print(&typescript::declarations(catalog.iter().map(|entry| &entry.declaration)))
}
