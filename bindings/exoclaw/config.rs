//! The settings of the operator: the gateway served here, and the remote gateways.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::budget::Budgets;
use super::model::Provider;
use super::route::Rule;
use crate::binding::Policy;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) serve: ServeConfig,
    /// The remote gateways, by the names that scripts use.
    #[serde(default)]
    pub(super) gateways: BTreeMap<String, GatewayConfig>,
}

/// A remote gateway.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GatewayConfig {
    pub(super) url: String,
    pub(super) token: Option<String>,
}

/// The gateway served here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ServeConfig {
    pub(super) path: String,
    /// An additional address, where the gateway is at `/ws`.
    pub(super) listen: Option<String>,
    pub(super) token: Option<String>,
    /// The policy of the principal that clients with the token have.
    pub(super) policy: Policy,
    /// Whether the methods that the specification reserves for the future are served.
    pub(super) extensions: bool,
    /// Whether all principals share agents, sessions and facts.
    pub(super) shared: bool,
    /// By agent id, the only principal whose scripts may register the agent.
    pub(super) owners: BTreeMap<String, String>,
    pub(super) strict_routing: bool,
    pub(super) routes: Vec<Rule>,
    pub(super) agents: BTreeMap<String, ModelAgentConfig>,
    pub(super) budgets: Budgets,
    pub(super) memory: MemoryConfig,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            path: "/exoclaw".to_owned(),
            listen: None,
            token: None,
            policy: Policy::default(),
            extensions: true,
            shared: false,
            owners: BTreeMap::new(),
            strict_routing: false,
            routes: Vec::new(),
            agents: BTreeMap::new(),
            budgets: Budgets::default(),
            memory: MemoryConfig::default(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct MemoryConfig {
    /// The SQLite file. Without it, everything is kept in memory and lost when the server stops.
    pub(super) path: Option<String>,
    /// Earlier turns that an agent gets with a message.
    pub(super) window: usize,
    /// Whether facts about an account are stored.
    pub(super) semantic: bool,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { path: None, window: 5, semantic: false }
    }
}

/// An agent that is a language model.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ModelAgentConfig {
    pub(super) provider: Provider,
    pub(super) model: String,
    pub(super) endpoint: Option<String>,
    pub(super) api_key: Option<String>,
    pub(super) system_prompt: Option<String>,
    /// A text file that is appended to the system prompt.
    pub(super) soul: Option<String>,
    #[serde(default = "max_tokens_default")]
    pub(super) max_tokens: u32,
    /// Timeout of the start of the provider's answer.
    #[serde(default = "provider_timeout_default")]
    pub(super) request_ms: u64,
    /// Longest pause within the answer.
    #[serde(default = "provider_timeout_default")]
    pub(super) idle_ms: u64,
    /// Names of bindings, or `kv.*`, or `*`.
    #[serde(default = "tools_default")]
    pub(super) tools: Vec<String>,
    /// Whether the model has the tool `eval`.
    #[serde(default)]
    pub(super) eval: bool,
}

fn max_tokens_default() -> u32 {
    4096
}

fn provider_timeout_default() -> u64 {
    45_000
}

fn tools_default() -> Vec<String> {
    vec!["*".to_owned()]
}
