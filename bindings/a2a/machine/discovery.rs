//! Discovery of agents, workspaces and services; status changes and events for subscribers.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::GatewayError;
use super::super::content::{Channel, Discovery};
use super::super::registry::{Status, StatusChange};
use super::super::wire::{Envelope, FrameType, gateway_frame};
use super::{Gateway, Step};

impl Gateway {
    pub(super) fn discover(
        &self,
        id: ConnectionId,
        target: Discovery,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) {
        let content = match target {
            Discovery::Agents => json!({"agents": self.registry.list_agents()}),
            Discovery::Workspaces => json!({"workspaces": self.registry.list_workspaces(None)}),
            Discovery::Services => json!({"services": self.settings.services}),
        };
        step.send(id, gateway_frame(FrameType::Discovery, content, correlation_id, step.now_ms));
    }

    pub(super) fn list_workspaces(
        &self,
        id: ConnectionId,
        agent: Option<&str>,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        if let Some(agent) = agent {
            self.registry.check_exists(agent)?;
        }
        let content = json!({"workspaces": self.registry.list_workspaces(agent)});
        step.send(id, gateway_frame(FrameType::Workspace, content, correlation_id, step.now_ms));
        Ok(())
    }

    pub(super) fn subscribe(
        &mut self,
        id: ConnectionId,
        channel: Channel,
        agents: Option<Vec<String>>,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) {
        let mut content = json!({"channel": channel.name(), "status": "subscribed"});
        if let Some(agents) = &agents {
            content["agents"] = json!(agents);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.subscriptions.insert(channel, agents);
        }
        step.send(id, gateway_frame(FrameType::Subscribe, content, correlation_id, step.now_ms));
    }

    pub(super) fn unsubscribe(
        &mut self,
        id: ConnectionId,
        channel: Channel,
        correlation_id: Option<&str>,
        step: &mut Step<'_>,
    ) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.subscriptions.remove(&channel);
        }
        let content = json!({"channel": channel.name(), "status": "unsubscribed"});
        step.send(id, gateway_frame(FrameType::Unsubscribe, content, correlation_id, step.now_ms));
    }

    /// Sets the status of an agent of the connection.
    pub(super) fn set_status(
        &mut self,
        id: ConnectionId,
        envelope: &Envelope,
        status: Status,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let agent =
            self.resolve_own_agent(id, envelope.from.as_deref(), "only an agent can set a status", step)?;
        if let Some(change) = self.registry.set_status(&agent, status) {
            self.publish_status(&change, step);
        }
        self.deliver_queued(&agent, step);
        Ok(())
    }

    pub(super) fn publish_status(&self, change: &StatusChange, step: &mut Step<'_>) {
        let content = json!({
            "channel": Channel::Status.name(),
            "agent": change.agent,
            "status": change.status.name(),
            "previous": change.previous.name(),
        });
        let mut frame = gateway_frame(FrameType::Status, content, None, step.now_ms);
        frame["agent"] = json!(change.agent);
        self.publish(Channel::Status, &change.agent, &frame, step);
    }

    /// Sends a frame to the subscribers of a channel that want that agent.
    pub(super) fn publish(&self, channel: Channel, agent: &str, frame: &Value, step: &mut Step<'_>) {
        let mut subscribers: Vec<_> = self
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
        subscribers.sort_unstable();
        for id in subscribers {
            step.send(id, frame.clone());
        }
    }
}
