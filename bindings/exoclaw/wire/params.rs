//! The parameters of the methods. Peers see the names of the types and the order of their members in the texts of errors.

use serde::Deserialize;

/// Longest channel, account, peer, guild or team: they stand in an index, and a longer one is data.
pub(crate) const NAME_BYTES_MAX: usize = 512;

/// Most entries of one answer: a megabyte of messages of ordinary length.
pub(crate) const LISTED_MAX: usize = 1000;

/// Entries of one answer unless the request says otherwise.
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
    /// Where it comes from.
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

/// Where messages come from: what decides on their agent and their session.
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
    pub(super) fn check(&self) -> Result<(), String> {
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

/// Which conversation to tell, and how many of its last turns.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ChatHistoryParams {
    #[serde(flatten)]
    pub(crate) origin: Origin,
    #[serde(default)]
    pub(crate) limit: Limit,
}

/// How many sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct SessionListParams {
    #[serde(default)]
    pub(crate) limit: Limit,
}

/// Whose facts to search, and for what.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct MemorySearchParams {
    pub(crate) channel: String,
    pub(crate) account: String,
    pub(crate) query: String,
    #[serde(default)]
    pub(crate) limit: Limit,
}

/// How many entries an answer may have: at least one, at most [`LISTED_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "usize")]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl From<usize> for Limit {
    fn from(asked: usize) -> Self {
        Self(asked.clamp(1, LISTED_MAX))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(LISTED_DEFAULT)
    }
}
