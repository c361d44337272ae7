//! The client side of the protocol: one connection to a server, shared by all scripts, with a
//! session per principal and space, and one per watch.
//!
//! The connection may break and be established again at any time. Sessions are then resumed,
//! commits without a result are sent again (the server recognises them by their numbers), and
//! watches are restored. The caller of a commit waits through all of that; other requests fail when
//! the connection breaks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use super::auth::Identity;
use super::codec::{Data, Dialect, object};
use super::endpoint::now_seconds;
use super::wire::PROTOCOLS;
use crate::peering::{Conversation, Outbox};

mod commits;
mod request;
mod session;
mod sync_buffer;
mod watch;

pub(super) use request::{ClientError, Reply, Request, SpaceIdentity};
use session::{ClientSession, OutgoingRequest, PendingRequest};
pub(super) use sync_buffer::SyncBuffer;

/// Most sessions on one connection: principals times spaces, and watches.
pub(super) const SESSIONS_MAX: usize = 10_000;

/// Most requests without a response on one connection.
pub(super) const REQUESTS_MAX: usize = 4096;

/// What a client sends in `hello`, and how it encodes its messages.
#[derive(Debug, Clone)]
pub(super) struct ClientOptions {
    pub(super) dialect: Dialect,
    pub(super) protocol: String,
    /// A server rejects a `hello` whose flags differ from its own.
    pub(super) flags: BTreeMap<String, bool>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let [protocol, _] = PROTOCOLS;
        let flags = ["modernCellRep", "persistentSchedulerState"].map(|flag| (flag.to_owned(), false));
        Self { dialect: Dialect::Tagged, protocol: protocol.to_owned(), flags: flags.into() }
    }
}

/// Identity that signs `session.open`.
pub(super) type Signer = std::sync::Arc<Identity>;

/// Space, DID of the identity, and number of the watch (0 for requests without a watch).
type SessionKey = (String, String, u64);

#[derive(Debug)]
enum Phase {
    Disconnected,
    AwaitingHelloOk,
    Ready {
        /// To be signed with the next `session.open`, if the server sent them.
        audience_and_challenge: Option<(String, String)>,
    },
}

pub(super) struct Client {
    options: ClientOptions,
    phase: Phase,
    sessions: BTreeMap<SessionKey, ClientSession>,
    /// Sessions to open. A challenge is valid for one `session.open`, so they are sent one by one.
    open_queue: VecDeque<SessionKey>,
    opening: Option<SessionKey>,
    pending_requests: HashMap<String, (SessionKey, PendingRequest)>,
    next_request: u64,
}

impl Client {
    pub(super) fn new(options: ClientOptions) -> Self {
        Self {
            options,
            phase: Phase::Disconnected,
            sessions: BTreeMap::new(),
            open_queue: VecDeque::new(),
            opening: None,
            pending_requests: HashMap::new(),
            next_request: 0,
        }
    }

    fn on_message(&mut self, message: &Data, now: Instant, out: &mut Outbox) {
        match message.get("type").and_then(Data::as_str) {
            Some("hello.ok") => self.on_hello_ok(message, out),
            Some("response") => self.on_response(message, now, out),
            Some("session/effect") => {
                let Some(key) = self.find_session_key(message) else { return };
                if let (Some(session), Some(effect)) = (self.sessions.get_mut(&key), message.get("effect")) {
                    session.apply_sync(effect);
                }
                self.send_pending(&key, out);
            }
            Some("session/revoked") => {
                let Some(key) = self.find_session_key(message) else { return };
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.on_revoked();
                }
                self.open_or_send(key, out);
            }
            Some(_) | None => tracing::debug!("memory server sent a message of unknown type"),
        }
    }

    fn on_hello_ok(&mut self, message: &Data, out: &mut Outbox) {
        self.phase = Phase::Ready { audience_and_challenge: None };
        self.record_challenge(message);
        let needed = self.sessions.iter().filter(|(_, session)| session.is_needed());
        let needed: Vec<SessionKey> = needed.map(|(key, _)| key.clone()).collect();
        needed.into_iter().for_each(|key| self.open_or_send(key, out));
        // Sessions may have been queued before the server answered `hello`.
        self.open_next(out);
    }

    /// `hello.ok` and responses to `session.open` may carry the challenge for the next one.
    fn record_challenge(&mut self, message: &Data) {
        let Some(metadata) = message.get("sessionOpen") else { return };
        let audience = metadata.get("audience").and_then(Data::as_str);
        let challenge =
            metadata.get("challenge").and_then(|challenge| challenge.get("value")).and_then(Data::as_str);
        if let (Phase::Ready { audience_and_challenge }, Some(audience), Some(challenge)) =
            (&mut self.phase, audience, challenge)
        {
            *audience_and_challenge = Some((audience.to_owned(), challenge.to_owned()));
        }
    }

    fn on_response(&mut self, message: &Data, now: Instant, out: &mut Outbox) {
        let request_id = message.get("requestId").and_then(Data::as_str).unwrap_or_default();
        let result = request::parse_response(message);
        if request_id == "handshake" {
            if let Err(error) = result {
                out.give_up(format!("memory server rejected the handshake: {error}"));
            }
            return;
        }
        let Some((key, pending)) = self.pending_requests.remove(request_id) else { return };
        let is_opening = matches!(pending, PendingRequest::Open);
        // A rejected `session.open` uses up the challenge as well, and may carry the next one.
        if let Some(response) = message.get("ok").or_else(|| message.get("error")) {
            self.record_challenge(response);
        }
        if matches!(&result, Err(error) if is_opening && error.is_retriable()) {
            out.close(1000, "challenge used up");
        }
        if let Some(session) = self.sessions.get_mut(&key) {
            session.on_response(pending, result, now);
            if session.is_rejected() {
                self.sessions.remove(&key);
            }
        }
        if is_opening {
            self.opening = None;
            self.open_next(out);
        }
        self.open_or_send(key, out);
    }

    /// The session that a message of the server is addressed to.
    fn find_session_key(&self, message: &Data) -> Option<SessionKey> {
        let space = message.get("space")?.as_str()?;
        let session_id = message.get("sessionId")?.as_str()?;
        let from = (space.to_owned(), String::new(), 0);
        let in_space = self.sessions.range(from..).take_while(|((name, _, _), _)| name == space);
        in_space.filter(|(_, session)| session.has_id(session_id)).map(|(key, _)| key.clone()).next()
    }

    /// Sends the requests of a session; a closed session is opened first.
    fn open_or_send(&mut self, key: SessionKey, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.start_opening() {
            self.open_queue.push_back(key);
            self.open_next(out);
        } else {
            self.send_pending(&key, out);
        }
    }

    fn open_next(&mut self, out: &mut Outbox) {
        let Phase::Ready { audience_and_challenge } = &mut self.phase else { return };
        if self.opening.is_some() {
            return;
        }
        while let Some(key) = self.open_queue.pop_front() {
            let Some(session) = self.sessions.get(&key) else { continue };
            let challenge = audience_and_challenge.take();
            let challenge =
                challenge.as_ref().map(|(audience, challenge)| (audience.as_str(), challenge.as_str()));
            let body = session.build_open_body(&self.options, &key.0, challenge, now_seconds());
            self.opening = Some(key.clone());
            let request = OutgoingRequest { pending: PendingRequest::Open, kind: "session.open", body };
            self.send(&key, request, out);
            return;
        }
    }

    fn send_pending(&mut self, key: &SessionKey, out: &mut Outbox) {
        if !matches!(self.phase, Phase::Ready { .. }) {
            return;
        }
        let requests = self.sessions.get_mut(key).map(ClientSession::take_requests).unwrap_or_default();
        requests.into_iter().for_each(|request| self.send(key, request, out));
    }

    fn send(&mut self, key: &SessionKey, request: OutgoingRequest, out: &mut Outbox) {
        self.next_request += 1;
        let request_id = format!("req:{}", self.next_request);
        let mut message = request.body;
        if let Data::Map(members) = &mut message {
            members.insert("type".to_owned(), request.kind.into());
            members.insert("requestId".to_owned(), request_id.as_str().into());
            members.insert("space".to_owned(), key.0.as_str().into());
        }
        out.send(self.options.dialect.encode(&message));
        self.pending_requests.insert(request_id, (key.clone(), request.pending));
    }

    /// The session for a request, created if it does not exist; `None` if there are too many.
    fn find_or_create_session(
        &mut self,
        target: &SpaceIdentity,
        watch_number: u64,
    ) -> Option<(SessionKey, &mut ClientSession)> {
        let key = (target.space.clone(), target.identity.did().to_owned(), watch_number);
        if !self.sessions.contains_key(&key) {
            if self.sessions.len() >= SESSIONS_MAX {
                self.sessions.retain(|_, session| !session.is_idle());
            }
            if self.sessions.len() >= SESSIONS_MAX {
                return None;
            }
            self.sessions.insert(key.clone(), ClientSession::new(target.identity.clone()));
        }
        self.sessions.get_mut(&key).map(|session| (key, session))
    }

    /// Drops requests whose callers stopped waiting, if there are too many; returns whether one
    /// more fits.
    fn make_room(&mut self) -> bool {
        if self.pending_requests.len() >= REQUESTS_MAX {
            self.pending_requests.retain(|_, (_, pending)| !pending.is_abandoned());
        }
        self.pending_requests.len() < REQUESTS_MAX
    }
}

impl Conversation for Client {
    type Command = Request;

    fn on_open(&mut self, _now: Instant, out: &mut Outbox) {
        self.phase = Phase::AwaitingHelloOk;
        let flags = self.options.flags.iter().map(|(flag, is_set)| (flag.clone(), Data::Bool(*is_set)));
        let flags = Data::Map(flags.collect());
        let protocol = self.options.protocol.as_str().into();
        let hello = object([("type", "hello".into()), ("protocol", protocol), ("flags", flags)]);
        out.send(self.options.dialect.encode(&hello));
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        match self.options.dialect.decode(text) {
            Ok(message) => self.on_message(&message, now, out),
            Err(_) => out.close(1002, "invalid memory message"),
        }
    }

    fn on_command(&mut self, request: Request, _now: Instant, out: &mut Outbox) {
        let (target, watch_number) = request.target();
        let full = || ClientError::new("RateLimitError", "too many pending requests to the memory server");
        if !self.make_room() {
            return request.reject(full());
        }
        let Some((key, session)) = self.find_or_create_session(&target, watch_number) else {
            return request.reject(full());
        };
        session.add_request(request);
        self.open_or_send(key, out);
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    fn wake_at(&self) -> Option<Instant> {
        self.sessions.values().filter_map(ClientSession::wake_at).min()
    }

    fn on_wake(&mut self, now: Instant, _out: &mut Outbox) {
        self.sessions.values_mut().for_each(|session| session.wake(now));
    }

    fn on_end(&mut self, _now: Instant) {
        self.phase = Phase::Disconnected;
        self.opening = None;
        self.open_queue.clear();
        self.pending_requests.clear();
        self.sessions.values_mut().for_each(ClientSession::on_disconnect);
    }
}

#[cfg(test)]
mod tests;
