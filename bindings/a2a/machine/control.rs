//! What concerns a connection itself: who it is, what it may do, what it wants to know.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, Refusal};
use super::super::content::{Channel, Discovery, agent_name};
use super::super::correlation::Waiting;
use super::super::registry::{Bound, ROLE_BYTES_MAX, Status, StatusChange};
use super::super::wire::{self, Envelope, PROTOCOL_VERSION, Type, from_gateway, text};
use super::{Access, CLAIMS_MAX, Claim, Fault, Gateway, Turn};

impl Gateway {
    /// What a connection brought along counts as if it had been sent first.
    pub(super) fn welcome(
        &mut self,
        id: ConnectionId,
        token: Option<String>,
        agent: Option<String>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Fault> {
        if let Some(agent) = agent {
            self.claim(id, Claim { name: agent_name(agent)?, role: None }, turn)?;
        }
        if let Some(token) = token {
            self.admit(id, &token, turn)?;
        }
        Ok(())
    }

    /// The answer goes out before anything that the new agent causes.
    pub(super) fn advertise(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let content = envelope.content().and_then(Value::as_object);
        let role = content.map_or(Ok(None), |content| text(content, "role"))?;
        if role.as_ref().is_some_and(|role| role.len() > ROLE_BYTES_MAX) {
            return Err(Refusal::invalid("content.role", &format!("at most {ROLE_BYTES_MAX} bytes")));
        }
        let claim = match &envelope.from {
            Some(name) if name == wire::GATEWAY => {
                return Err(Refusal::new(
                    ErrorCode::PermissionDenied,
                    "there is one gateway, and it is here",
                ));
            }
            // A client that says its own id wants to be nobody else.
            Some(name) if *name != self.client_id(id) => {
                Some(Claim { name: agent_name(name.clone())?, role })
            }
            _ => None,
        };
        let mark = turn.effects.len();
        if let Some(claim) = claim {
            self.claim(id, claim, turn)?;
        }
        let content = json!({
            "action": "acknowledge",
            "clientId": self.client_id(id),
            "availableAgents": self.registry.names(),
            "protocolVersion": PROTOCOL_VERSION,
        });
        let correlation_id = envelope.metadata.correlation_id.as_deref();
        turn.send_at(mark, id, from_gateway(Type::Handshake, content, correlation_id, turn.now_ms));
        Ok(())
    }

    /// The older gateway's way to become an agent.
    pub(super) fn register(
        &mut self,
        id: ConnectionId,
        name: String,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let mark = turn.effects.len();
        self.claim(id, Claim { name: name.clone(), role: None }, turn)?;
        let connected: Vec<_> = self.registry.present().into_iter().map(|(agent, _)| agent).collect();
        let content = json!({"agentId": name, "connectedAgents": connected});
        let mut frame = from_gateway(Type::Register, content, correlation_id, turn.now_ms);
        frame["type"] = json!("registered");
        frame["agentId"] = json!(name);
        frame["connectedAgents"] = json!(connected);
        turn.send_at(mark, id, frame);
        Ok(())
    }

    /// Makes a connection an agent, or notes that it wants to be one for when it has shown its token.
    fn claim(&mut self, id: ConnectionId, claim: Claim, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        if self.clients.contains_key(&claim.name) {
            return Err(Refusal::new(ErrorCode::PermissionDenied, "that is the id of a client"));
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match &mut connection.access {
            Access::Granted { .. } => self.bind(id, &claim, turn),
            Access::AwaitingToken { claims, .. } => {
                claims.retain(|made| made.name != claim.name);
                if claims.len() >= CLAIMS_MAX {
                    let message = format!("at most {CLAIMS_MAX} agents before the token");
                    return Err(Refusal::new(ErrorCode::AuthRequired, message));
                }
                claims.push(claim);
                Ok(())
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        id: ConnectionId,
        claim: &Claim,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        self.check_owner(id, &claim.name, turn)?;
        let Bound { displaced, change } = self.registry.bind(&claim.name, claim.role.as_deref(), id)?;
        if let Some(former) = displaced {
            self.abandon(former, &claim.name, turn);
        }
        if let Some(change) = change {
            self.announce(&change, turn);
        }
        self.adopt(&claim.name, turn);
        self.hand_over_parked(&claim.name, turn);
        Ok(())
    }

    pub(super) fn authenticate(
        &mut self,
        id: ConnectionId,
        token: &str,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Fault> {
        let mark = turn.effects.len();
        self.admit(id, token, turn)?;
        let content = json!({"status": "ok", "clientId": self.client_id(id)});
        turn.send_at(mark, id, from_gateway(Type::AuthResponse, content, correlation_id, turn.now_ms));
        Ok(())
    }

    pub(super) fn pong(&self, id: ConnectionId, correlation_id: Option<&str>, turn: &mut Turn<'_>) {
        turn.send(id, from_gateway(Type::Pong, json!({}), correlation_id, turn.now_ms));
    }

    pub(super) fn discover(
        &self,
        id: ConnectionId,
        what: Discovery,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) {
        let content = match what {
            Discovery::Agents => json!({"agents": self.registry.listing()}),
            Discovery::Workspaces => json!({"workspaces": self.registry.workspaces(None)}),
            Discovery::Services => json!({"services": self.settings.services}),
        };
        turn.send(id, from_gateway(Type::Discovery, content, correlation_id, turn.now_ms));
    }

    pub(super) fn list_workspaces(
        &self,
        id: ConnectionId,
        agent: Option<&str>,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        if let Some(agent) = agent {
            self.registry.known(agent)?;
        }
        let content = json!({"workspaces": self.registry.workspaces(agent)});
        turn.send(id, from_gateway(Type::Workspace, content, correlation_id, turn.now_ms));
        Ok(())
    }

    pub(super) fn subscribe(
        &mut self,
        id: ConnectionId,
        channel: Channel,
        agents: Option<Vec<String>>,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) {
        let mut content = json!({"channel": channel.name(), "status": "subscribed"});
        if let Some(agents) = &agents {
            content["agents"] = json!(agents);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.subscriptions.insert(channel, agents);
        }
        turn.send(id, from_gateway(Type::Subscribe, content, correlation_id, turn.now_ms));
    }

    pub(super) fn unsubscribe(
        &mut self,
        id: ConnectionId,
        channel: Channel,
        correlation_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.subscriptions.remove(&channel);
        }
        let content = json!({"channel": channel.name(), "status": "unsubscribed"});
        turn.send(id, from_gateway(Type::Unsubscribe, content, correlation_id, turn.now_ms));
    }

    /// An agent tells how it is; nobody else can.
    pub(super) fn set_status(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        status: Status,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let agent = self.agent_of(id, envelope.from.as_deref(), "only an agent has a status", turn)?;
        if let Some(change) = self.registry.set_status(&agent, status) {
            self.announce(&change, turn);
        }
        self.hand_over_parked(&agent, turn);
        Ok(())
    }

    /// Tells a change of state to those who want to know.
    pub(super) fn announce(&self, change: &StatusChange, turn: &mut Turn<'_>) {
        let content = json!({
            "channel": Channel::Status.name(),
            "agent": change.agent,
            "status": change.status.name(),
            "previous": change.previous.name(),
        });
        let mut frame = from_gateway(Type::Status, content, None, turn.now_ms);
        frame["agent"] = json!(change.agent);
        self.publish(Channel::Status, &change.agent, &frame, turn);
    }

    /// Sends a frame to all who listen to a channel, for that agent.
    pub(super) fn publish(&self, channel: Channel, agent: &str, frame: &Value, turn: &mut Turn<'_>) {
        let mut listeners: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let agents = connection.subscriptions.get(&channel);
                agents.is_some_and(|agents| {
                    agents.as_ref().is_none_or(|names| names.iter().any(|name| name == agent))
                })
            })
            .map(|(id, _)| *id)
            .collect();
        listeners.sort_unstable();
        for id in listeners {
            turn.send(id, frame.clone());
        }
    }

    /// An agent answers no more at a connection: those who wait are told.
    pub(super) fn abandon(&mut self, at: ConnectionId, agent: &str, turn: &mut Turn<'_>) {
        for waiting in self.correlations.abandon(at, agent) {
            let message = format!("Agent went offline before it answered: {agent}");
            self.fail(&waiting, &Refusal::new(ErrorCode::AgentOffline, message), turn);
        }
    }

    pub(super) fn fail(&self, waiting: &Waiting, refusal: &Refusal, turn: &mut Turn<'_>) {
        if self.connections.contains_key(&waiting.requester) {
            turn.refuse(waiting.requester, refusal, Some(&waiting.correlation_id));
        }
    }
}
