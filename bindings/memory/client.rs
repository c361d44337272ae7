//! The other end of the protocol: one connection to a server, shared by all scripts, with a session for each principal
//! in each space and one for each watch.
//!
//! The connection may go and come back at any time. Sessions are then taken up again, commits whose outcome is unknown
//! are sent again (the server knows them by their numbers), and watches are restored. Who waits for a commit waits
//! through all of that; who waits for an answer to a question is told that the connection is gone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use super::auth::Identity;
use super::codec::{Data, Dialect, object};
use super::endpoint::now_seconds;
use super::wire::PROTOCOLS;
use crate::peering::{Conversation, Outbox};

mod ask;
mod mailbox;
mod replica;
mod watching;

pub(super) use ask::{Ask, ClientError, Mounted, Reply};
pub(super) use mailbox::Mailbox;
use replica::{Purpose, Replica, Send};

/// Sessions on one connection: principals times spaces, and watches.
pub(super) const REPLICAS_MAX: usize = 10_000;

/// Requests that wait for an answer on one connection.
pub(super) const REQUESTS_MAX: usize = 4096;

/// How to speak to a server.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) dialect: Dialect,
    pub(super) protocol: String,
    /// What is said in the greeting; a server refuses other flags than its own.
    pub(super) flags: BTreeMap<String, bool>,
}

impl Default for Manner {
    fn default() -> Self {
        let [protocol, _] = PROTOCOLS;
        let flags = ["modernCellRep", "persistentSchedulerState"].map(|flag| (flag.to_owned(), false));
        Self { dialect: Dialect::Tagged, protocol: protocol.to_owned(), flags: flags.into() }
    }
}

/// Which session: of whom, where, and for which watch (0: for everything else).
type ReplicaKey = (String, String, u64);

#[derive(Debug)]
enum Phase {
    Down,
    Greeting,
    /// With what the next opening is to be signed with, if the server says so.
    Live {
        audience_and_challenge: Option<(String, String)>,
    },
}

/// A connection to a server.
pub(super) struct Client {
    manner: Manner,
    phase: Phase,
    replicas: BTreeMap<ReplicaKey, Replica>,
    /// A challenge is good for one opening, so they go one after the other.
    to_open: VecDeque<ReplicaKey>,
    opening: Option<ReplicaKey>,
    requests: HashMap<String, (ReplicaKey, Purpose)>,
    next_request: u64,
}

impl Client {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            manner,
            phase: Phase::Down,
            replicas: BTreeMap::new(),
            to_open: VecDeque::new(),
            opening: None,
            requests: HashMap::new(),
            next_request: 0,
        }
    }

    fn on_message(&mut self, message: &Data, now: Instant, out: &mut Outbox) {
        match message.get("type").and_then(Data::as_str) {
            Some("hello.ok") => self.on_hello_ok(message, out),
            Some("response") => self.on_response(message, now, out),
            Some("session/effect") => {
                let Some(key) = self.addressed(message) else { return };
                if let (Some(replica), Some(effect)) = (self.replicas.get_mut(&key), message.get("effect")) {
                    replica.integrate(effect);
                }
                self.send_all(&key, out);
            }
            Some("session/revoked") => {
                let Some(key) = self.addressed(message) else { return };
                if let Some(replica) = self.replicas.get_mut(&key) {
                    replica.revoked();
                }
                self.want(key, out);
            }
            Some(_) | None => tracing::debug!("a memory server sent what is no message"),
        }
    }

    fn on_hello_ok(&mut self, message: &Data, out: &mut Outbox) {
        self.phase = Phase::Live { audience_and_challenge: None };
        self.note_challenge(message);
        let unfinished: Vec<ReplicaKey> = self
            .replicas
            .iter()
            .filter(|(_, replica)| replica.is_needed())
            .map(|(key, _)| key.clone())
            .collect();
        unfinished.into_iter().for_each(|key| self.want(key, out));
        // Some were asked for before the greeting was answered.
        self.open_next(out);
    }

    /// A greeting or an opening may say what the next opening is to be signed with.
    fn note_challenge(&mut self, message: &Data) {
        let Some(metadata) = message.get("sessionOpen") else { return };
        let audience = metadata.get("audience").and_then(Data::as_str);
        let challenge =
            metadata.get("challenge").and_then(|challenge| challenge.get("value")).and_then(Data::as_str);
        if let (Phase::Live { audience_and_challenge }, Some(audience), Some(challenge)) =
            (&mut self.phase, audience, challenge)
        {
            *audience_and_challenge = Some((audience.to_owned(), challenge.to_owned()));
        }
    }

    fn on_response(&mut self, message: &Data, now: Instant, out: &mut Outbox) {
        let request_id = message.get("requestId").and_then(Data::as_str).unwrap_or_default();
        let result = ask::result_of(message);
        if request_id == "handshake" {
            if let Err(error) = result {
                out.give_up(format!("the memory server refused the handshake: {error}"));
            }
            return;
        }
        let Some((key, purpose)) = self.requests.remove(request_id) else { return };
        let is_opening = matches!(purpose, Purpose::Open);
        // A refusal uses the challenge up as well, and may carry the next one.
        if let Some(outcome) = message.get("ok").or_else(|| message.get("error")) {
            self.note_challenge(outcome);
        }
        if matches!(&result, Err(error) if is_opening && error.is_retriable()) {
            out.close(1000, "the challenge was used up");
        }
        if let Some(replica) = self.replicas.get_mut(&key) {
            replica.answered(purpose, result, now);
            if replica.is_over() {
                self.replicas.remove(&key);
            }
        }
        if is_opening {
            self.opening = None;
            self.open_next(out);
        }
        self.want(key, out);
    }

    /// The session that a message is for.
    fn addressed(&self, message: &Data) -> Option<ReplicaKey> {
        let space = message.get("space")?.as_str()?;
        let session_id = message.get("sessionId")?.as_str()?;
        let from = (space.to_owned(), String::new(), 0);
        let here = self.replicas.range(from..).take_while(|((name, _, _), _)| name == space);
        here.filter(|(_, replica)| replica.is_session(session_id)).map(|(key, _)| key.clone()).next()
    }

    /// Sees to it that a session does what it has to do: it is opened if it is not.
    fn want(&mut self, key: ReplicaKey, out: &mut Outbox) {
        let Some(replica) = self.replicas.get_mut(&key) else { return };
        if replica.begin_opening() {
            self.to_open.push_back(key);
            self.open_next(out);
        } else {
            self.send_all(&key, out);
        }
    }

    fn open_next(&mut self, out: &mut Outbox) {
        let Phase::Live { audience_and_challenge } = &mut self.phase else { return };
        if self.opening.is_some() {
            return;
        }
        while let Some(key) = self.to_open.pop_front() {
            let Some(replica) = self.replicas.get(&key) else { continue };
            let metadata = audience_and_challenge.take();
            let metadata =
                metadata.as_ref().map(|(audience, challenge)| (audience.as_str(), challenge.as_str()));
            let body = replica.opening(&self.manner, &key.0, metadata, now_seconds());
            self.opening = Some(key.clone());
            self.send(&key, Send { purpose: Purpose::Open, kind: "session.open", body }, out);
            return;
        }
    }

    fn send_all(&mut self, key: &ReplicaKey, out: &mut Outbox) {
        if !matches!(self.phase, Phase::Live { .. }) {
            return;
        }
        let sends = self.replicas.get_mut(key).map(Replica::take_sends).unwrap_or_default();
        sends.into_iter().for_each(|send| self.send(key, send, out));
    }

    fn send(&mut self, key: &ReplicaKey, send: Send, out: &mut Outbox) {
        self.next_request += 1;
        let request_id = format!("req:{}", self.next_request);
        let mut message = send.body;
        if let Data::Map(members) = &mut message {
            members.insert("type".to_owned(), send.kind.into());
            members.insert("requestId".to_owned(), request_id.as_str().into());
            members.insert("space".to_owned(), key.0.as_str().into());
        }
        out.send(self.manner.dialect.encode(&message));
        self.requests.insert(request_id, (key.clone(), send.purpose));
    }

    fn replica(&mut self, at: &Mounted, number: u64) -> Option<(ReplicaKey, &mut Replica)> {
        let key = (at.space.clone(), at.identity.did().to_owned(), number);
        if !self.replicas.contains_key(&key) {
            if self.replicas.len() >= REPLICAS_MAX {
                self.replicas.retain(|_, replica| !replica.is_idle());
            }
            if self.replicas.len() >= REPLICAS_MAX {
                return None;
            }
            self.replicas.insert(key.clone(), Replica::new(at.identity.clone()));
        }
        self.replicas.get_mut(&key).map(|replica| (key, replica))
    }

    /// Forgets requests whose callers stopped waiting, if there are too many.
    fn has_room(&mut self) -> bool {
        if self.requests.len() >= REQUESTS_MAX {
            self.requests.retain(|_, (_, purpose)| !purpose.is_abandoned());
        }
        self.requests.len() < REQUESTS_MAX
    }
}

impl Conversation for Client {
    type Command = Ask;

    fn on_open(&mut self, _now: Instant, out: &mut Outbox) {
        self.phase = Phase::Greeting;
        let flags = self.manner.flags.iter().map(|(flag, is_set)| (flag.clone(), Data::Bool(*is_set)));
        let flags = Data::Map(flags.collect());
        let protocol = self.manner.protocol.as_str().into();
        let hello = object([("type", "hello".into()), ("protocol", protocol), ("flags", flags)]);
        out.send(self.manner.dialect.encode(&hello));
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        match self.manner.dialect.decode(text) {
            Ok(message) => self.on_message(&message, now, out),
            Err(_) => out.close(1002, "what came in is no memory message"),
        }
    }

    fn on_command(&mut self, ask: Ask, _now: Instant, out: &mut Outbox) {
        let (at, number) = ask.place();
        let full = || ClientError::new("RateLimitError", "too many requests wait for the memory server");
        if !self.has_room() {
            return ask.refuse(full());
        }
        let Some((key, replica)) = self.replica(&at, number) else { return ask.refuse(full()) };
        replica.take(ask);
        self.want(key, out);
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    fn wake_at(&self) -> Option<Instant> {
        self.replicas.values().filter_map(Replica::wake_at).min()
    }

    fn on_wake(&mut self, now: Instant, _out: &mut Outbox) {
        self.replicas.values_mut().for_each(|replica| replica.wake(now));
    }

    fn on_end(&mut self, _now: Instant) {
        self.phase = Phase::Down;
        self.opening = None;
        self.to_open.clear();
        self.requests.clear();
        self.replicas.values_mut().for_each(Replica::disconnected);
    }
}

/// Who signs.
pub(super) type Signer = std::sync::Arc<Identity>;

#[cfg(test)]
mod tests;
