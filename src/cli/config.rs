//! `scomp-serve config`: a settings file to begin with, the settings in effect, and their schema.

use super::args::{ConfigArgs, ConfigCommand};
use super::{Failure, output};

/// Prints what was asked for.
pub(super) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    match &args.command {
        ConfigCommand::Default => output::print(&scomp::config::default_file()),
        ConfigCommand::Schema => output::print_line(&format!("{:#}", scomp::config::json_schema())),
        ConfigCommand::Show(serve) => {
            let loaded = serve.settings.load_all(serve.overrides());
            super::print_warnings(&loaded.warnings);
            if !loaded.problems.is_empty() {
                return Err(scomp::config::ConfigError(loaded.problems).into());
            }
            output::print(&loaded.show())
        }
    }
}
