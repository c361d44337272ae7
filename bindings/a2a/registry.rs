//! The agents: who they are, in what state, and at which connection each is reached.
//!
//! Those of the configuration are there from the start and offline until somebody binds them; a stranger's name is an
//! agent only while somebody bears it, so that no ghost stays behind.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ConnectionId;
use super::codes::{ErrorCode, Refusal};
use super::wire::cut;

/// Most agents of a gateway, configured and bound ones together. Each has a folder and a place in every listing; a
/// handshake for one more gets 1001.
pub(crate) const AGENTS_MAX: usize = 1024;

/// Where the documents say that the agents' workspaces are.
pub(crate) const WORKSPACES_DEFAULT: &str = "~/.openclaw/agents";

/// Longest role, in bytes: it is a word or two, and stands in every listing.
pub(crate) const ROLE_BYTES_MAX: usize = 64;

/// The role of an agent that did not say.
const ROLE_DEFAULT: &str = "agent";

/// The agents that a gateway knows unless its configuration names others, with their roles.
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

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Online,
    Offline,
    Busy,
    Idle,
    Error,
}

impl Status {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Error => "error",
        }
    }

    /// The state of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let all = [Self::Online, Self::Offline, Self::Busy, Self::Idle, Self::Error];
        all.into_iter().find(|status| status.name() == name)
    }
}

#[derive(Debug)]
struct Agent {
    role: String,
    is_configured: bool,
    /// The connection that bears the name, if any does.
    seat: Option<ConnectionId>,
    status: Status,
}

/// A state that is another one now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusChange {
    pub(crate) agent: String,
    pub(crate) status: Status,
    pub(crate) previous: Status,
}

/// What binding a name brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Who bore the name before.
    pub(crate) displaced: Option<ConnectionId>,
    pub(crate) change: Option<StatusChange>,
}

/// All agents by name.
#[derive(Debug)]
pub(crate) struct Registry {
    agents: BTreeMap<String, Agent>,
    workspaces: String,
}

impl Registry {
    /// The configured agents with their roles, all offline; `workspaces` is what is said of where they live.
    pub(crate) fn new(agents: impl IntoIterator<Item = (String, String)>, workspaces: String) -> Self {
        let configured = |role| Agent { role, is_configured: true, seat: None, status: Status::Offline };
        let agents = agents.into_iter().map(|(name, role)| (name, configured(role))).collect();
        Self { agents, workspaces }
    }

    /// Gives a name to a connection. The last one to ask has it.
    pub(crate) fn bind(
        &mut self,
        name: &str,
        role: Option<&str>,
        connection: ConnectionId,
    ) -> Result<Bound, Refusal> {
        let is_new = !self.agents.contains_key(name);
        if is_new && let Some(taken) = self.agents.keys().find(|taken| taken.eq_ignore_ascii_case(name)) {
            // On a disk that ignores case both would have one folder, and one owner could read the other's sessions.
            let message = format!("{} differs only in case from the agent {taken}", cut(name));
            return Err(Refusal::new(ErrorCode::ConnectionRefused, message));
        }
        if is_new && self.agents.len() >= AGENTS_MAX {
            let message = format!("the gateway has {AGENTS_MAX} agents and no room for more");
            return Err(Refusal::new(ErrorCode::ConnectionRefused, message));
        }
        let agent = self.agents.entry(name.to_owned()).or_insert_with(|| Agent {
            role: ROLE_DEFAULT.to_owned(),
            is_configured: false,
            seat: None,
            status: Status::Offline,
        });
        if let Some(role) = role {
            role.clone_into(&mut agent.role);
        }
        let displaced = agent.seat.replace(connection).filter(|former| *former != connection);
        // One that binds its own name again keeps the state it told us.
        let is_new = displaced.is_some() || agent.status == Status::Offline;
        let change = if is_new { set(name, agent, Status::Online) } else { None };
        Ok(Bound { displaced, change })
    }

    /// Takes a name from the connection that bears it.
    pub(crate) fn unbind(&mut self, name: &str, connection: ConnectionId) -> Option<StatusChange> {
        let agent = self.agents.get_mut(name).filter(|agent| agent.seat == Some(connection))?;
        agent.seat = None;
        let change = set(name, agent, Status::Offline);
        if !agent.is_configured {
            self.agents.remove(name);
        }
        change
    }

    /// An agent tells its state. `None` when it is the same as before.
    pub(crate) fn set_status(&mut self, name: &str, status: Status) -> Option<StatusChange> {
        set(name, self.agents.get_mut(name)?, status)
    }

    /// The names that a connection bears.
    pub(crate) fn names_of(&self, connection: ConnectionId) -> Vec<String> {
        let borne = self.agents.iter().filter(|(_, agent)| agent.seat == Some(connection));
        borne.map(|(name, _)| name.clone()).collect()
    }

    /// Who bears a name.
    pub(crate) fn seat(&self, name: &str) -> Option<ConnectionId> {
        self.agents.get(name)?.seat
    }

    /// Whether there is an agent of that name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.agents.contains_key(name)
    }

    /// The same as an answer.
    pub(crate) fn known(&self, name: &str) -> Result<(), Refusal> {
        if self.knows(name) {
            return Ok(());
        }
        Err(Refusal::new(ErrorCode::AgentNotFound, format!("Agent not found: {}", cut(name))))
    }

    /// Where a message for an agent goes now, or why it cannot.
    pub(crate) fn reach(&self, name: &str) -> Result<ConnectionId, Refusal> {
        self.known(name)?;
        let agent = self.agents.get(name);
        let status = agent.map_or(Status::Offline, |agent| agent.status);
        match (status, agent.and_then(|agent| agent.seat)) {
            (Status::Online | Status::Idle, Some(connection)) => Ok(connection),
            (Status::Busy, _) => Err(Refusal::new(ErrorCode::AgentBusy, format!("Agent is busy: {name}"))),
            (Status::Error, _) => {
                Err(Refusal::new(ErrorCode::AgentError, format!("Agent is in error: {name}")))
            }
            (Status::Online | Status::Idle | Status::Offline, _) => {
                Err(Refusal::new(ErrorCode::AgentOffline, format!("Agent is offline: {name}")))
            }
        }
    }

    /// All agents that somebody bears, but for those that say they are offline.
    pub(crate) fn present(&self) -> Vec<(String, ConnectionId)> {
        let present = self.agents.iter().filter(|(_, agent)| agent.status != Status::Offline);
        present.filter_map(|(name, agent)| Some((name.clone(), agent.seat?))).collect()
    }

    /// Every name.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.agents.keys().map(String::as_str).collect()
    }

    /// The agents as discovery lists them.
    pub(crate) fn listing(&self) -> Value {
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

    /// The workspaces, or that of one agent.
    pub(crate) fn workspaces(&self, of: Option<&str>) -> Value {
        let wanted = self.agents.keys().filter(|name| of.is_none_or(|of| of == name.as_str()));
        wanted.map(|name| json!({"agent": name, "path": self.workspace(name)})).collect()
    }

    fn workspace(&self, name: &str) -> String {
        format!("{}/{name}", self.workspaces)
    }
}

fn set(name: &str, agent: &mut Agent, status: Status) -> Option<StatusChange> {
    let previous = std::mem::replace(&mut agent.status, status);
    (previous != status).then(|| StatusChange { agent: name.to_owned(), status, previous })
}

#[cfg(test)]
mod tests;
