//! Messages from one to another: where they go, who gets the answer, and what waits.

use serde_json::{Value, json};

use super::super::ConnectionId;
use super::super::codes::{ErrorCode, Refusal};
use super::super::content::Channel;
use super::super::correlation::{ANSWER_MS_MAX, ANSWERS_OWED_MAX, Address, Waiting};
use super::super::parked::Parked;
use super::super::sessions::{Entry, SESSION_DEFAULT};
use super::super::wire::{self, Envelope, Priority, Type, from_gateway};
use super::{Fault, Gateway, Turn};

/// Messages that wait, for all agents together. What waits is held in memory: with the longest ones, 64 MiB.
pub(super) const LETTERS_WAITING_MAX: usize = 1024;

/// Longest message that may wait, in bytes.
pub(super) const LETTER_WAITING_BYTES_MAX: usize = 64 << 10;

/// A frame on its way to an agent.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) sender_connection: ConnectionId,
    agent: String,
    frame: Value,
    priority: Priority,
    may_wait: bool,
    /// Where an answer is expected: who gets it.
    waiting: Option<Waiting>,
    /// When nobody wants it any more.
    expires_ms: Option<u64>,
}

impl Gateway {
    pub(super) fn message(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        role: String,
        content: Value,
        turn: &mut Turn<'_>,
    ) -> Result<(), Fault> {
        let sender = self.sender(id, envelope.from.as_deref(), turn)?;
        if let Some(waiting) = self.answered(id, &envelope) {
            let entry = entry(&envelope, role, content, waiting.session_id.as_deref(), turn.now_ms);
            if self.registry.knows(&sender)
                && let Err(error) = self.keep(&sender, &entry, turn)
            {
                // Whoever waits for the answer did nothing wrong.
                tracing::warn!(agent = sender, %error, "an answer was not kept");
            }
            turn.send(waiting.requester, answer(envelope, &sender, &waiting, turn.now_ms));
            return Ok(());
        }
        let entry = entry(&envelope, role, content, None, turn.now_ms);
        let letter = self.letter(id, sender, envelope, turn.now_ms)?;
        if self.registry.knows(&letter.agent) {
            self.keep(&letter.agent, &entry, turn).map_err(Refusal::from)?;
        }
        Ok(self.dispatch(letter, turn)?)
    }

    pub(super) fn request(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let sender = self.sender(id, envelope.from.as_deref(), turn)?;
        let letter = self.letter(id, sender, envelope, turn.now_ms)?;
        self.dispatch(letter, turn)
    }

    pub(super) fn respond(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let has_correlation = envelope.metadata.correlation_id.is_some();
        match self.pass_answer(id, envelope, turn)? {
            true => Ok(()),
            false if has_correlation => {
                Err(Refusal::invalid("metadata.correlationId", "that of a request to this agent"))
            }
            false => Err(Refusal::missing("metadata.correlationId")),
        }
    }

    /// Gives a frame to whoever waits for it as an answer; false if nobody does.
    pub(super) fn pass_answer(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<bool, Refusal> {
        let sender = self.sender(id, envelope.from.as_deref(), turn)?;
        let waiting = self.answered(id, &envelope);
        if let Some(waiting) = &waiting {
            turn.send(waiting.requester, answer(envelope, &sender, waiting, turn.now_ms));
        }
        Ok(waiting.is_some())
    }

    pub(super) fn event(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        event: &str,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let sender = self.agent_of(id, envelope.from.as_deref(), "only an agent announces events", turn)?;
        let mut frame = stamped(envelope, &sender, turn.now_ms);
        frame["event"] = json!(event);
        self.publish(Channel::Events, &sender, &frame, turn);
        Ok(())
    }

    /// Goes to every agent but the one that sends it, and says whom it reached.
    pub(super) fn broadcast(
        &mut self,
        id: ConnectionId,
        envelope: Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let sender = self.sender(id, envelope.from.as_deref(), turn)?;
        check_age(&envelope, turn.now_ms)?;
        let correlation_id = envelope.metadata.correlation_id.clone();
        let frame = stamped(envelope, &sender, turn.now_ms);
        let mut reached = Vec::new();
        for (agent, seat) in self.registry.present() {
            if agent != sender {
                turn.send_copy(seat, &agent, &frame);
                reached.push(agent);
            }
        }
        let content = json!({"result": {"delivered": reached.len(), "agents": reached}});
        turn.send(id, from_gateway(Type::Response, content, correlation_id.as_deref(), turn.now_ms));
        Ok(())
    }

    /// Gives an agent what waits for it, as long as it takes something.
    pub(super) fn hand_over_parked(&mut self, agent: &str, turn: &mut Turn<'_>) {
        while self.registry.reach(agent).is_ok()
            && let Some(letter) = self.parked.get_mut(agent).and_then(|letters| letters.pop())
        {
            if letter.expires_ms.is_some_and(|at| at <= turn.now_ms) {
                self.tell_expired(&letter, turn);
                continue;
            }
            let sender = letter.sender_connection;
            let correlation_id = letter.waiting.as_ref().map(|waiting| waiting.correlation_id.clone());
            if let Err(refusal) = self.dispatch(letter, turn) {
                turn.refuse(sender, &refusal, correlation_id.as_deref());
            }
        }
        if self.parked.get(agent).is_some_and(|letters| letters.is_empty()) {
            self.parked.remove(agent);
        }
    }

    /// Ends what has waited long enough.
    pub(super) fn keep_house(&mut self, turn: &mut Turn<'_>) {
        for waiting in self.correlations.expire(turn.now_ms) {
            let message = format!("Agent did not answer in time: {}", waiting.agent);
            self.fail(&waiting, &Refusal::new(ErrorCode::AgentError, message), turn);
        }
        let mut expired = Vec::new();
        self.parked.retain(|_, letters| {
            expired.extend(letters.take(|letter| letter.expires_ms.is_some_and(|at| at <= turn.now_ms)));
            !letters.is_empty()
        });
        for letter in &expired {
            self.tell_expired(letter, turn);
        }
    }

    fn tell_expired(&self, letter: &Letter, turn: &mut Turn<'_>) {
        let correlation_id = letter.waiting.as_ref().map(|waiting| waiting.correlation_id.as_str());
        turn.refuse(letter.sender_connection, &expired(), correlation_id);
    }

    /// Who waits for this frame, if it is an answer.
    fn answered(&mut self, id: ConnectionId, envelope: &Envelope) -> Option<Waiting> {
        let metadata = &envelope.metadata;
        let correlation_id = metadata.correlation_id.as_deref()?;
        let to = envelope.agent.as_deref().map(|name| {
            let holder = self.registry.seat(name).or_else(|| self.clients.get(name).copied());
            Address { name, holder }
        });
        self.correlations.settle(id, correlation_id, metadata.parent_id.as_deref(), to)
    }

    /// Addresses a frame to the agent that it is for.
    fn letter(
        &self,
        id: ConnectionId,
        sender: String,
        envelope: Envelope,
        now_ms: u64,
    ) -> Result<Letter, Refusal> {
        let agent = envelope.agent.clone().ok_or_else(|| Refusal::missing("agent"))?;
        if !self.clients.contains_key(&agent) {
            self.registry.known(&agent)?;
        }
        let expires_ms = check_age(&envelope, now_ms)?;
        let metadata = envelope.metadata.clone();
        let session_id = envelope.session_id.clone();
        let message_id = envelope.id.clone().unwrap_or_default();
        let mut frame = stamped(envelope, &sender, now_ms);
        let asks = metadata.requires_response.then(|| message_id.clone());
        let waiting = metadata.correlation_id.or(asks).map(|correlation_id| {
            wire::correlate(&mut frame, &correlation_id);
            let patience_ms = now_ms.saturating_add(ANSWER_MS_MAX);
            let expires_ms = expires_ms.unwrap_or(u64::MAX).min(patience_ms);
            let agent = agent.clone();
            Waiting { requester: id, sender, agent, message_id, session_id, correlation_id, expires_ms }
        });
        Ok(Letter {
            sender_connection: id,
            agent,
            frame,
            priority: metadata.priority,
            may_wait: metadata.queue,
            waiting,
            expires_ms,
        })
    }

    /// Delivers a letter, or keeps it if its sender wants that and there is room.
    fn dispatch(&mut self, letter: Letter, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let refusal = match self.seat_of(&letter.agent) {
            Ok(seat) => return self.deliver(letter, seat, turn),
            Err(refusal) => refusal,
        };
        let is_passing = matches!(refusal.code, ErrorCode::AgentOffline | ErrorCode::AgentBusy);
        let waiting: usize = self.parked.values().map(Parked::len).sum();
        let has_room =
            || waiting < LETTERS_WAITING_MAX && letter.frame.to_string().len() <= LETTER_WAITING_BYTES_MAX;
        if !letter.may_wait || !is_passing || !has_room() {
            return Err(refusal);
        }
        let (sender, agent) = (letter.sender_connection, letter.agent.clone());
        let correlation_id = letter.waiting.as_ref().map(|waiting| waiting.correlation_id.clone());
        let letters = self.parked.entry(agent.clone()).or_default();
        letters.push(letter.priority, letter).map_err(|_| refusal)?;
        let content = json!({"agent": agent, "queued": true, "waiting": letters.len()});
        turn.send(sender, from_gateway(Type::Status, content, correlation_id.as_deref(), turn.now_ms));
        Ok(())
    }

    fn seat_of(&self, agent: &str) -> Result<ConnectionId, Refusal> {
        match self.clients.get(agent) {
            Some(client) => Ok(*client),
            None => self.registry.reach(agent),
        }
    }

    fn deliver(&mut self, letter: Letter, seat: ConnectionId, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        if let Some(waiting) = letter.waiting {
            if !self.correlations.has_room(seat) {
                let message = format!("{} owes {ANSWERS_OWED_MAX} answers already", letter.agent);
                return Err(Refusal::new(ErrorCode::AgentBusy, message));
            }
            self.correlations.open(seat, waiting);
        }
        turn.send(seat, letter.frame);
        Ok(())
    }
}

/// What a message leaves in a session.
fn entry(
    envelope: &Envelope,
    role: String,
    content: Value,
    session_of_question: Option<&str>,
    now_ms: u64,
) -> Entry {
    let session_id = envelope.session_id.as_deref().or(session_of_question).unwrap_or(SESSION_DEFAULT);
    Entry {
        timestamp_ms: envelope.timestamp_ms.unwrap_or(now_ms),
        role,
        content,
        session_id: session_id.to_owned(),
        id: envelope.id.clone().unwrap_or_default(),
    }
}

/// An answer as whoever waits for it gets it.
fn answer(envelope: Envelope, sender: &str, waiting: &Waiting, now_ms: u64) -> Value {
    let mut frame = stamped(envelope, sender, now_ms);
    frame["agent"] = json!(waiting.sender);
    if let (None, Some(session_id)) = (frame.get("sessionId"), &waiting.session_id) {
        frame["sessionId"] = json!(session_id);
    }
    wire::correlate(&mut frame, &waiting.correlation_id);
    frame
}

/// A frame as it travels on: with its sender as we know it, an id, and the time in milliseconds.
pub(super) fn stamped(envelope: Envelope, sender: &str, now_ms: u64) -> Value {
    let mut frame = Value::Object(envelope.fields);
    frame["id"] = json!(envelope.id);
    frame["from"] = json!(sender);
    frame["timestamp"] = json!(envelope.timestamp_ms.unwrap_or(now_ms));
    frame
}

/// When a message is too old, unless it is already.
fn check_age(envelope: &Envelope, now_ms: u64) -> Result<Option<u64>, Refusal> {
    let Some(ttl_ms) = envelope.metadata.ttl_ms else { return Ok(None) };
    let expires_ms = envelope.timestamp_ms.unwrap_or(now_ms).saturating_add(ttl_ms);
    if expires_ms <= now_ms { Err(expired()) } else { Ok(Some(expires_ms)) }
}

fn expired() -> Refusal {
    Refusal::new(ErrorCode::InvalidContent, "the message outlived its ttl")
}
