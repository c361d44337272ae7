//! The command line: its commands and their exit codes.
//!
//! 0: success. 1: the eval failed, the check found problems, an error occurred while running, or a stop had to be
//! forced. 2: the command line or the settings are wrong. Only results go to stdout; everything else goes to stderr.

mod args;
mod bindings;
mod check;
mod config;
mod connect;
mod eval;
mod health;
mod inspect;
pub(crate) mod log;
mod output;
mod reload;
mod repl;
mod report;
mod serve;
mod service_manager;
mod shell;
mod signals;
mod stop_guard;
mod types;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use scomp::config::{ConfigError, LoadedSettings, Overrides, Problem, Settings};

/// Why a command exits with a code other than 0.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command line or the settings are wrong.
    #[error("{0}")]
    Usage(String),
    /// Something went wrong while running.
    #[error("{0}")]
    Run(String),
    /// The error has been printed already.
    #[error("failed")]
    Reported,
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Run(_) | Self::Reported => 1,
        }
    }
}

/// Runs the command of the command line.
pub(crate) async fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        None => serve::run(&arguments.serve).await,
        Some(Command::Eval(eval)) => eval::run(&eval).await,
        Some(Command::Repl(repl)) => repl::run(&repl).await,
        Some(Command::Check(check)) => check::run(&check).await,
        Some(Command::Config(config)) => config::run(&config),
        Some(Command::Types(types)) => types::run(&types).await,
        #[cfg(feature = "mcp")]
        Some(Command::Mcp(mcp)) => serve::run_mcp(&mcp).await,
        Some(Command::Health(health)) => health::run(&health).await,
        Some(Command::Completions(completions)) => shell::completions(completions.shell),
        Some(Command::Man) => shell::manual(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Reported) {
                log::report(&format!("scomp-serve: {failure}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

impl args::SettingsArgs {
    /// The settings from the file, the environment and the command line, without those that are wrong.
    fn load_all(&self, overrides: Overrides) -> LoadedSettings {
        let overrides =
            Overrides { bindings: self.bindings.clone(), mcp_files: self.mcp.clone(), ..overrides };
        // A variable that is not Unicode cannot be a setting.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        LoadedSettings::load(self.config.as_deref(), environment, overrides)
    }

    /// The settings, unless something is wrong with them. Warnings are printed.
    fn load(&self, overrides: Overrides) -> Result<Settings, Failure> {
        let loaded = self.load_all(overrides);
        print_warnings(&loaded.warnings);
        Ok(loaded.into_settings()?)
    }
}

impl args::ServeArgs {
    fn overrides(&self) -> Overrides {
        let (listen, state) = (self.listen.clone(), self.state.clone());
        Overrides {
            listen,
            state,
            stdio: self.stdio,
            isolation: self.isolation,
            sandbox: self.sandbox,
            ..Overrides::default()
        }
    }
}

fn print_warnings(warnings: &[Problem]) {
    for warning in warnings {
        log::report(&format!("warning: {warning}"));
    }
}
