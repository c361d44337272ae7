//! Frames between clients and agents: messages, requests, replies, events and broadcasts.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::GatewayError;
use super::super::content::Channel;
use super::super::correlation::{ReplyAddress, ReplyWaiter};
use super::super::sessions::{Entry, SESSION_DEFAULT};
use super::super::wire::{self, Envelope, FrameType, gateway_frame};
use super::delivery::check_ttl;
use super::{FrameError, Gateway, Step};

impl Gateway {
    pub(super) fn handle_message(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        role: String,
        content: Value,
        step: &mut Step<'_>,
    ) -> Result<(), FrameError> {
        let sender = self.resolve_sender(id, envelope.from.as_deref(), step)?;
        if let Some(waiter) = self.take_waiter(id, &envelope) {
            let entry = session_entry(&envelope, role, content, waiter.session_id.as_deref(), step.now_ms);
            if self.registry.contains(&sender)
                && let Err(error) = self.append_entry(&sender, &entry, step)
            {
                // The requester still gets the reply: the failure is not its fault.
                tracing::warn!(agent = sender, %error, "storing a reply failed");
            }
            step.send(waiter.requester, reply_frame(envelope, &sender, &waiter, step.now_ms));
            return Ok(());
        }
        let entry = session_entry(&envelope, role, content, None, step.now_ms);
        let message = self.address_message(id, sender, envelope, step.now_ms)?;
        if self.registry.contains(&message.agent) {
            self.append_entry(&message.agent, &entry, step).map_err(GatewayError::from)?;
        }
        Ok(self.deliver_or_queue(message, step)?)
    }

    pub(super) fn handle_request(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let sender = self.resolve_sender(id, envelope.from.as_deref(), step)?;
        let message = self.address_message(id, sender, envelope, step.now_ms)?;
        self.deliver_or_queue(message, step)
    }

    pub(super) fn handle_response(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let has_correlation = envelope.metadata.correlation_id.is_some();
        match self.forward_reply(id, envelope, step)? {
            true => Ok(()),
            false if has_correlation => Err(GatewayError::invalid(
                "metadata.correlationId",
                "the correlation of a pending request to this agent",
            )),
            false => Err(GatewayError::missing("metadata.correlationId")),
        }
    }

    /// Sends a reply to its requester; returns false if none waits for it.
    pub(super) fn forward_reply(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        step: &mut Step<'_>,
    ) -> Result<bool, GatewayError> {
        let sender = self.resolve_sender(id, envelope.from.as_deref(), step)?;
        let waiter = self.take_waiter(id, &envelope);
        if let Some(waiter) = &waiter {
            step.send(waiter.requester, reply_frame(envelope, &sender, waiter, step.now_ms));
        }
        Ok(waiter.is_some())
    }

    pub(super) fn handle_event(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        event: &str,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let sender =
            self.resolve_own_agent(id, envelope.from.as_deref(), "only an agent can send events", step)?;
        let mut frame = stamp_frame(envelope, &sender, step.now_ms);
        frame["event"] = json!(event);
        self.publish(Channel::Events, &sender, &frame, step);
        Ok(())
    }

    /// Sends a frame to every online agent but its sender, and replies with the receivers.
    pub(super) fn broadcast(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let sender = self.resolve_sender(id, envelope.from.as_deref(), step)?;
        check_ttl(&envelope, step.now_ms)?;
        let correlation_id = envelope.metadata.correlation_id.clone();
        let frame = stamp_frame(envelope, &sender, step.now_ms);
        let mut receivers = Vec::new();
        for (agent, connection) in self.registry.online_agents() {
            if agent != sender {
                step.send_copy(connection, &agent, &frame);
                receivers.push(agent);
            }
        }
        let content = json!({"result": {"delivered": receivers.len(), "agents": receivers}});
        step.send(id, gateway_frame(FrameType::Response, content, correlation_id.as_deref(), step.now_ms));
        Ok(())
    }

    /// Removes and returns the requester that waits for this frame.
    fn take_waiter(&mut self, id: ConnectionId, envelope: &Envelope) -> Option<ReplyWaiter> {
        let metadata = &envelope.metadata;
        let correlation_id = metadata.correlation_id.as_deref()?;
        let to = envelope.agent.as_deref().map(|name| {
            let connection = self.registry.connection(name).or_else(|| self.clients.get(name).copied());
            ReplyAddress { name, connection }
        });
        self.correlations.take(id, correlation_id, metadata.parent_id.as_deref(), to)
    }
}

/// Builds the entry that stores a message in its session.
fn session_entry(
    envelope: &Envelope,
    role: String,
    content: Value,
    session_of_request: Option<&str>,
    now_ms: u64,
) -> Entry {
    let session_id = envelope.session_id.as_deref().or(session_of_request).unwrap_or(SESSION_DEFAULT);
    Entry {
        timestamp_ms: envelope.timestamp_ms.unwrap_or(now_ms),
        role,
        content,
        session_id: session_id.to_owned(),
        id: envelope.id.clone().unwrap_or_default(),
    }
}

/// Builds the reply as its requester gets it.
fn reply_frame(envelope: Envelope, sender: &str, waiter: &ReplyWaiter, now_ms: u64) -> Value {
    let mut frame = stamp_frame(envelope, sender, now_ms);
    frame["agent"] = json!(waiter.sender);
    if let (None, Some(session_id)) = (frame.get("sessionId"), &waiter.session_id) {
        frame["sessionId"] = json!(session_id);
    }
    wire::set_correlation_id(&mut frame, &waiter.correlation_id);
    frame
}

/// Sets id, sender and timestamp of a frame that is forwarded.
pub(super) fn stamp_frame(envelope: Envelope, sender: &str, now_ms: u64) -> Value {
    let mut frame = Value::Object(envelope.fields);
    frame["id"] = json!(envelope.id);
    frame["from"] = json!(sender);
    frame["timestamp"] = json!(envelope.timestamp_ms.unwrap_or(now_ms));
    frame
}
