//! How connections become agents: handshakes, registration and authentication.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, GatewayError};
use super::super::content::validate_agent_name;
use super::super::registry::{BindOutcome, ROLE_BYTES_MAX};
use super::super::wire::{self, Envelope, FrameType, PROTOCOL_VERSION, gateway_frame, optional_string};
use super::{Access, CLAIMS_MAX, Claim, FrameError, Gateway, Step};

impl Gateway {
    /// Handles the agent name and the token of the query or the headers like a first frame.
    pub(super) fn apply_client_info(
        &mut self,
        id: ConnectionId,
        token: Option<String>,
        agent: Option<String>,
        step: &mut Step<'_>,
    ) -> Result<(), FrameError> {
        if let Some(agent) = agent {
            self.claim_name(id, Claim { name: validate_agent_name(agent)?, role: None }, step)?;
        }
        if let Some(token) = token {
            self.accept_token(id, &token, step)?;
        }
        Ok(())
    }

    /// Acknowledges a handshake, before any frame that the new agent causes.
    pub(super) fn advertise(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let content = envelope.content().and_then(Value::as_object);
        let role = content.map_or(Ok(None), |content| optional_string(content, "role"))?;
        if role.as_ref().is_some_and(|role| role.len() > ROLE_BYTES_MAX) {
            return Err(GatewayError::invalid("content.role", &format!("at most {ROLE_BYTES_MAX} bytes")));
        }
        let claim = match &envelope.from {
            Some(name) if name == wire::GATEWAY => {
                return Err(GatewayError::new(
                    ErrorCode::PermissionDenied,
                    "the name \"gateway\" is reserved",
                ));
            }
            // A client that sends its own id claims no name.
            Some(name) if *name != self.client_id(id) => {
                Some(Claim { name: validate_agent_name(name.clone())?, role })
            }
            _ => None,
        };
        let mark = step.effects.len();
        if let Some(claim) = claim {
            self.claim_name(id, claim, step)?;
        }
        let content = json!({
            "action": "acknowledge",
            "clientId": self.client_id(id),
            "availableAgents": self.registry.names(),
            "protocolVersion": PROTOCOL_VERSION,
        });
        let correlation_id = envelope.metadata.correlation_id.as_deref();
        step.send_at(mark, id, gateway_frame(FrameType::Handshake, content, correlation_id, step.now_ms));
        Ok(())
    }

    /// Handles the registration of the older gateway.
    pub(super) fn register(
        &mut self,
        id: ConnectionId,
        name: String,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let mark = step.effects.len();
        self.claim_name(id, Claim { name: name.clone(), role: None }, step)?;
        let connected: Vec<_> = self.registry.online_agents().into_iter().map(|(agent, _)| agent).collect();
        let content = json!({"agentId": name, "connectedAgents": connected});
        let mut frame = gateway_frame(FrameType::Register, content, correlation_id, step.now_ms);
        frame["type"] = json!("registered");
        frame["agentId"] = json!(name);
        frame["connectedAgents"] = json!(connected);
        step.send_at(mark, id, frame);
        Ok(())
    }

    /// Binds a name to a connection, now or once the connection has presented its token.
    fn claim_name(
        &mut self,
        id: ConnectionId,
        claim: Claim,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        if self.clients.contains_key(&claim.name) {
            return Err(GatewayError::new(ErrorCode::PermissionDenied, "the name is the id of a client"));
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match &mut connection.access {
            Access::Authenticated { .. } => self.bind_agent(id, &claim, step),
            Access::AwaitingToken { claims, .. } => {
                claims.retain(|other| other.name != claim.name);
                if claims.len() >= CLAIMS_MAX {
                    let message = format!("at most {CLAIMS_MAX} agents before authentication");
                    return Err(GatewayError::new(ErrorCode::AuthRequired, message));
                }
                claims.push(claim);
                Ok(())
            }
        }
    }

    pub(super) fn bind_agent(
        &mut self,
        id: ConnectionId,
        claim: &Claim,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        self.check_owner(id, &claim.name, step)?;
        let BindOutcome { displaced, change } = self.registry.bind(&claim.name, claim.role.as_deref(), id)?;
        if let Some(former) = displaced {
            self.fail_waiters(former, &claim.name, step);
        }
        if let Some(change) = change {
            self.publish_status(&change, step);
        }
        self.claim_unowned_sessions(&claim.name, step);
        self.deliver_queued(&claim.name, step);
        Ok(())
    }

    pub(super) fn authenticate(
        &mut self,
        id: ConnectionId,
        token: &str,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) -> Result<(), FrameError> {
        let mark = step.effects.len();
        self.accept_token(id, token, step)?;
        let content = json!({"status": "ok", "clientId": self.client_id(id)});
        step.send_at(mark, id, gateway_frame(FrameType::AuthResponse, content, correlation_id, step.now_ms));
        Ok(())
    }

    pub(super) fn send_pong(&self, id: ConnectionId, correlation_id: Option<&str>, step: &mut Step<'_>) {
        step.send(id, gateway_frame(FrameType::Pong, json!({}), correlation_id, step.now_ms));
    }
}
