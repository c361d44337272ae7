//! The settings of a gateway, and what it learns of a client when it connects.

use std::collections::HashMap;

use serde_json::Value;

use super::super::auth::Token;
use super::super::owner::Owner;
use super::super::rate_limit::Rate;
use super::super::triad::TriadRules;

#[derive(Debug)]
pub(crate) struct Settings {
    /// Part of the ids that the gateway creates, so that they differ between runs.
    pub(crate) instance: String,
    pub(crate) token: Option<Token>,
    /// Time for a client to present its token.
    pub(crate) auth_ms_max: u64,
    pub(crate) clients_max: usize,
    pub(crate) rate: Rate,
    pub(crate) triad: TriadRules,
    /// Whether all principals share names and sessions.
    pub(crate) shared: bool,
    /// The principals that own configured agents, by agent name.
    pub(crate) owners: HashMap<String, String>,
    /// The configured agents: names and roles.
    pub(crate) agents: Vec<(String, String)>,
    /// The folder of workspaces that listings show.
    pub(crate) workspaces: String,
    /// The services that discovery lists.
    pub(crate) services: Vec<Value>,
}

/// A client as it connects.
#[derive(Debug, Clone)]
pub(crate) struct ClientInfo {
    pub(crate) client_id: String,
    /// The owner of its agents, unless the gateway has a token of its own.
    pub(crate) owner: Owner,
    /// Whether it is a script of this server, which has authenticated and counted it already.
    pub(crate) is_local: bool,
    /// The token in the query or the headers.
    pub(crate) token: Option<String>,
    /// The agent name in the query or the headers.
    pub(crate) agent: Option<String>,
}

impl Default for ClientInfo {
    fn default() -> Self {
        Self { client_id: String::new(), owner: Owner::local(), is_local: false, token: None, agent: None }
    }
}
