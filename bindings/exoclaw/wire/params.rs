//! The parameters of the methods. The names of the types and the order of their members are visible
//! to peers in error texts.

use serde::Deserialize;

/// Longest channel, account, peer, guild or team. They are indexed, and longer ones are not names.
pub(crate) const NAME_BYTES_MAX: usize = 512;

/// Most entries of one response, about a megabyte of ordinary messages.
pub(crate) const LISTED_MAX: usize = 1000;

/// Entries of one response unless the request sets `limit`.
const LISTED_DEFAULT: usize = 100;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ChatSendParams {
    pub(crate) channel: String,
    pub(crate) account: String,
    #[serde(default = "peer_default")]
    pub(crate) peer: String,
    pub(crate) content: String,
    pub(crate) guild: Option<String>,
    pub(crate) team: Option<String>,
}

fn peer_default() -> String {
    "main".to_owned()
}

impl ChatSendParams {
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            channel: self.channel.clone(),
            account: self.account.clone(),
            peer: self.peer.clone(),
            guild: self.guild.clone(),
            team: self.team.clone(),
        }
    }
}

/// Where a message comes from. It determines the agent and the session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Origin {
    pub(crate) channel: String,
    pub(crate) account: String,
    #[serde(default = "peer_default")]
    pub(crate) peer: String,
    pub(crate) guild: Option<String>,
    pub(crate) team: Option<String>,
}

impl Origin {
    pub(super) fn check_lengths(&self) -> Result<(), String> {
        let names = [
            ("channel", Some(&self.channel)),
            ("account", Some(&self.account)),
            ("peer", Some(&self.peer)),
            ("guild", self.guild.as_ref()),
            ("team", self.team.as_ref()),
        ];
        match names.iter().find(|(_, name)| name.is_some_and(|name| name.len() > NAME_BYTES_MAX)) {
            Some((member, _)) => Err(format!("`{member}` is longer than {NAME_BYTES_MAX} bytes")),
            None => Ok(()),
        }
    }
}

/// Selects a conversation and the number of its last turns.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ChatHistoryParams {
    #[serde(flatten)]
    pub(crate) origin: Origin,
    #[serde(default)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct SessionListParams {
    #[serde(default)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct MemorySearchParams {
    pub(crate) channel: String,
    pub(crate) account: String,
    pub(crate) query: String,
    #[serde(default)]
    pub(crate) limit: Limit,
}

/// The number of entries of a response, clamped to between 1 and [`LISTED_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "usize")]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl From<usize> for Limit {
    fn from(requested: usize) -> Self {
        Self(requested.clamp(1, LISTED_MAX))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(LISTED_DEFAULT)
    }
}
