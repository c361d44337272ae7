//! Delivery of messages to agents: directly, or from a queue when the agent can take them.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, GatewayError};
use super::super::correlation::{REPLIES_PER_AGENT_MAX, REPLY_MS_MAX, ReplyWaiter};
use super::super::priority_queue::PriorityQueue;
use super::super::wire::{self, Envelope, FrameType, Priority, gateway_frame};
use super::routing::stamp_frame;
use super::{Gateway, Step};

/// Queued messages of all agents together. They are in memory: 64 MiB with the longest ones.
pub(super) const QUEUED_MESSAGES_MAX: usize = 1024;

/// Longest message that is queued, in bytes.
pub(super) const QUEUED_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// A message to an agent.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) sender_connection: ConnectionId,
    pub(super) agent: String,
    frame: Value,
    priority: Priority,
    /// Whether the message may wait in a queue.
    is_queueable: bool,
    /// The requester, if a reply is expected.
    waiter: Option<ReplyWaiter>,
    expires_ms: Option<u64>,
}

impl Gateway {
    /// Prepares a frame for the agent that it names.
    pub(super) fn address_message(
        &self,
        id: ConnectionId,
        sender: String,
        envelope: Envelope,
        now_ms: u64,
    ) -> Result<QueuedMessage, GatewayError> {
        let agent = envelope.agent.clone().ok_or_else(|| GatewayError::missing("agent"))?;
        if !self.clients.contains_key(&agent) {
            self.registry.check_exists(&agent)?;
        }
        let expires_ms = check_ttl(&envelope, now_ms)?;
        let metadata = envelope.metadata.clone();
        let session_id = envelope.session_id.clone();
        let message_id = envelope.id.clone().unwrap_or_default();
        let mut frame = stamp_frame(envelope, &sender, now_ms);
        let own_id = metadata.requires_response.then(|| message_id.clone());
        let waiter = metadata.correlation_id.or(own_id).map(|correlation_id| {
            wire::set_correlation_id(&mut frame, &correlation_id);
            let reply_deadline_ms = now_ms.saturating_add(REPLY_MS_MAX);
            let expires_ms = expires_ms.unwrap_or(u64::MAX).min(reply_deadline_ms);
            let agent = agent.clone();
            ReplyWaiter { requester: id, sender, agent, message_id, session_id, correlation_id, expires_ms }
        });
        Ok(QueuedMessage {
            sender_connection: id,
            agent,
            frame,
            priority: metadata.priority,
            is_queueable: metadata.queue,
            waiter,
            expires_ms,
        })
    }

    /// Delivers a message, or queues it if it is queueable and there is room.
    pub(super) fn deliver_or_queue(
        &mut self,
        message: QueuedMessage,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        let error = match self.connection_of(&message.agent) {
            Ok(connection) => return self.deliver(message, connection, step),
            Err(error) => error,
        };
        let is_temporary = matches!(error.code, ErrorCode::AgentOffline | ErrorCode::AgentBusy);
        let queued: usize = self.queues.values().map(PriorityQueue::len).sum();
        let has_room =
            || queued < QUEUED_MESSAGES_MAX && message.frame.to_string().len() <= QUEUED_MESSAGE_BYTES_MAX;
        if !message.is_queueable || !is_temporary || !has_room() {
            return Err(error);
        }
        let (sender, agent) = (message.sender_connection, message.agent.clone());
        let correlation_id = message.waiter.as_ref().map(|waiter| waiter.correlation_id.clone());
        let queue = self.queues.entry(agent.clone()).or_default();
        queue.push(message.priority, message).map_err(|_| error)?;
        let content = json!({"agent": agent, "queued": true, "waiting": queue.len()});
        step.send(sender, gateway_frame(FrameType::Status, content, correlation_id.as_deref(), step.now_ms));
        Ok(())
    }

    fn connection_of(&self, agent: &str) -> Result<ConnectionId, GatewayError> {
        match self.clients.get(agent) {
            Some(client) => Ok(*client),
            None => self.registry.reachable_connection(agent),
        }
    }

    fn deliver(
        &mut self,
        message: QueuedMessage,
        connection: ConnectionId,
        step: &mut Step<'_>,
    ) -> Result<(), GatewayError> {
        if let Some(waiter) = message.waiter {
            if !self.correlations.has_room(connection) {
                let text = format!("{}: {REPLIES_PER_AGENT_MAX} replies are pending", message.agent);
                return Err(GatewayError::new(ErrorCode::AgentBusy, text));
            }
            self.correlations.add(connection, waiter);
        }
        step.send(connection, message.frame);
        Ok(())
    }

    /// Delivers the queued messages of an agent for as long as it accepts them.
    pub(super) fn deliver_queued(&mut self, agent: &str, step: &mut Step<'_>) {
        while self.registry.reachable_connection(agent).is_ok()
            && let Some(message) = self.queues.get_mut(agent).and_then(PriorityQueue::pop)
        {
            if message.expires_ms.is_some_and(|at| at <= step.now_ms) {
                self.report_expired(&message, step);
                continue;
            }
            let sender = message.sender_connection;
            let correlation_id = message.waiter.as_ref().map(|waiter| waiter.correlation_id.clone());
            if let Err(error) = self.deliver_or_queue(message, step) {
                step.send_error(sender, &error, correlation_id.as_deref());
            }
        }
        if self.queues.get(agent).is_some_and(PriorityQueue::is_empty) {
            self.queues.remove(agent);
        }
    }

    /// Fails expired waiters and queued messages.
    pub(super) fn run_maintenance(&mut self, step: &mut Step<'_>) {
        for waiter in self.correlations.take_expired(step.now_ms) {
            let message = format!("Agent did not reply in time: {}", waiter.agent);
            self.fail_waiter(&waiter, &GatewayError::new(ErrorCode::AgentError, message), step);
        }
        let mut expired = Vec::new();
        self.queues.retain(|_, queue| {
            expired.extend(
                queue.take_matching(|message| message.expires_ms.is_some_and(|at| at <= step.now_ms)),
            );
            !queue.is_empty()
        });
        for message in &expired {
            self.report_expired(message, step);
        }
    }

    fn report_expired(&self, message: &QueuedMessage, step: &mut Step<'_>) {
        let correlation_id = message.waiter.as_ref().map(|waiter| waiter.correlation_id.as_str());
        step.send_error(message.sender_connection, &ttl_expired(), correlation_id);
    }

    /// Fails the waiters for an agent that has left a connection.
    pub(super) fn fail_waiters(&mut self, at: ConnectionId, agent: &str, step: &mut Step<'_>) {
        for waiter in self.correlations.take_for_agent(at, agent) {
            let message = format!("Agent went offline before it replied: {agent}");
            self.fail_waiter(&waiter, &GatewayError::new(ErrorCode::AgentOffline, message), step);
        }
    }

    pub(super) fn fail_waiter(&self, waiter: &ReplyWaiter, error: &GatewayError, step: &mut Step<'_>) {
        if self.connections.contains_key(&waiter.requester) {
            step.send_error(waiter.requester, error, Some(&waiter.correlation_id));
        }
    }
}

/// Refuses an expired message; returns when a valid one expires.
pub(super) fn check_ttl(envelope: &Envelope, now_ms: u64) -> Result<Option<u64>, GatewayError> {
    let Some(ttl_ms) = envelope.metadata.ttl_ms else { return Ok(None) };
    let expires_ms = envelope.timestamp_ms.unwrap_or(now_ms).saturating_add(ttl_ms);
    if expires_ms <= now_ms { Err(ttl_expired()) } else { Ok(Some(expires_ms)) }
}

fn ttl_expired() -> GatewayError {
    GatewayError::new(ErrorCode::InvalidContent, "message ttl expired")
}
