//! The two kinds of agents: language models, and functions of scripts.

pub(super) mod model;
pub(super) mod script;

use super::progress::ClientGone;
use super::route::SessionId;
use super::store::Turn;

/// A message for an agent, with its context.
#[derive(Debug)]
pub(super) struct AgentRequest<'a> {
    pub(super) session: &'a SessionId,
    pub(super) content: &'a str,
    /// The last turns, oldest first.
    pub(super) turns: &'a [Turn],
    /// The facts of the account, as text.
    pub(super) facts: Option<&'a str>,
}

/// Why an agent did not complete its answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    #[error(transparent)]
    ClientGone(#[from] ClientGone),
    /// The client gets this text as an error event.
    #[error("{0}")]
    Failed(String),
}
