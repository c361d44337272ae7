//! Who may use an agent name in `from`, register it, and read its sessions.
//!
//! Names are addresses that all connections see. Each belongs to the owner in the configuration,
//! else to the owner that registered it, for as long as it is registered or its workspace has
//! sessions.

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, GatewayError};
use super::super::content::validate_agent_name;
use super::super::owner::Owner;
use super::super::sessions::{Entry, SessionError};
use super::super::wire;
use super::{Gateway, Step};

impl Gateway {
    /// Returns the sender of a frame: the name in `from`, if it is one of the connection or has no
    /// other owner.
    pub(super) fn resolve_sender(
        &self,
        id: ConnectionId,
        claimed: Option<&str>,
        step: &Step<'_>,
    ) -> Result<String, GatewayError> {
        let denied = |message: String| Err(GatewayError::new(ErrorCode::PermissionDenied, message));
        let names = self.registry.names_of_connection(id);
        let client_id = self.client_id(id);
        match claimed {
            None => Ok(match names.as_slice() {
                [only] => only.clone(),
                _ => client_id,
            }),
            Some(name) if names.iter().any(|own| own == name) || name == client_id => Ok(name.to_owned()),
            Some(name) if !names.is_empty() || name == wire::GATEWAY => {
                denied(format!("from: this connection is not {}", wire::truncate_name(name)))
            }
            Some(name) if self.registry.connection(name).is_some() || self.clients.contains_key(name) => {
                denied(format!("from: {} is another connection", wire::truncate_name(name)))
            }
            Some(name) => {
                let name = validate_agent_name(name.to_owned())?;
                self.check_owner(id, &name, step)?;
                Ok(name)
            }
        }
    }

    /// Returns the sender of a frame if it is an agent of the connection, else an error with the
    /// message `denied`.
    pub(super) fn resolve_own_agent(
        &self,
        id: ConnectionId,
        claimed: Option<&str>,
        denied: &str,
        step: &Step<'_>,
    ) -> Result<String, GatewayError> {
        let sender = self.resolve_sender(id, claimed, step)?;
        if self.registry.connection(&sender) != Some(id) {
            return Err(GatewayError::new(ErrorCode::PermissionDenied, denied));
        }
        Ok(sender)
    }

    /// Refuses a name that belongs to another owner.
    pub(super) fn check_owner(
        &self,
        id: ConnectionId,
        name: &str,
        step: &Step<'_>,
    ) -> Result<(), GatewayError> {
        match self.name_owner(name, step)? {
            Some(owner) if self.connection_owner(id) != Some(&owner) => Err(owned_by_other(name)),
            _ => Ok(()),
        }
    }

    /// Refuses the sessions of an agent of another owner. Those of an agent without an owner belong
    /// to the operator.
    pub(super) fn check_session_access(
        &self,
        id: ConnectionId,
        agent: &str,
        step: &Step<'_>,
    ) -> Result<(), GatewayError> {
        self.registry.check_exists(agent)?;
        let own = self.connection_owner(id);
        let is_allowed = match self.name_owner(agent, step)? {
            Some(owner) => own == Some(&owner),
            None => self.settings.shared || own.is_some_and(Owner::is_operator),
        };
        if is_allowed { Ok(()) } else { Err(owned_by_other(agent)) }
    }

    /// Stores an entry, and with it the owner of a registered agent.
    pub(super) fn append_entry(
        &self,
        agent: &str,
        entry: &Entry,
        step: &mut Step<'_>,
    ) -> Result<(), SessionError> {
        self.store_owner(agent, step)?;
        step.sessions.append(agent, entry)
    }

    /// Stores the owner of a registered agent.
    pub(super) fn store_owner(&self, agent: &str, step: &mut Step<'_>) -> Result<(), SessionError> {
        match self.registered_owner(agent) {
            Some(owner) => step.sessions.set_owner(agent, &owner),
            None => Ok(()),
        }
    }

    /// Makes the owner of a newly registered agent the owner of its sessions, if those have none.
    pub(super) fn claim_unowned_sessions(&self, agent: &str, step: &mut Step<'_>) {
        if step.sessions.has_sessions(agent)
            && let Err(error) = self.store_owner(agent, step)
        {
            tracing::warn!(agent, %error, "storing the owner of an agent failed");
        }
    }

    /// Returns the owner of the connection that has a name, unless names are shared.
    fn registered_owner(&self, agent: &str) -> Option<Owner> {
        if self.settings.shared {
            return None;
        }
        self.registry.connection(agent).and_then(|connection| self.connection_owner(connection)).cloned()
    }

    fn connection_owner(&self, id: ConnectionId) -> Option<&Owner> {
        self.connections.get(&id)?.owner.as_ref()
    }

    fn name_owner(&self, name: &str, step: &Step<'_>) -> Result<Option<Owner>, GatewayError> {
        if self.settings.shared {
            return Ok(None);
        }
        if let Some(principal) = self.settings.owners.get(name) {
            return Ok(Some(Owner::Principal(principal.clone())));
        }
        match self.registered_owner(name) {
            Some(owner) => Ok(Some(owner)),
            None => Ok(step.sessions.owner(name)?),
        }
    }
}

fn owned_by_other(name: &str) -> GatewayError {
    let message = format!("{} belongs to another principal", wire::truncate_name(name));
    GatewayError::new(ErrorCode::PermissionDenied, message)
}
