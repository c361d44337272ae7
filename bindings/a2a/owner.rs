//! The owner of an agent name and of its sessions.

use serde::{Deserialize, Serialize};

/// The principal of a server without tokens, and of the operator's service scripts on any server.
const LOCAL_PRINCIPAL: &str = "anonymous";

/// The owner of a connection, and of the agents that it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Owner {
    Principal(String),
    /// Clients that present the gateway's own token; each `sub` of a JWT is a separate owner.
    Token {
        subject: Option<String>,
    },
}

impl Owner {
    /// Returns the owner of everything on a server without tokens.
    pub(crate) fn local() -> Self {
        Self::Principal(LOCAL_PRINCIPAL.to_owned())
    }

    /// Returns whether it manages the sessions of agents without an owner: the operator, or a
    /// client with the token itself.
    pub(crate) fn is_operator(&self) -> bool {
        match self {
            Self::Principal(name) => name == LOCAL_PRINCIPAL,
            Self::Token { subject } => subject.is_none(),
        }
    }
}
