//! What an operator configures: the gateway that is served here, and the gateways elsewhere.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::budget::Budgets;
use super::model::Provider;
use super::route::Rule;
use crate::binding::Policy;

/// The configuration of the package.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) serve: Serve,
    /// By the names that scripts call them.
    #[serde(default)]
    pub(super) gateways: BTreeMap<String, Peer>,
}

/// A gateway elsewhere.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) url: String,
    pub(super) token: Option<String>,
}

/// The gateway that is served here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Serve {
    pub(super) path: String,
    /// An address of its own, where it is reached at `/ws`.
    pub(super) listen: Option<String>,
    pub(super) token: Option<String>,
    /// What agents may do for those who come with the token.
    pub(super) policy: Policy,
    /// Whether the methods that the specification lists as future are served.
    pub(super) extensions: bool,
    /// Whether all principals share agents, sessions and facts.
    pub(super) shared: bool,
    /// The principals that may answer for agents of scripts, by the agents' ids.
    pub(super) owners: BTreeMap<String, String>,
    pub(super) strict_routing: bool,
    pub(super) routes: Vec<Rule>,
    pub(super) agents: BTreeMap<String, ModelAgent>,
    pub(super) budgets: Budgets,
    pub(super) memory: Memory,
}

impl Default for Serve {
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
            memory: Memory::default(),
        }
    }
}

/// What is remembered.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Memory {
    /// The SQLite file; without it everything is forgotten with the server.
    pub(super) path: Option<String>,
    /// Turns that an agent is told with a message.
    pub(super) window: usize,
    /// Whether facts about an account are kept.
    pub(super) semantic: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self { path: None, window: 5, semantic: false }
    }
}

/// An agent that is a language model.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ModelAgent {
    pub(super) provider: Provider,
    pub(super) model: String,
    pub(super) endpoint: Option<String>,
    pub(super) api_key: Option<String>,
    pub(super) system_prompt: Option<String>,
    /// A text file that says who the agent is.
    pub(super) soul: Option<String>,
    #[serde(default = "max_tokens_default")]
    pub(super) max_tokens: u32,
    /// How long the provider may take to begin its answer, and between two parts of it.
    #[serde(default = "patience_default")]
    pub(super) request_ms: u64,
    #[serde(default = "patience_default")]
    pub(super) idle_ms: u64,
    /// Names of bindings, or `kv.*`, or `*`.
    #[serde(default = "tools_default")]
    pub(super) tools: Vec<String>,
    /// Whether it may run code of its own.
    #[serde(default)]
    pub(super) eval: bool,
}

fn max_tokens_default() -> u32 {
    4096
}

fn patience_default() -> u64 {
    45_000
}

fn tools_default() -> Vec<String> {
    vec!["*".to_owned()]
}
