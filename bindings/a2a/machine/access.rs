//! Authentication of connections: tokens, and when they expire.

use super::super::ConnectionId;
use super::super::auth::{Credentials, token_expired};
use super::super::codes::{ErrorCode, GatewayError};
use super::super::owner::Owner;
use super::super::wire::FrameType;
use super::{Access, FrameError, Gateway, Step, close_code};

impl Access {
    /// Returns when the connection is closed unless the client presents a token, or a newer one.
    pub(super) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Authenticated { until_ms } => *until_ms,
            Self::AwaitingToken { until_ms, .. } => Some(*until_ms),
        }
    }
}

impl Gateway {
    /// Refuses frames that need a valid token.
    pub(super) fn check_access(
        &self,
        id: ConnectionId,
        kind: FrameType,
        now_ms: u64,
    ) -> Result<(), FrameError> {
        let access = self.connections.get(&id).map(|connection| &connection.access);
        match access {
            Some(Access::Authenticated { until_ms: Some(until_ms) })
                if *until_ms <= now_ms && kind != FrameType::Auth =>
            {
                Err(unauthorized(token_expired()))
            }
            Some(Access::Authenticated { .. }) => Ok(()),
            _ if kind.is_allowed_before_auth() => Ok(()),
            _ => {
                Err(GatewayError::new(ErrorCode::AuthRequired, "authentication required: send `auth` first")
                    .into())
            }
        }
    }

    /// Closes the connections whose token is late or has expired.
    pub(super) fn close_unauthenticated(&mut self, step: &mut Step<'_>) {
        let is_late = |access: &Access| access.until_ms().is_some_and(|until_ms| until_ms <= step.now_ms);
        let late = self.connections.iter().filter(|(_, connection)| is_late(&connection.access));
        let mut late: Vec<_> = late.map(|(id, _)| *id).collect();
        late.sort_unstable();
        for id in late {
            let error = match self.connections.get(&id).map(|connection| &connection.access) {
                Some(Access::Authenticated { .. }) => token_expired(),
                _ => GatewayError::new(ErrorCode::ConnectionTimeout, "authentication timed out"),
            };
            self.report_result(id, Err(unauthorized(error)), None, step);
        }
    }

    /// Authenticates a connection, or replaces its token by a newer one of the same client. A
    /// gateway without a token accepts any.
    pub(super) fn accept_token(
        &mut self,
        id: ConnectionId,
        token: &str,
        step: &mut Step<'_>,
    ) -> Result<(), FrameError> {
        let Some(expected) = &self.settings.token else { return Ok(()) };
        let Credentials { subject, expires_ms } = expected.check(token, step.now_ms).map_err(unauthorized)?;
        let owner = Owner::Token { subject };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.is_local {
            return Ok(());
        }
        if connection.owner.as_ref().is_some_and(|known| *known != owner) {
            let message = "the token has another `sub` than the connection";
            return Err(GatewayError::new(ErrorCode::PermissionDenied, message).into());
        }
        connection.owner = Some(owner);
        match std::mem::replace(&mut connection.access, Access::Authenticated { until_ms: expires_ms }) {
            Access::Authenticated { .. } => {}
            Access::AwaitingToken { claims, .. } => {
                for claim in claims {
                    self.bind_agent(id, &claim, step)?;
                }
            }
        }
        Ok(())
    }
}

fn unauthorized(error: GatewayError) -> FrameError {
    FrameError { error, closes_with: Some(close_code::UNAUTHORIZED) }
}
