//! The operator's settings: a TOML file, then `SCOMP_*` variables, then flags; the later one wins.
//!
//! One struct holds them all and refuses unknown keys, so a typing error is found at start. Its doc comments are the
//! documentation of the settings, and what reads, shows and documents them goes by its fields: a new setting is a field.

mod check;
mod default_file;
mod environment;
mod json_schema;
mod load;
mod reference;
mod show;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use default_file::default_file;
pub use json_schema::json_schema;
pub use load::{ConfigError, LoadedSettings};
pub use reference::reference;

use crate::limits::Limits;
use crate::quota::Quotas;
use crate::server::settings::{
    AuditSettings, AuthSettings, Isolation, OriginSettings, ServerSettings, StateSettings, Strictness,
    TlsSettings, WorkerSettings,
};
use crate::server::shards;
use crate::sessions::SessionSettings;
use crate::settings_file::{Field, fields_of};
pub use crate::settings_file::{Problem, Source};

/// Where to listen by default: this machine only.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7400";

/// How long running evals get when the server stops, in milliseconds.
const DRAIN_MS_DEFAULT: u64 = 10_000;

/// All settings of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Address and port; port 0 lets the system choose.
    pub listen: String,
    /// The folder of the binding packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-path" = true, "x-example" = "bindings"))]
    pub bindings: Option<PathBuf>,
    /// Files in the form of `mcp.json`: each server in them is a package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-path" = true, "x-example" = ["mcp.json"]))]
    pub mcp_files: Vec<PathBuf>,
    /// Whether to serve stdin and stdout instead of a socket.
    pub stdio: bool,
    /// How many threads run scripts, 1 to 1024.
    #[schemars(extend("x-default" = "as many as there are cores", "x-example" = 4))]
    pub shards: usize,
    /// How long running evals get when the server stops, in milliseconds.
    pub drain_ms: u64,
    /// The limits of sessions and connections.
    pub limits: Limits,
    /// How long sessions live and how many there may be.
    pub sessions: SessionSettings,
    /// Which sessions share a process: `thread` (all, with the server), `principal` (those of one principal), `session` (none).
    pub isolation: Isolation,
    /// What happens where the system cannot wall a worker process off: `enforce` (the server does not start) or
    /// `best-effort`.
    pub sandbox: Strictness,
    /// The worker processes.
    pub workers: WorkerSettings,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Who may connect.
    pub auth: AuthSettings,
    /// Which web pages may connect.
    pub origins: OriginSettings,
    /// How much a principal may use unless its token says otherwise.
    pub quotas: Quotas,
    /// The certificate, to serve `wss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSettings>,
    /// The audit log.
    pub audit: AuditSettings,
    /// The server as a whole.
    pub server: ServerSettings,
    /// Code mode for MCP clients.
    #[cfg(feature = "mcp")]
    pub mcp: crate::server::settings::McpSettings,
    /// Where sessions are kept beyond the life of the server.
    pub state: StateSettings,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// The form of a line: `text` for people, or `json` for programs, one object a line.
    pub format: LogFormat,
    /// A level, or directives such as `info,scomp=debug`. `SCOMP_LOG` and `RUST_LOG` win over it.
    pub level: String,
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

/// Settings from the command line.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// See [`Settings::listen`].
    pub listen: Option<String>,
    /// See [`Settings::bindings`].
    pub bindings: Option<PathBuf>,
    /// See [`Settings::mcp_files`]; replaces those of the file.
    pub mcp_files: Vec<PathBuf>,
    /// See [`StateSettings::dir`].
    pub state: Option<PathBuf>,
    /// See [`Settings::stdio`]; a flag can only turn it on.
    pub stdio: bool,
    /// See [`Settings::isolation`].
    pub isolation: Option<Isolation>,
    /// See [`Settings::sandbox`].
    pub sandbox: Option<Strictness>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: LISTEN_DEFAULT.to_owned(),
            bindings: None,
            mcp_files: Vec::new(),
            stdio: false,
            shards: shards::default_count(),
            drain_ms: DRAIN_MS_DEFAULT,
            limits: Limits::default(),
            sessions: SessionSettings::default(),
            isolation: Isolation::default(),
            sandbox: Strictness::default(),
            workers: WorkerSettings::default(),
            log: LogSettings::default(),
            auth: AuthSettings::default(),
            origins: OriginSettings::default(),
            quotas: Quotas::default(),
            tls: None,
            audit: AuditSettings::default(),
            server: ServerSettings::default(),
            #[cfg(feature = "mcp")]
            mcp: crate::server::settings::McpSettings::default(),
            state: StateSettings::default(),
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

impl Settings {
    /// Merges the layers: defaults, the file, the environment, the command line.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        overrides: Overrides,
    ) -> Result<Self, ConfigError> {
        LoadedSettings::load(file, environment, overrides).into_settings()
    }

    /// Whether clients have to authenticate. A token file without tokens is an error at start.
    pub fn demands_authentication(&self) -> bool {
        !self.auth.tokens.is_empty() || self.auth.file.is_some()
    }
}

/// Every setting.
pub(crate) fn fields() -> Vec<Field> {
    fields_of::<Settings>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn file(test: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("scomp-config-{test}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn settings_without_layers_are_the_defaults() {
        let settings = Settings::load(None, [], Overrides::default()).unwrap();
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.listen, "127.0.0.1:7400");
    }

    #[test]
    fn later_layers_override_earlier_ones() {
        let file =
            file("order", "listen = '127.0.0.1:1'\ndrain_ms = 1\nshards = 3\n[limits]\ncpu_ms_max = 7\n");
        let environment = variables(&[("SCOMP_LISTEN", "127.0.0.1:2"), ("SCOMP_DRAIN_MS", "2")]);
        let overrides = Overrides { listen: Some("127.0.0.1:3".to_owned()), ..Overrides::default() };
        let settings = Settings::load(Some(&file), environment, overrides).unwrap();
        assert_eq!((settings.listen.as_str(), settings.drain_ms), ("127.0.0.1:3", 2));
        assert_eq!((settings.shards, settings.limits.cpu_ms_max), (3, 7));
        assert_eq!(settings.limits.wall_ms_max, Limits::default().wall_ms_max);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn unknown_key_is_named_with_its_file() {
        for (text, key) in [("lisen = 'x'\n", "lisen"), ("[limits]\ncpu_max = 1\n", "cpu_max")] {
            let file = file(key, text);
            let message = Settings::load(Some(&file), [], Overrides::default()).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains(&*file.to_string_lossy()), "{message}");
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn value_of_the_wrong_type_is_shown_with_its_line() {
        let file = file("type", "[limits]\ncpu_ms_max = 'many'\n");
        let message = Settings::load(Some(&file), [], Overrides::default()).unwrap_err().to_string();
        let expected = format!("{}:2: limits.cpu_ms_max: expected a number of milliseconds", file.display());
        assert!(message.starts_with(&expected), "{message}");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn duration_and_size_may_have_a_unit() {
        let file = file("units", "drain_ms = '5s'\n[limits]\nmemory_bytes_max = '32MiB'\n");
        let environment =
            variables(&[("SCOMP_LIMITS_WALL_MS_MAX", "2min"), ("SCOMP_LIMITS_CPU_MS_MAX", "9")]);
        let settings = Settings::load(Some(&file), environment, Overrides::default()).unwrap();
        assert_eq!((settings.drain_ms, settings.limits.memory_bytes_max), (5_000, 32 << 20));
        assert_eq!((settings.limits.wall_ms_max, settings.limits.cpu_ms_max), (120_000, 9));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn token_variable_demands_authentication_and_is_not_kept() {
        let load = |pairs: &[(&str, &str)]| Settings::load(None, variables(pairs), Overrides::default());
        assert!(!load(&[]).unwrap().demands_authentication());
        let settings = load(&[("SCOMP_TOKEN", "s3cret")]).unwrap();
        assert!(settings.demands_authentication() && !format!("{settings:?}").contains("s3cret"));
        assert!(load(&[("SCOMP_TOKENS_FILE", "tokens.toml")]).unwrap().demands_authentication());
    }

    #[test]
    fn server_without_threads_is_refused() {
        let refused = Settings::load(None, variables(&[("SCOMP_SHARDS", "0")]), Overrides::default());
        let message = "environment variable SCOMP_SHARDS: shards: expected 1 to 1024, got 0";
        assert_eq!(refused.unwrap_err().to_string(), message);
    }

    #[test]
    fn settings_that_serve_nothing_are_refused() {
        for (variable, value, message) in [
            ("SCOMP_SHARDS", "1025", "shards: expected 1 to 1024, got 1025"),
            ("SCOMP_SERVER_CONNECTIONS_MAX", "0", "server.connections_max: expected at least 1, got 0"),
            ("SCOMP_SESSIONS_SESSIONS_MAX", "0", "sessions.sessions_max: expected at least 1, got 0"),
            (
                "SCOMP_QUOTAS_CPU_SECONDS_PER_MINUTE",
                "nan",
                "quotas.cpu_seconds_per_minute: expected a positive number, got NaN",
            ),
            (
                "SCOMP_QUOTAS_MESSAGES_BURST",
                "-3",
                "quotas.messages_burst: expected a positive number, got -3",
            ),
        ] {
            let refused = Settings::load(None, variables(&[(variable, value)]), Overrides::default());
            assert_eq!(
                refused.unwrap_err().to_string(),
                format!("environment variable {variable}: {message}")
            );
        }
        let most = variables(&[("SCOMP_SHARDS", "1024"), ("SCOMP_SERVER_CONNECTIONS_MAX", "1")]);
        assert_eq!(Settings::load(None, most, Overrides::default()).unwrap().shards, 1024);
    }

    #[test]
    fn limits_that_would_crash_the_server_are_refused() {
        let load = |pairs| Settings::load(None, variables(pairs), Overrides::default()).unwrap_err();
        let refused = load(&[("SCOMP_LIMITS_MEMORY_BYTES_MAX", "64")]);
        assert_eq!(
            refused.to_string(),
            "environment variable SCOMP_LIMITS_MEMORY_BYTES_MAX: limits.memory_bytes_max: \
             expected 1048576 to 184549376, got 64"
        );
        let refused = load(&[("SCOMP_DRAIN_MS", "31536000001")]);
        assert_eq!(
            refused.to_string(),
            "environment variable SCOMP_DRAIN_MS: drain_ms: expected 0 to 31536000000, got 31536000001"
        );
    }

    #[test]
    fn missing_file_is_named() {
        let missing = Path::new("/nonexistent/scomp.toml");
        let message = Settings::load(Some(missing), [], Overrides::default()).unwrap_err().to_string();
        assert!(message.starts_with("/nonexistent/scomp.toml: "), "{message}");
    }
}
