//! Limits the replies of a script's agent, so that two agents that reply to every frame do not
//! loop.
//!
//! A reply to one of our replies gets no automatic reply. For peers that do not name what they
//! reply to (`parentId`), the replies to one peer under one correlation are counted.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

/// Replies of one agent to one peer under one correlation. Clients derive correlations from a
/// millisecond clock, so several messages may share one; a loop reaches this limit within a second.
/// The first reply past it is replaced by error 3003, the others are not sent.
pub(crate) const REPLIES_PER_CORRELATION_MAX: u32 = 256;

/// Correlations and replies remembered per agent. Older exchanges have ended long ago.
const REMEMBERED_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitDecision {
    Send,
    /// The first reply past the limit: send an error in its place.
    Refuse,
    Drop,
}

#[derive(Debug, Default)]
struct Count {
    replies: u32,
    used_at: u64,
}

/// The recent replies of one agent.
#[derive(Debug, Default)]
pub(crate) struct ReplyLimit {
    counts: HashMap<(String, String), Count>,
    /// Ids of the replies that were sent, oldest first.
    sent: VecDeque<String>,
    sent_ids: HashSet<String>,
    now: u64,
}

impl ReplyLimit {
    /// Returns whether a frame replies to one of our replies and requires no response.
    pub(crate) fn ends_exchange(&self, frame: &Value) -> bool {
        let metadata = &frame["metadata"];
        let parent = metadata["parentId"].as_str();
        parent.is_some_and(|id| self.sent_ids.contains(id)) && metadata["requiresResponse"] != true
    }

    /// Counts a frame that is about to be sent, if it is a reply: one with a correlation and a
    /// parent.
    pub(crate) fn count(&mut self, reply: &Map<String, Value>) -> LimitDecision {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = |field: &str| reply.get("metadata").and_then(|metadata| metadata.get(field));
        let (Some(id), Some(_)) = (metadata("correlationId"), metadata("parentId")) else {
            return LimitDecision::Send;
        };
        let key = (text(reply.get("agent")), text(Some(id)));
        self.make_room();
        self.now += 1;
        let count = self.counts.entry(key).or_default();
        count.replies = count.replies.saturating_add(1);
        count.used_at = self.now;
        match count.replies {
            ..=REPLIES_PER_CORRELATION_MAX => {
                if let Some(id) = reply.get("id").and_then(Value::as_str) {
                    self.sent.push_back(id.to_owned());
                    self.sent_ids.insert(id.to_owned());
                }
                LimitDecision::Send
            }
            past if past == REPLIES_PER_CORRELATION_MAX + 1 => LimitDecision::Refuse,
            _ => LimitDecision::Drop,
        }
    }

    /// Drops the older half of the counts when they are full. The count of a loop stays, because it
    /// is recent.
    fn make_room(&mut self) {
        if self.counts.len() >= REMEMBERED_MAX {
            let oldest = self.now.saturating_sub(REMEMBERED_MAX as u64 / 2);
            self.counts.retain(|_, count| count.used_at > oldest);
        }
        if self.sent.len() >= REMEMBERED_MAX
            && let Some(id) = self.sent.pop_front()
        {
            self.sent_ids.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(to: &str, correlation_id: &str, id: &str) -> Map<String, Value> {
        let metadata = json!({"correlationId": correlation_id, "parentId": "q"});
        let frame = json!({"type": "message", "agent": to, "id": id, "metadata": metadata});
        frame.as_object().unwrap().clone()
    }

    #[test]
    fn replies_past_the_limit_get_one_error() {
        let mut limit = ReplyLimit::default();
        for _ in 0..REPLIES_PER_CORRELATION_MAX {
            assert_eq!(limit.count(&reply("b", "c", "m")), LimitDecision::Send);
        }
        assert_eq!(limit.count(&reply("b", "c", "m")), LimitDecision::Refuse);
        assert_eq!(limit.count(&reply("b", "c", "m")), LimitDecision::Drop);
        assert_eq!(limit.count(&reply("b", "d", "m")), LimitDecision::Send, "another correlation");
        assert_eq!(limit.count(&reply("e", "c", "m")), LimitDecision::Send, "another peer");
    }

    #[test]
    fn reply_to_our_reply_ends_exchange_unless_it_asks() {
        let mut limit = ReplyLimit::default();
        limit.count(&reply("b", "c", "ours"));
        let frame = |parent: &str, requires_response: bool| json!({"metadata": {"parentId": parent, "requiresResponse": requires_response, "correlationId": "c"}});
        assert!(limit.ends_exchange(&frame("ours", false)));
        assert!(!limit.ends_exchange(&frame("ours", true)));
        assert!(!limit.ends_exchange(&frame("theirs", false)));
        assert!(!limit.ends_exchange(&json!({"type": "message"})));
    }

    #[test]
    fn loop_is_limited_among_many_correlations() {
        let mut limit = ReplyLimit::default();
        let mut sent = 0;
        for round in 0..2 * REPLIES_PER_CORRELATION_MAX {
            sent += u32::from(limit.count(&reply("b", "loop", "m")) == LimitDecision::Send);
            for other in 0..8 {
                limit.count(&reply("b", &format!("{round}-{other}"), "m"));
            }
        }
        assert_eq!(sent, REPLIES_PER_CORRELATION_MAX);
        assert!(limit.counts.len() <= REMEMBERED_MAX && limit.sent_ids.len() <= REMEMBERED_MAX);
    }
}
