//! The two kinds of agents: language models, and functions of scripts.

pub(super) mod model;
pub(super) mod script;

use super::report::ClientGone;
use super::route::SessionId;
use super::store::Turn;

/// What an agent is asked.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) session: &'a SessionId,
    pub(super) content: &'a str,
    /// The last turns, oldest first.
    pub(super) turns: &'a [Turn],
    /// What is known of the account, as text.
    pub(super) facts: Option<&'a str>,
}

/// Why an agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    /// Nobody is there to be told.
    #[error(transparent)]
    ClientGone(#[from] ClientGone),
    /// The client is told this.
    #[error("{0}")]
    Failed(String),
}
