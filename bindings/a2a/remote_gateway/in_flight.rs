//! The frames sent over a link that are not completed yet, to match what the gateway sends back.
//!
//! A gateway like ours repeats the correlation in its replies. The reference gateway of the
//! specification (11.2) does so in messages of agents only: its other replies are matched by type,
//! its errors by position. For this, every frame is followed by a fence, a frame that the gateway
//! always acknowledges. An error without a correlation is about the frame before the first fence
//! that is not acknowledged yet.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::super::pending_replies::correlation_id;
use super::super::wire::{self, FrameType};
use super::LinkClientId;

/// Pending requests and fences of all clients of a link. A gateway with that many pending does not
/// reply; one more frame is refused with 3003.
pub(super) const IN_FLIGHT_MAX: usize = 8192;

/// A frame that waits for its reply.
#[derive(Debug)]
struct PendingRequest {
    client: LinkClientId,
    kind: FrameType,
    /// The receiver.
    agent: Option<String>,
    /// Its position in the order of all requests.
    sequence: u64,
    /// Whether the link has received the request itself, because its receiver is an agent of the
    /// same link.
    is_delivered: bool,
}

/// The frame before a fence.
#[derive(Debug, Clone)]
struct Subject {
    client: Option<LinkClientId>,
    correlation_id: Option<String>,
    /// Whether the acknowledgement of a handshake is still expected, which looks like that of a
    /// handshake fence.
    awaits_handshake: bool,
    is_request: bool,
}

#[derive(Debug)]
struct Fence {
    correlation_id: String,
    subject: Subject,
    /// Whether the client gets a `pong` when the gateway has handled the subject.
    wants_pong: bool,
}

/// What a frame from the gateway matches.
#[derive(Debug, PartialEq)]
pub(super) enum FrameMatch {
    /// It replies to a frame of a client, or is about one.
    Client(LinkClientId),
    /// It acknowledges fences: these clients get a `pong`.
    Fences(Vec<LinkClientId>),
    /// It is not a reply.
    Unsolicited,
    /// It is an acknowledgement that no client waits for.
    Ignored,
}

#[derive(Debug, Default)]
pub(super) struct InFlightFrames {
    requests: HashMap<String, PendingRequest>,
    fences: VecDeque<Fence>,
    requests_sent: u64,
    fences_sent: u64,
}

impl InFlightFrames {
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() + self.fences.len() < IN_FLIGHT_MAX
    }

    /// Adds a frame that is about to be sent; returns the correlation of the fence to send behind
    /// it.
    pub(super) fn add(&mut self, client: Option<LinkClientId>, frame: &Value, wants_pong: bool) -> String {
        let kind = frame["type"].as_str().and_then(FrameType::from_name);
        let request_id = correlation_id(frame).map(str::to_owned);
        // A reply has a correlation, too, but it names its parent.
        let is_request = expects_reply(kind) && frame["metadata"]["parentId"].is_null();
        if let (Some(kind), Some(id), Some(client), true) = (kind, &request_id, client, is_request) {
            self.requests_sent += 1;
            let agent = frame["agent"].as_str().map(str::to_owned);
            let sequence = self.requests_sent;
            let request = PendingRequest { client, kind, agent, sequence, is_delivered: false };
            self.requests.insert(id.clone(), request);
        }
        let awaits_handshake = kind == Some(FrameType::Handshake);
        let subject = Subject { client, correlation_id: request_id, awaits_handshake, is_request };
        self.fences_sent += 1;
        let correlation_id = format!("fence-{}", self.fences_sent);
        self.fences.push_back(Fence { correlation_id: correlation_id.clone(), subject, wants_pong });
        correlation_id
    }

    /// Matches a frame, and gives it the correlation of its request if it has none. `is_own_agent`
    /// returns whether an agent is a client of this link.
    pub(super) fn match_frame(
        &mut self,
        frame: &mut Value,
        is_own_agent: impl Fn(&str) -> bool,
    ) -> FrameMatch {
        let Some(kind) = frame["type"].as_str().and_then(FrameType::from_name) else {
            return FrameMatch::Ignored;
        };
        let id = correlation_id(frame).map(str::to_owned);
        if let Some(id) = &id {
            if let Some(found) = self.match_request(id, kind, frame, is_own_agent) {
                return found;
            }
            if let Some(at) = self.fences.iter().position(|fence| fence.correlation_id == *id) {
                return self.pass_fences(at);
            }
        }
        match kind {
            FrameType::Pong => self.pass_fences(0),
            FrameType::Handshake => self.on_acknowledgement(id.is_some()),
            FrameType::Error => self.on_error(id.as_deref(), frame),
            FrameType::Discovery
            | FrameType::Workspace
            | FrameType::Subscribe
            | FrameType::Unsubscribe
            | FrameType::AuthResponse => self.match_by_type(kind, frame),
            _ => FrameMatch::Unsolicited,
        }
    }

    /// Removes the pending requests of a client.
    pub(super) fn remove_client(&mut self, client: LinkClientId) {
        self.requests.retain(|_, request| request.client != client);
    }

    /// Removes everything: returns the requests with their clients, and the clients that wait for a
    /// `pong`, both in the order of sending.
    pub(super) fn take_all(&mut self) -> (Vec<(LinkClientId, String)>, Vec<LinkClientId>) {
        let mut requests: Vec<(String, PendingRequest)> = self.requests.drain().collect();
        requests.sort_by_key(|(_, request)| request.sequence);
        let requests = requests.into_iter().map(|(id, request)| (request.client, id)).collect();
        let fences = self.fences.drain(..).filter(|fence| fence.wants_pong);
        (requests, fences.filter_map(|fence| fence.subject.client).collect())
    }

    fn match_request(
        &mut self,
        id: &str,
        kind: FrameType,
        frame: &Value,
        is_own_agent: impl Fn(&str) -> bool,
    ) -> Option<FrameMatch> {
        use FrameType::{Broadcast, Event, Handshake, Ping, Pong, Proposal, Request, Vote};
        if matches!(kind, Broadcast | Event | Handshake | Ping | Pong | Proposal | Request | Vote) {
            return None;
        }
        let request = self.requests.get_mut(id)?;
        // A request to an agent of this link comes back to the link before its reply.
        let is_request = kind == request.kind
            && !request.is_delivered
            && frame["metadata"]["parentId"].is_null()
            && frame["agent"].as_str() == request.agent.as_deref()
            && request.agent.as_deref().is_some_and(is_own_agent);
        if is_request {
            request.is_delivered = true;
            return Some(FrameMatch::Unsolicited);
        }
        let client = request.client;
        // The status `queued` is not the reply.
        if frame["content"]["queued"] != true {
            self.requests.remove(id);
        }
        Some(FrameMatch::Client(client))
    }

    /// Removes the fences up to that one: the gateway acknowledges in order.
    fn pass_fences(&mut self, last: usize) -> FrameMatch {
        let count = self.fences.len().min(last + 1);
        let passed = self.fences.drain(..count).filter(|fence| fence.wants_pong);
        FrameMatch::Fences(passed.filter_map(|fence| fence.subject.client).collect())
    }

    fn on_acknowledgement(&mut self, has_correlation: bool) -> FrameMatch {
        match self.fences.front_mut() {
            Some(fence) if !has_correlation && fence.subject.awaits_handshake => {
                fence.subject.awaits_handshake = false;
                FrameMatch::Ignored
            }
            Some(_) if !has_correlation => self.pass_fences(0),
            _ => FrameMatch::Ignored,
        }
    }

    fn on_error(&mut self, id: Option<&str>, frame: &mut Value) -> FrameMatch {
        let is_about = |fence: &Fence| id.is_none() || fence.subject.correlation_id.as_deref() == id;
        let Some(fence) = self.fences.iter_mut().find(|fence| is_about(fence)) else {
            return FrameMatch::Ignored;
        };
        fence.subject.awaits_handshake = false;
        let subject = fence.subject.clone();
        if let Some(id) = &subject.correlation_id {
            wire::set_correlation_id(frame, id);
            if subject.is_request {
                self.requests.remove(id);
            }
        }
        subject.client.map_or(FrameMatch::Ignored, FrameMatch::Client)
    }

    /// Matches a reply without a correlation to the oldest request of that type.
    fn match_by_type(&mut self, kind: FrameType, frame: &mut Value) -> FrameMatch {
        let candidates = self.requests.iter().filter(|(_, request)| request.kind == kind);
        let Some(id) = candidates.min_by_key(|(_, request)| request.sequence).map(|(id, _)| id.clone())
        else {
            return FrameMatch::Ignored;
        };
        wire::set_correlation_id(frame, &id);
        self.requests.remove(&id).map_or(FrameMatch::Ignored, |request| FrameMatch::Client(request.client))
    }
}

/// Returns whether a frame of that type gets a reply under its correlation.
fn expects_reply(kind: Option<FrameType>) -> bool {
    use FrameType::{Auth, Broadcast, Discovery, Message, Proposal, Request, Subscribe, Workspace};
    matches!(kind, Some(Message | Request | Proposal | Broadcast | Discovery | Workspace | Subscribe | Auth))
}

#[cfg(test)]
mod tests;
