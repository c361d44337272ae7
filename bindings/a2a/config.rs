//! What an operator writes: the gateway's own settings, and the gateways elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::auth::Token;
use super::machine::Settings;
use super::rate::Rate;
use super::registry::{AGENTS_DEFAULT, AGENTS_MAX, WORKSPACES_DEFAULT};
use super::sessions::Durability;
use super::triad::{DELIBERATION_MS_DEFAULT, Rules};
use super::wire::is_agent_name;

/// Longest message unless the configuration says otherwise: what the real gateway reads.
const MESSAGE_BYTES_DEFAULT: usize = 1 << 20;

/// Clients at once unless the configuration says otherwise.
const CLIENTS_DEFAULT: usize = 1024;

/// How long a client may take to show its token: the connection timeout of the specification.
const AUTH_MS_DEFAULT: u64 = 30_000;

/// Who decides.
const TRIAD_DEFAULT: [&str; 3] = ["alpha", "beta", "charlie"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    /// Where sessions are kept; starts at the declaration.
    #[serde(default = "state_default")]
    pub(crate) state: String,
    token: Option<String>,
    /// A port of its own.
    pub(crate) listen: Option<String>,
    #[serde(default)]
    agents: Vec<AgentConfig>,
    workspaces: Option<String>,
    /// Whether names and sessions belong to all principals together.
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
    /// The principal that the name and its sessions belong to.
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

/// A gateway elsewhere.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GatewayConfig {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) connect_ms: Option<u64>,
}

impl Config {
    /// Reads a checked configuration.
    pub(crate) fn read(config: &Value) -> Result<Self, String> {
        let config = Self::deserialize(config).map_err(|error| error.to_string())?;
        let agents = config.agents.iter().map(|agent| &agent.name);
        let members = config.triad.members.iter().flatten();
        if let Some(name) = agents.chain(members).find(|name| !is_agent_name(name)) {
            return Err(format!("{name:?} cannot be the name of an agent"));
        }
        if config.agents.len() > AGENTS_MAX {
            return Err(format!("a gateway has at most {AGENTS_MAX} agents"));
        }
        Ok(config)
    }

    /// Whether clients must show a token of the gateway's own.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max.unwrap_or(MESSAGE_BYTES_DEFAULT)
    }

    /// The folder of the sessions.
    pub(crate) fn state_folder(&self, folder: &Path) -> std::path::PathBuf {
        folder.join(&self.state)
    }

    fn owners(&self) -> HashMap<String, String> {
        let owned = self.agents.iter().filter_map(|agent| Some((agent.name.clone(), agent.owner.clone()?)));
        owned.collect()
    }

    /// What the machine needs of it.
    pub(crate) fn settings(&self) -> Settings {
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
            triad: Rules {
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
    fn the_twelve_agents_and_the_triad_are_there_by_default() {
        let settings = Config::read(&json!({})).unwrap().settings();
        assert_eq!(settings.agents.len(), 12);
        assert_eq!(settings.triad.members, TRIAD_DEFAULT);
        assert!(settings.token.is_none());
    }

    #[test]
    fn names_that_are_no_names_are_reported() {
        let wrong =
            [json!({"agents": [{"name": "../x", "role": "r"}]}), json!({"triad": {"members": ["gateway"]}})];
        for config in wrong {
            assert!(Config::read(&config).unwrap_err().contains("cannot be the name"), "{config}");
        }
    }
}
