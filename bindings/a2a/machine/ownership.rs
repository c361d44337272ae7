//! Who may bear a name, speak under it, and read what was said to it.
//!
//! Names are addresses that all connections see. Each belongs to the owner that the configuration names, else to the one
//! that registered it, for as long as it is registered or its workspace holds sessions.

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, Refusal};
use super::super::content::agent_name;
use super::super::owner::Owner;
use super::super::sessions::{Entry, SessionError};
use super::super::wire;
use super::{Gateway, Turn};

impl Gateway {
    /// Who a frame is from: the agent or client that it names, if that is the connection's or has no owner.
    pub(super) fn sender(
        &self,
        id: ConnectionId,
        claimed: Option<&str>,
        turn: &Turn<'_>,
    ) -> Result<String, Refusal> {
        let denied = |message: String| Err(Refusal::new(ErrorCode::PermissionDenied, message));
        let names = self.registry.names_of(id);
        let client_id = self.client_id(id);
        match claimed {
            None => Ok(match names.as_slice() {
                [only] => only.clone(),
                _ => client_id,
            }),
            Some(name) if names.iter().any(|own| own == name) || name == client_id => Ok(name.to_owned()),
            Some(name) if !names.is_empty() || name == wire::GATEWAY => {
                denied(format!("this connection is not {}", wire::cut(name)))
            }
            Some(name) if self.registry.seat(name).is_some() || self.clients.contains_key(name) => {
                denied(format!("{} is another connection", wire::cut(name)))
            }
            Some(name) => {
                let name = agent_name(name.to_owned())?;
                self.check_owner(id, &name, turn)?;
                Ok(name)
            }
        }
    }

    /// Which of its agents a connection speaks for; `only` says what others may not do.
    pub(super) fn agent_of(
        &self,
        id: ConnectionId,
        claimed: Option<&str>,
        only: &str,
        turn: &Turn<'_>,
    ) -> Result<String, Refusal> {
        let sender = self.sender(id, claimed, turn)?;
        if self.registry.seat(&sender) != Some(id) {
            return Err(Refusal::new(ErrorCode::PermissionDenied, only));
        }
        Ok(sender)
    }

    /// Refuses a name that belongs to another owner.
    pub(super) fn check_owner(&self, id: ConnectionId, name: &str, turn: &Turn<'_>) -> Result<(), Refusal> {
        match self.owner_of(name, turn)? {
            Some(owner) if self.owner(id) != Some(&owner) => Err(foreign(name)),
            _ => Ok(()),
        }
    }

    /// Refuses the sessions of an agent of another owner. Those of an agent without one are the operator's.
    pub(super) fn check_sessions(
        &self,
        id: ConnectionId,
        agent: &str,
        turn: &Turn<'_>,
    ) -> Result<(), Refusal> {
        self.registry.known(agent)?;
        let own = self.owner(id);
        let is_allowed = match self.owner_of(agent, turn)? {
            Some(owner) => own == Some(&owner),
            None => self.settings.shared || own.is_some_and(Owner::is_operator),
        };
        if is_allowed { Ok(()) } else { Err(foreign(agent)) }
    }

    /// Keeps an entry; the first one of a registered agent makes the disk remember its owner.
    pub(super) fn keep(&self, agent: &str, entry: &Entry, turn: &mut Turn<'_>) -> Result<(), SessionError> {
        self.keep_owner(agent, turn)?;
        turn.sessions.append(agent, entry)
    }

    /// Makes the disk remember whom a registered agent belongs to.
    pub(super) fn keep_owner(&self, agent: &str, turn: &mut Turn<'_>) -> Result<(), SessionError> {
        match self.bearer(agent) {
            Some(owner) => turn.sessions.set_owner(agent, &owner),
            None => Ok(()),
        }
    }

    /// An agent without an owner becomes the bearer's, with what was said to it before.
    pub(super) fn adopt(&self, agent: &str, turn: &mut Turn<'_>) {
        if turn.sessions.holds_any(agent)
            && let Err(error) = self.keep_owner(agent, turn)
        {
            tracing::warn!(agent, %error, "the owner of an agent was not kept");
        }
    }

    /// The owner of the connection that bears a name, where names have owners.
    fn bearer(&self, agent: &str) -> Option<Owner> {
        if self.settings.shared {
            return None;
        }
        self.registry.seat(agent).and_then(|seat| self.owner(seat)).cloned()
    }

    fn owner(&self, id: ConnectionId) -> Option<&Owner> {
        self.connections.get(&id)?.owner.as_ref()
    }

    fn owner_of(&self, name: &str, turn: &Turn<'_>) -> Result<Option<Owner>, Refusal> {
        if self.settings.shared {
            return Ok(None);
        }
        if let Some(principal) = self.settings.owners.get(name) {
            return Ok(Some(Owner::Principal(principal.clone())));
        }
        match self.bearer(name) {
            Some(owner) => Ok(Some(owner)),
            None => Ok(turn.sessions.owner(name)?),
        }
    }
}

fn foreign(name: &str) -> Refusal {
    let message = format!("{} belongs to another principal", wire::cut(name));
    Refusal::new(ErrorCode::PermissionDenied, message)
}
