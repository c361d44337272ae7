//! The bindings of the settings, as the commands see them.

use scomp::binding::DeclarationProblem;
use scomp::config::Settings;
use scomp::package::loader::{self, Loaded, Sources};

/// Opens the packages that the settings name, if any; every problem is reported, not only the first.
pub(super) async fn load(settings: &Settings) -> Result<Loaded, Vec<DeclarationProblem>> {
    let sources = Sources { folder: settings.bindings.as_deref(), mcp_files: &settings.mcp_files };
    loader::load_sources(sources, &loader::environment(), scomp::bindings::BUILT_IN).await
}

/// All problems, one per line.
pub(super) fn join_problems(problems: &[DeclarationProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
