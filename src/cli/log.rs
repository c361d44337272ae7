//! The log, on stderr: for people or for programs.

use std::io::IsTerminal;

use scomp::config::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

use super::Failure;

/// Variables with directives such as `info,scomp=debug`; the first that is set wins over the settings.
const FILTER_VARIABLES: [&str; 2] = ["SCOMP_LOG", "RUST_LOG"];

/// Starts the log.
pub(super) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let from_variable = FILTER_VARIABLES.iter().find_map(|variable| {
        let directives = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
        Some((*variable, directives))
    });
    let (origin, directives) = from_variable.unwrap_or_else(|| ("log.level", settings.level.clone()));
    let filter = EnvFilter::try_new(&directives)
        .map_err(|error| Failure::Usage(format!("{origin}: {directives:?}: {error}")))?;
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter);
    match settings.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// Starts the log of a command whose output is for people: by default it says only what went wrong.
pub(super) fn start_quietly(settings: &LogSettings) -> Result<(), Failure> {
    let is_default = *settings == LogSettings::default();
    let level = if is_default { "warn" } else { &settings.level };
    start(&LogSettings { format: settings.format, level: level.to_owned() })
}
