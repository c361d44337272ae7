//! The configuration of the package: the gateway of this server, and the remote gateways.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::auth::Token;
use super::machine::Settings;
use super::rate_limit::Rate;
use super::registry::{AGENTS_DEFAULT, AGENTS_MAX, WORKSPACES_DEFAULT};
use super::sessions::Durability;
use super::triad::{DELIBERATION_MS_DEFAULT, TriadRules};
use super::wire::is_agent_name;

/// Default length of the longest message: that of the OpenClaw gateway.
const MESSAGE_BYTES_DEFAULT: usize = 1 << 20;

/// Default number of concurrent clients.
const CLIENTS_DEFAULT: usize = 1024;

/// Default time for a client to present its token: the connection timeout of the specification.
const AUTH_MS_DEFAULT: u64 = 30_000;

const TRIAD_DEFAULT: [&str; 3] = ["alpha", "beta", "charlie"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder of the sessions, relative to the declaration.
    #[serde(default = "state_default")]
    pub(crate) state: String,
    token: Option<String>,
    /// An additional address to listen on.
    pub(crate) listen: Option<String>,
    #[serde(default)]
    agents: Vec<AgentConfig>,
    workspaces: Option<String>,
    /// Whether all principals share names and sessions.
    #[serde(default)]
    pub(crate) shared: bool,
    #[serde(default)]
    triad: TriadConfig,
    #[serde(default)]
    pub(crate) fsync: Durability,
    pub(crate) audit: Option<String>,
    #[serde(default)]
    services: Vec<Value>,
    clients_max: Option<usize>,
    auth_ms: Option<u64>,
    message_bytes_max: Option<usize>,
    messages_per_second: Option<f64>,
    messages_burst: Option<f64>,
    #[serde(default)]
    pub(crate) gateways: BTreeMap<String, GatewayConfig>,
}

fn state_default() -> String {
    "state".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentConfig {
    name: String,
    role: String,
    /// The principal that owns the name and its sessions.
    owner: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TriadConfig {
    members: Option<Vec<String>>,
    deadline_ms: Option<u64>,
    #[serde(default)]
    decides_early: bool,
}

/// A remote gateway.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GatewayConfig {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) connect_ms: Option<u64>,
}

impl Config {
    /// Reads a configuration that matches the schema, and checks what the schema cannot.
    pub(crate) fn read(config: &Value) -> Result<Self, String> {
        let config = Self::deserialize(config).map_err(|error| error.to_string())?;
        let agents = config.agents.iter().map(|agent| &agent.name);
        let members = config.triad.members.iter().flatten();
        if let Some(name) = agents.chain(members).find(|name| !is_agent_name(name)) {
            return Err(format!("invalid agent name {name:?}"));
        }
        if config.agents.len() > AGENTS_MAX {
            return Err(format!("agents: expected at most {AGENTS_MAX}"));
        }
        Ok(config)
    }

    /// Returns whether the gateway checks tokens of its own.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max.unwrap_or(MESSAGE_BYTES_DEFAULT)
    }

    pub(crate) fn state_folder(&self, folder: &Path) -> std::path::PathBuf {
        folder.join(&self.state)
    }

    fn owners(&self) -> HashMap<String, String> {
        let owned = self.agents.iter().filter_map(|agent| Some((agent.name.clone(), agent.owner.clone()?)));
        owned.collect()
    }

    /// Returns the settings of the machine, with defaults filled in.
    pub(crate) fn to_settings(&self) -> Settings {
        let rate = Rate::default();
        let default_agents =
            || AGENTS_DEFAULT.map(|(name, role)| (name.to_owned(), role.to_owned())).to_vec();
        let agents: Vec<_> =
            self.agents.iter().map(|agent| (agent.name.clone(), agent.role.clone())).collect();
        Settings {
            instance: uuid::Uuid::new_v4().simple().to_string(),
            token: self.token.as_deref().map(Token::new),
            auth_ms_max: self.auth_ms.unwrap_or(AUTH_MS_DEFAULT),
            clients_max: self.clients_max.unwrap_or(CLIENTS_DEFAULT),
            rate: Rate {
                per_second: self.messages_per_second.unwrap_or(rate.per_second),
                burst: self.messages_burst.unwrap_or(rate.burst),
            },
            triad: TriadRules {
                members: self
                    .triad
                    .members
                    .clone()
                    .unwrap_or_else(|| TRIAD_DEFAULT.map(str::to_owned).to_vec()),
                deliberation_ms: self.triad.deadline_ms.unwrap_or(DELIBERATION_MS_DEFAULT),
                decides_early: self.triad.decides_early,
            },
            shared: self.shared,
            owners: self.owners(),
            agents: if agents.is_empty() { default_agents() } else { agents },
            workspaces: self.workspaces.clone().unwrap_or_else(|| WORKSPACES_DEFAULT.to_owned()),
            services: self.services.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn default_config_has_twelve_agents_and_the_triad() {
        let settings = Config::read(&json!({})).unwrap().to_settings();
        assert_eq!(settings.agents.len(), 12);
        assert_eq!(settings.triad.members, TRIAD_DEFAULT);
        assert!(settings.token.is_none());
    }

    #[test]
    fn invalid_agent_names_are_reported() {
        let invalid =
            [json!({"agents": [{"name": "../x", "role": "r"}]}), json!({"triad": {"members": ["gateway"]}})];
        for config in invalid {
            assert!(Config::read(&config).unwrap_err().contains("invalid agent name"), "{config}");
        }
    }
}
