//! What an operator may set about the server's edge, as it stands in the configuration file.
//!
//! One place, so that the program embeds these tables as they are: `[auth]`, `[origins]`, `[quotas]`, `[tls]`,
//! `[audit]`, `[server]`, `[mcp]`. Secrets are never kept here: of a token only its hash.

use std::io;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::binding::{Policy, Roles};
use crate::limits::{SettingCheck, SettingsError, machine};
#[cfg(feature = "mcp")]
pub use crate::mcp::server::{McpSettings, OauthSettings};
use crate::observe::audit::Audit;
use crate::quota::Quotas;
pub use crate::sessions::{Isolation, IsolationSettings, SessionSettings, Strictness, WorkerSettings};
pub use crate::store::{Durability, StateSettings};

/// `[auth]`: who may connect. Without any token every client may, but only from this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSettings {
    /// The known tokens.
    pub tokens: Vec<TokenSettings>,
    /// A TOML file with more `[[tokens]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-path" = true, "x-example" = "tokens.toml"))]
    pub file: Option<PathBuf>,
}

/// One `[[tokens]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// The principal that the token stands for. Tokens of one principal share its sessions and its quotas.
    #[schemars(extend("x-example" = "agents"))]
    pub principal: String,
    /// SHA-256 of the token, in hexadecimal.
    #[schemars(extend("x-example" = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"))]
    pub sha256: String,
    /// Where it is set, for messages; filled in by the reader of the settings.
    #[serde(skip)]
    pub place: String,
    /// What the sessions opened with it may do.
    #[serde(default)]
    pub policy: Policy,
    /// What it permits beyond the sessions of its own principal; absent: nothing.
    #[serde(default, skip_serializing_if = "Roles::is_empty")]
    #[schemars(extend("x-example" = ["operator"]))]
    pub roles: Roles,
    /// How much its principal may use; absent: `[quotas]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Quotas>,
}

/// `[origins]`: which web pages may connect. A program that sends no `Origin` always may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OriginSettings {
    /// Origins such as `https://app.example`; `*` is all. A page of this very server needs no entry.
    #[schemars(extend("x-example" = ["https://app.example"]))]
    pub allow: Vec<String>,
}

/// `[tls]`: serve `wss` with this certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate and its chain.
    #[schemars(extend("x-path" = true, "x-example" = "cert.pem"))]
    pub cert: PathBuf,
    /// PEM file with its private key.
    #[schemars(extend("x-path" = true, "x-example" = "key.pem"))]
    pub key: PathBuf,
}

/// `[audit]`: the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// The file; absent: no record is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-path" = true, "x-example" = "audit.jsonl"))]
    pub path: Option<PathBuf>,
    /// At this size the file is set aside and a new one begun. At least 4 KiB: a record has to fit.
    pub max_bytes: u64,
    /// How many files set aside are kept, as `path.1` (the latest), `path.2`, …
    pub keep: usize,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { path: None, max_bytes: 64 << 20, keep: 8 }
    }
}

impl AuditSettings {
    /// Whether records can be kept with these settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("audit");
        check.range("max_bytes", self.max_bytes, AUDIT_BYTES_MIN, u64::MAX);
        check.finish()
    }

    /// Opens the file, if one is set.
    pub fn open(&self) -> io::Result<Audit> {
        match &self.path {
            Some(path) => Audit::open(path, self.max_bytes, self.keep),
            None => Ok(Audit::default()),
        }
    }
}

/// Least [`AuditSettings::max_bytes`]: with less, a file would be set aside after every record.
const AUDIT_BYTES_MIN: u64 = 4 << 10;

/// `[server]`: the server as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Concurrent connections, upgraded or not. One more is closed before a byte of it is read.
    pub connections_max: usize,
    /// Bytes of messages in memory, over all connections, from the first byte of a frame to the answer: that much of
    /// requests, and as much of answers to the server's own calls. Past it large messages are not read until others
    /// are answered; what a connection has in flight up to 64 KiB is not counted. By default a sixteenth of the
    /// memory, so that both together leave most of it to sessions.
    #[schemars(extend("x-default" = "a sixteenth of the memory, at least 64 MiB", "x-example" = 268_435_456))]
    pub bytes_in_flight_max: usize,
}

/// Least default of [`ServerSettings::bytes_in_flight_max`]: four of the longest messages at a time.
const BYTES_IN_FLIGHT_MIN: usize = 64 << 20;

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            // Somewhat more than sessions, so that probes and scrapes get in beside them.
            connections_max: 24_000,
            bytes_in_flight_max: (machine::memory_bytes() / 16).max(BYTES_IN_FLIGHT_MIN),
        }
    }
}

impl ServerSettings {
    /// Whether a server with these settings can serve anything.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("server");
        check.count("connections_max", self.connections_max, usize::MAX);
        check.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::Role;

    #[test]
    fn token_is_read_with_its_policy_and_quotas() {
        let text = r#"
            [[tokens]]
            principal = "ci"
            sha256 = "00"
            policy = { allow = ["read"] }
            roles = ["operator"]
            quotas = { sessions_max = 2 }
        "#;
        let auth: AuthSettings = toml::from_str(text).unwrap();
        let token = &auth.tokens[0];
        assert!(token.policy.allow.as_ref().unwrap().contains("read"));
        assert_eq!(token.quotas.as_ref().unwrap().sessions_max, Some(2));
        assert!(token.roles.contains(Role::Operator) && !token.roles.contains(Role::Approver));
    }

    #[test]
    fn token_with_unknown_role_is_refused() {
        let text = "[[tokens]]\nprincipal = 'ci'\nsha256 = '00'\nroles = ['root']\n";
        let error = toml::from_str::<AuthSettings>(text).unwrap_err().to_string();
        assert!(error.contains("unknown role \"root\""), "{error}");
    }

    #[test]
    fn token_in_plain_text_is_refused() {
        let text = "[[tokens]]\nprincipal = \"ci\"\ntoken = \"secret\"\n";
        let error = toml::from_str::<AuthSettings>(text).unwrap_err().to_string();
        assert!(error.contains("unknown field `token`"), "{error}");
    }
}
