//! Flags and subcommands. What they mean is with the command that takes them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use scomp::server::settings::{Isolation, Strictness};

const EXAMPLES: &str = "\
Examples:
  scomp-serve --bindings ./bindings             serve on ws://127.0.0.1:7400
  scomp-serve --listen 127.0.0.1:0              let the system choose the port
  scomp-serve --mcp mcp.json                    the tools of MCP servers as bindings
  scomp-serve --stdio                           one session over stdin and stdout
  scomp-serve eval -e '1 + 1'                   evaluate, without a server
  scomp-serve eval --url ws://127.0.0.1:7400 job.ts
  scomp-serve repl                              evaluate line by line
  scomp-serve check --bindings ./bindings       what is offered, and what is wrong
  scomp-serve config default > scomp.toml       a settings file with every key explained
  scomp-serve config show --config scomp.toml   the settings in effect, and where each comes from
  scomp-serve types --bindings ./bindings       TypeScript declarations of all bindings
  scomp-serve mcp --bindings ./bindings         code mode for an MCP client, over stdin and stdout

Settings come from flags, then SCOMP_* variables, then the file of --config, then defaults:
  SCOMP_LISTEN, SCOMP_BINDINGS, SCOMP_SHARDS, SCOMP_DRAIN_MS, SCOMP_LIMITS_CPU_MS_MAX, …
SCOMP_LOG sets what is logged to stderr, for example SCOMP_LOG=info,scomp=debug.

Exit codes: 0 all is well; 1 the eval failed, problems were found, or running failed; 2 wrong usage or settings.";

/// The version, with the commit that a release build was made from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SCOMP_COMMIT_SUFFIX"));

/// An eval server for agent harnesses: JavaScript in QuickJS sessions, typed bindings, one WebSocket.
#[derive(Debug, Parser)]
#[command(name = "scomp-serve", version = VERSION, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Evaluate code and print its value
    Eval(EvalArgs),
    /// Evaluate line by line
    Repl(ReplArgs),
    /// List the bindings, and everything that would keep the server from starting
    Check(CheckArgs),
    /// Print settings: the defaults, those in effect, or their JSON Schema
    Config(ConfigArgs),
    /// Print TypeScript declarations of all bindings
    Types(TypesArgs),
    /// Serve an MCP client over stdin and stdout
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
    /// Ask a server whether it is ready; for health checks
    Health(HealthArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

#[derive(Debug, Clone, Args)]
pub(super) struct SettingsArgs {
    /// Folder of the binding packages
    #[arg(long, value_name = "DIR")]
    pub(super) bindings: Option<PathBuf>,
    /// MCP servers as packages: a file with `{"mcpServers": {…}}`; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) mcp: Vec<PathBuf>,
    /// Settings file (TOML)
    #[arg(long, value_name = "FILE", env = "SCOMP_CONFIG")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// Address and port to listen on; port 0 lets the system choose [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,
    /// Folder in which sessions survive a restart of the server
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Serve stdin and stdout, one message per line, instead of listening
    #[arg(long)]
    pub(super) stdio: bool,
    /// Which sessions share a process: all, with the server (thread), those of one principal, or none (session)
    #[arg(long, value_name = "thread|principal|session", value_parser = parse_name::<Isolation>)]
    pub(super) isolation: Option<Isolation>,
    /// Whether the server starts where worker processes cannot be walled off (best-effort) or not (enforce)
    #[arg(long, value_name = "enforce|best-effort", value_parser = parse_name::<Strictness>)]
    pub(super) sandbox: Option<Strictness>,
}

/// Reads a value by its name in the settings file.
fn parse_name<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    /// Server to connect to, ws://… or wss://…
    #[arg(long, value_name = "URL", env = "SCOMP_URL")]
    pub(super) url: Option<String>,
    /// Bearer token for the server
    #[arg(long, value_name = "TOKEN", env = "SCOMP_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Without --url the code runs in a server inside this program.")]
pub(super) struct EvalArgs {
    /// The code itself
    #[arg(
        short = 'e',
        long = "eval",
        value_name = "CODE",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    pub(super) code: Option<String>,
    /// File with the code; `-`, or nothing, is stdin
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    /// Print the value in its wire form, as JSON; the console goes to stderr
    #[arg(long)]
    pub(super) json: bool,
    /// End the eval after so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) timeout_ms: Option<u64>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --url it looks for a server at ws://127.0.0.1:7400, and otherwise starts its own."
)]
pub(super) struct ReplArgs {
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    pub(super) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// A settings file with every key, its meaning and its default, as comments
    Default,
    /// The settings in effect, each with where it comes from
    Show(ServeArgs),
    /// The JSON Schema of a settings file, for editors
    Schema,
}

#[derive(Debug, Args)]
#[command(after_help = "Without --url the server of the settings is asked, on this machine.")]
pub(super) struct HealthArgs {
    /// Server to ask, http://… or https://…
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct TypesArgs {
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    /// Only the bindings of this namespace, or the one of this name; may be given several times
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) only: Vec<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
#[command(
    after_help = "The client is to start it, with `scomp-serve mcp --bindings DIR` as its command. Over HTTP: /mcp of the server."
)]
pub(super) struct McpArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn code_and_file_exclude_each_other() {
        assert!(Arguments::try_parse_from(["scomp-serve", "eval", "-e", "1", "x.js"]).is_err());
        assert!(Arguments::try_parse_from(["scomp-serve", "eval", "-e", "-1"]).is_ok());
        assert!(Arguments::try_parse_from(["scomp-serve", "eval", "-"]).is_ok());
    }
}
