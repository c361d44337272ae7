//! The replies and pongs that one agent task waits for on its connection.
//!
//! The protocol does not acknowledge plain messages, so a ping follows each: an error that arrives
//! before the pong is about what was sent since the pong before. Generic over the waiter, so that
//! tests need no channels.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::wire::FrameType;

/// Replies and pongs that one task may wait for. The frame of a script that would wait for one more
/// is refused.
pub(crate) const PENDING_REPLIES_MAX: usize = 1024;

/// The meaning of an incoming frame.
#[derive(Debug, PartialEq)]
pub(crate) enum FrameClass<W> {
    /// It replies to nothing: a message, an event.
    Unsolicited(Value),
    /// A reply, or the error in its place.
    Reply(W, Value),
    /// The pong behind a frame, with the error about that frame if there was one.
    Pong(W, Option<Value>),
    /// A reply without a waiter.
    Stale,
}

#[derive(Debug)]
struct PendingReply<W> {
    message_id: String,
    waiter: W,
}

#[derive(Debug)]
struct PendingPong<W> {
    /// The correlation of the frame before the ping.
    correlation_id: Option<String>,
    waiter: W,
    error: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct PendingReplies<W> {
    replies: HashMap<String, PendingReply<W>>,
    pongs: VecDeque<PendingPong<W>>,
}

impl<W> Default for PendingReplies<W> {
    fn default() -> Self {
        Self { replies: HashMap::new(), pongs: VecDeque::new() }
    }
}

impl<W> PendingReplies<W> {
    pub(crate) fn has_room(&self) -> bool {
        self.replies.len() + self.pongs.len() < PENDING_REPLIES_MAX
    }

    /// Adds a waiter for the reply to a frame that was sent. Its correlation must be unique.
    pub(crate) fn add_reply(&mut self, correlation_id: String, message_id: String, waiter: W) {
        self.replies.insert(correlation_id, PendingReply { message_id, waiter });
    }

    /// Adds a waiter for the pong to a ping that was sent behind a frame with that correlation.
    pub(crate) fn add_ping(&mut self, correlation_id: Option<String>, waiter: W) {
        self.pongs.push_back(PendingPong { correlation_id, waiter, error: None });
    }

    /// Removes closed waiters for replies. Those for pongs stay, because pongs are matched by their
    /// order.
    pub(crate) fn remove_closed(&mut self, mut is_closed: impl FnMut(&W) -> bool) {
        self.replies.retain(|_, pending| !is_closed(&pending.waiter));
    }

    /// Matches an incoming frame, and removes the waiter that it is for.
    pub(crate) fn classify(&mut self, frame: Value) -> FrameClass<W> {
        let kind = frame["type"].as_str().and_then(FrameType::from_name);
        let correlation_id = correlation_id(&frame);
        if kind == Some(FrameType::Pong) {
            return match self.pongs.pop_front() {
                Some(pong) => FrameClass::Pong(pong.waiter, pong.error),
                None => FrameClass::Stale,
            };
        }
        // An agent that sends to itself receives its own message first, under the same correlation.
        let is_reply = |pending: &PendingReply<W>| frame["id"] != pending.message_id.as_str();
        let matched = correlation_id.filter(|id| self.replies.get(*id).is_some_and(is_reply));
        if let Some(pending) = matched.and_then(|id| self.replies.remove(id)) {
            return FrameClass::Reply(pending.waiter, frame);
        }
        let is_concerned = |pong: &&mut PendingPong<W>| pong.correlation_id.as_deref() == correlation_id;
        match (kind, self.pongs.front_mut().filter(is_concerned)) {
            (Some(FrameType::Error), Some(pong)) => {
                pong.error.get_or_insert(frame);
                FrameClass::Stale
            }
            (Some(FrameType::Error | FrameType::Response), _) => FrameClass::Stale,
            _ => FrameClass::Unsolicited(frame),
        }
    }
}

pub(crate) fn ping_frame() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!(FrameType::Ping.name()))])
}

/// Returns the correlation of a frame, from any of its places; a decision is correlated by its
/// proposal.
pub(crate) fn correlation_id(frame: &Value) -> Option<&str> {
    let is_decision = frame["type"] == FrameType::Decision.name();
    let of_decision = frame["content"]["proposalId"].as_str().filter(|_| is_decision);
    let given = [&frame["metadata"]["correlationId"], &frame["correlationId"]];
    given.into_iter().find_map(Value::as_str).or(of_decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16) -> Value {
        json!({"type": "error", "content": {"code": code}})
    }

    #[test]
    fn reply_is_matched_once() {
        let mut pending = PendingReplies::default();
        pending.add_reply("c".to_owned(), "m".to_owned(), 1);
        let reply = json!({"type": "message", "metadata": {"correlationId": "c"}});
        assert_eq!(pending.classify(reply.clone()), FrameClass::Reply(1, reply.clone()));
        assert_eq!(
            pending.classify(reply.clone()),
            FrameClass::Unsolicited(reply),
            "the second is an ordinary message"
        );
    }

    #[test]
    fn message_to_itself_arrives_before_its_reply() {
        let mut pending = PendingReplies::default();
        pending.add_reply("c".to_owned(), "m".to_owned(), 1);
        let message = json!({"type": "message", "id": "m", "correlationId": "c"});
        let reply = json!({"type": "message", "id": "n", "correlationId": "c"});
        assert_eq!(pending.classify(message.clone()), FrameClass::Unsolicited(message));
        assert_eq!(pending.classify(reply.clone()), FrameClass::Reply(1, reply));
    }

    #[test]
    fn decision_is_the_reply_to_its_proposal() {
        let mut pending = PendingReplies::default();
        pending.add_reply("p".to_owned(), "m".to_owned(), 1);
        let decision = json!({"type": "decision", "content": {"proposalId": "p"}});
        assert_eq!(pending.classify(decision.clone()), FrameClass::Reply(1, decision));
    }

    #[test]
    fn error_before_pong_belongs_to_the_frame_before_it() {
        let mut pending = PendingReplies::default();
        for waiter in [1, 2, 3] {
            pending.add_ping(None, waiter);
        }
        let pong = json!({"type": "pong"});
        assert_eq!(pending.classify(pong.clone()), FrameClass::Pong(1, None));
        assert_eq!(pending.classify(error(3002)), FrameClass::Stale);
        assert_eq!(pending.classify(error(2005)), FrameClass::Stale);
        assert_eq!(
            pending.classify(pong.clone()),
            FrameClass::Pong(2, Some(error(3002))),
            "the first error is kept"
        );
        assert_eq!(pending.classify(pong.clone()), FrameClass::Pong(3, None));
        assert_eq!(pending.classify(pong), FrameClass::Stale);
    }

    #[test]
    fn error_with_other_correlation_is_stale() {
        let mut pending = PendingReplies::default();
        pending.add_ping(Some("c".to_owned()), 1);
        let about = |id: &str| {
            let mut frame = error(2005);
            frame["correlationId"] = json!(id);
            frame
        };
        assert_eq!(pending.classify(about("d")), FrameClass::Stale);
        assert_eq!(pending.classify(about("c")), FrameClass::Stale);
        assert_eq!(pending.classify(json!({"type": "pong"})), FrameClass::Pong(1, Some(about("c"))));
    }

    #[test]
    fn error_with_correlation_is_a_reply() {
        let mut pending = PendingReplies::default();
        pending.add_ping(None, 1);
        pending.add_reply("c".to_owned(), "m".to_owned(), 2);
        let mut refused = error(3002);
        refused["correlationId"] = json!("c");
        assert_eq!(pending.classify(refused.clone()), FrameClass::Reply(2, refused));
        assert_eq!(pending.classify(json!({"type": "pong"})), FrameClass::Pong(1, None));
    }

    #[test]
    fn room_at_limit_returns_when_waiter_closes() {
        let mut pending = PendingReplies::default();
        for number in 0..PENDING_REPLIES_MAX {
            assert!(pending.has_room());
            pending.add_reply(number.to_string(), "m".to_owned(), number);
        }
        assert!(!pending.has_room());
        pending.remove_closed(|waiter| *waiter == 0);
        assert!(pending.has_room());
    }
}
