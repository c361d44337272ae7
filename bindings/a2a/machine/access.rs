//! Whether a connection may do anything: the token that it shows, and when that ends.

use super::super::ConnectionId;
use super::super::auth::{Credentials, expired};
use super::super::codes::{ErrorCode, Refusal};
use super::super::owner::Owner;
use super::super::wire::Type;
use super::{Access, Fault, Gateway, Turn, close_code};

impl Access {
    /// When the connection ends unless its client shows a token, or a newer one.
    pub(super) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Granted { until_ms } => *until_ms,
            Self::AwaitingToken { until_ms, .. } => Some(*until_ms),
        }
    }
}

impl Gateway {
    /// Refuses what a connection may not send without a token that is still good.
    pub(super) fn check_access(&self, id: ConnectionId, kind: Type, now_ms: u64) -> Result<(), Fault> {
        let access = self.connections.get(&id).map(|connection| &connection.access);
        match access {
            Some(Access::Granted { until_ms: Some(until_ms) })
                if *until_ms <= now_ms && kind != Type::Auth =>
            {
                Err(unauthorized(expired()))
            }
            Some(Access::Granted { .. }) => Ok(()),
            _ if kind.is_free() => Ok(()),
            _ => Err(Refusal::new(ErrorCode::AuthRequired, "show your token first").into()),
        }
    }

    /// Ends the connections whose token did not come in time, or has expired.
    pub(super) fn end_without_access(&mut self, turn: &mut Turn<'_>) {
        let is_late = |access: &Access| access.until_ms().is_some_and(|until_ms| until_ms <= turn.now_ms);
        let late = self.connections.iter().filter(|(_, connection)| is_late(&connection.access));
        let mut late: Vec<_> = late.map(|(id, _)| *id).collect();
        late.sort_unstable();
        for id in late {
            let refusal = match self.connections.get(&id).map(|connection| &connection.access) {
                Some(Access::Granted { .. }) => expired(),
                _ => Refusal::new(ErrorCode::ConnectionTimeout, "no token in time"),
            };
            self.conclude(id, Err(unauthorized(refusal)), None, turn);
        }
    }

    /// Where no token is wanted, any will do. A newer token of the same client takes the place of the former.
    pub(super) fn admit(&mut self, id: ConnectionId, token: &str, turn: &mut Turn<'_>) -> Result<(), Fault> {
        let Some(wanted) = &self.settings.token else { return Ok(()) };
        let Credentials { subject, expires_ms } = wanted.check(token, turn.now_ms).map_err(unauthorized)?;
        let owner = Owner::Token { subject };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.is_local {
            return Ok(());
        }
        if connection.owner.as_ref().is_some_and(|known| *known != owner) {
            let message = "the token was issued to another client";
            return Err(Refusal::new(ErrorCode::PermissionDenied, message).into());
        }
        connection.owner = Some(owner);
        match std::mem::replace(&mut connection.access, Access::Granted { until_ms: expires_ms }) {
            Access::Granted { .. } => {}
            Access::AwaitingToken { claims, .. } => {
                for claim in claims {
                    self.bind(id, &claim, turn)?;
                }
            }
        }
        Ok(())
    }
}

fn unauthorized(refusal: Refusal) -> Fault {
    Fault { refusal, closes_with: Some(close_code::UNAUTHORIZED) }
}
