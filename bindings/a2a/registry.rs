//! The agents of a gateway: their roles, states and connections.
//!
//! Configured agents always exist, and are offline until a connection binds their name. Any other
//! name is an agent only while a connection has it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ConnectionId;
use super::codes::{ErrorCode, GatewayError};
use super::wire::truncate_name;

/// Agents of a gateway, configured and other ones together. Each has a folder and a place in every
/// listing; a handshake for one more gets 1001.
pub(crate) const AGENTS_MAX: usize = 1024;

/// The workspace folder that the specification documents.
pub(crate) const WORKSPACES_DEFAULT: &str = "~/.openclaw/agents";

/// Longest role, in bytes: it is a word or two, and part of every listing.
pub(crate) const ROLE_BYTES_MAX: usize = 64;

/// The role of an agent that names none.
const ROLE_DEFAULT: &str = "agent";

/// The agents, with their roles, of a gateway whose configuration names none.
pub(crate) const AGENTS_DEFAULT: [(&str, &str); 12] = [
    ("main", "default-agent"),
    ("steward", "orchestrator"),
    ("alpha", "triad-member"),
    ("beta", "triad-member"),
    ("charlie", "triad-member"),
    ("examiner", "evaluator"),
    ("explorer", "researcher"),
    ("sentinel", "safety"),
    ("coder", "developer"),
    ("dreamer", "creative"),
    ("empath", "emotional"),
    ("historian", "historical"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Online,
    Offline,
    Busy,
    Idle,
    Error,
}

impl Status {
    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Error => "error",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Online, Self::Offline, Self::Busy, Self::Idle, Self::Error];
        all.into_iter().find(|status| status.name() == name)
    }
}

#[derive(Debug)]
struct Agent {
    role: String,
    is_configured: bool,
    /// The connection that has bound the name.
    connection: Option<ConnectionId>,
    status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusChange {
    pub(crate) agent: String,
    pub(crate) status: Status,
    pub(crate) previous: Status,
}

/// The consequences of binding a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BindOutcome {
    /// The connection that had the name before.
    pub(crate) displaced: Option<ConnectionId>,
    pub(crate) change: Option<StatusChange>,
}

#[derive(Debug)]
pub(crate) struct Registry {
    agents: BTreeMap<String, Agent>,
    workspaces: String,
}

impl Registry {
    /// Creates a registry of configured agents (names and roles). `workspaces` is the folder that
    /// listings show.
    pub(crate) fn new(agents: impl IntoIterator<Item = (String, String)>, workspaces: String) -> Self {
        let configured =
            |role| Agent { role, is_configured: true, connection: None, status: Status::Offline };
        let agents = agents.into_iter().map(|(name, role)| (name, configured(role))).collect();
        Self { agents, workspaces }
    }

    /// Binds a name to a connection, in place of the one that had it.
    pub(crate) fn bind(
        &mut self,
        name: &str,
        role: Option<&str>,
        connection: ConnectionId,
    ) -> Result<BindOutcome, GatewayError> {
        let is_new = !self.agents.contains_key(name);
        if is_new && let Some(other) = self.agents.keys().find(|other| other.eq_ignore_ascii_case(name)) {
            // On a file system that ignores case both would share a folder, and one owner could
            // read the sessions of the other.
            let message = format!("{}: differs only in case from the agent {other}", truncate_name(name));
            return Err(GatewayError::new(ErrorCode::ConnectionRefused, message));
        }
        if is_new && self.agents.len() >= AGENTS_MAX {
            let message = format!("the gateway has {AGENTS_MAX} agents already");
            return Err(GatewayError::new(ErrorCode::ConnectionRefused, message));
        }
        let agent = self.agents.entry(name.to_owned()).or_insert_with(|| Agent {
            role: ROLE_DEFAULT.to_owned(),
            is_configured: false,
            connection: None,
            status: Status::Offline,
        });
        if let Some(role) = role {
            role.clone_into(&mut agent.role);
        }
        let displaced = agent.connection.replace(connection).filter(|former| *former != connection);
        // A connection that binds its own name again keeps the status that it has set.
        let is_rebound = displaced.is_some() || agent.status == Status::Offline;
        let change = if is_rebound { change_status(name, agent, Status::Online) } else { None };
        Ok(BindOutcome { displaced, change })
    }

    /// Unbinds a name if that connection has it.
    pub(crate) fn unbind(&mut self, name: &str, connection: ConnectionId) -> Option<StatusChange> {
        let agent = self.agents.get_mut(name).filter(|agent| agent.connection == Some(connection))?;
        agent.connection = None;
        let change = change_status(name, agent, Status::Offline);
        if !agent.is_configured {
            self.agents.remove(name);
        }
        change
    }

    /// Returns `None` if the status is the same as before.
    pub(crate) fn set_status(&mut self, name: &str, status: Status) -> Option<StatusChange> {
        change_status(name, self.agents.get_mut(name)?, status)
    }

    pub(crate) fn names_of_connection(&self, connection: ConnectionId) -> Vec<String> {
        let bound = self.agents.iter().filter(|(_, agent)| agent.connection == Some(connection));
        bound.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the connection that has a name.
    pub(crate) fn connection(&self, name: &str) -> Option<ConnectionId> {
        self.agents.get(name)?.connection
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.agents.contains_key(name)
    }

    pub(crate) fn check_exists(&self, name: &str) -> Result<(), GatewayError> {
        if self.contains(name) {
            return Ok(());
        }
        Err(GatewayError::new(ErrorCode::AgentNotFound, format!("Agent not found: {}", truncate_name(name))))
    }

    /// Returns the connection of an agent that accepts messages now.
    pub(crate) fn reachable_connection(&self, name: &str) -> Result<ConnectionId, GatewayError> {
        self.check_exists(name)?;
        let agent = self.agents.get(name);
        let status = agent.map_or(Status::Offline, |agent| agent.status);
        match (status, agent.and_then(|agent| agent.connection)) {
            (Status::Online | Status::Idle, Some(connection)) => Ok(connection),
            (Status::Busy, _) => {
                Err(GatewayError::new(ErrorCode::AgentBusy, format!("Agent is busy: {name}")))
            }
            (Status::Error, _) => {
                Err(GatewayError::new(ErrorCode::AgentError, format!("Agent is in error: {name}")))
            }
            (Status::Online | Status::Idle | Status::Offline, _) => {
                Err(GatewayError::new(ErrorCode::AgentOffline, format!("Agent is offline: {name}")))
            }
        }
    }

    /// Returns the agents that have a connection and are not offline.
    pub(crate) fn online_agents(&self) -> Vec<(String, ConnectionId)> {
        let online = self.agents.iter().filter(|(_, agent)| agent.status != Status::Offline);
        online.filter_map(|(name, agent)| Some((name.clone(), agent.connection?))).collect()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.agents.keys().map(String::as_str).collect()
    }

    /// Lists the agents for discovery.
    pub(crate) fn list_agents(&self) -> Value {
        let agents = self.agents.iter().map(|(name, agent)| {
            json!({
                "name": name,
                "role": agent.role,
                "status": agent.status.name(),
                "workspace": self.workspace(name),
            })
        });
        agents.collect()
    }

    /// Lists all workspaces, or that of one agent.
    pub(crate) fn list_workspaces(&self, agent: Option<&str>) -> Value {
        let wanted = self.agents.keys().filter(|name| agent.is_none_or(|agent| agent == name.as_str()));
        wanted.map(|name| json!({"agent": name, "path": self.workspace(name)})).collect()
    }

    fn workspace(&self, name: &str) -> String {
        format!("{}/{name}", self.workspaces)
    }
}

fn change_status(name: &str, agent: &mut Agent, status: Status) -> Option<StatusChange> {
    let previous = std::mem::replace(&mut agent.status, status);
    (previous != status).then(|| StatusChange { agent: name.to_owned(), status, previous })
}

#[cfg(test)]
mod tests;
