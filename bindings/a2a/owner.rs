//! Whom the name of an agent, and its sessions, belong to.

use serde::{Deserialize, Serialize};

/// The principal of a server without tokens, and of the operator's own service scripts on any server.
const LOCAL_PRINCIPAL: &str = "anonymous";

/// The owner of a connection, and of the agents that it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Owner {
    /// A principal of the server.
    Principal(String),
    /// Clients that show the gateway's own token; each subject of a JWT is an owner of its own.
    Token { subject: Option<String> },
}

impl Owner {
    /// The owner of everything on a server without tokens.
    pub(crate) fn local() -> Self {
        Self::Principal(LOCAL_PRINCIPAL.to_owned())
    }

    /// Whether it manages the sessions of agents that have no owner: the operator, or a client with the token itself.
    pub(crate) fn is_operator(&self) -> bool {
        match self {
            Self::Principal(name) => name == LOCAL_PRINCIPAL,
            Self::Token { subject } => subject.is_none(),
        }
    }
}
