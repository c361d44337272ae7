//! How often an agent of a script answers, so that two agents that answer whatever they get do not do so for ever.
//!
//! An answer to an answer of ours gets no answer by itself. Peers that do not say what they answer (`parentId`) are
//! held by a count: answers to one peer under one correlation.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

/// Answers of one agent to one peer under one correlation. Clients take correlations from a clock of milliseconds, so
/// several questions may share one; a loop that passes this many ends within a second. The first answer past it is
/// replaced by error 3003, the others are not sent.
pub(crate) const ANSWERS_PER_CORRELATION_MAX: u32 = 256;

/// Correlations and answers of one agent that are remembered. What is older has been answered long ago.
const REMEMBERED_MAX: usize = 1024;

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// It is the first one too many: say so.
    Refuse,
    Drop,
}

#[derive(Debug, Default)]
struct Count {
    answers: u32,
    used_at: u64,
}

/// The answers of one agent.
#[derive(Debug, Default)]
pub(crate) struct AnswerLimit {
    counts: HashMap<(String, String), Count>,
    /// Ids of the answers that were sent, the oldest first.
    sent: VecDeque<String>,
    sent_ids: HashSet<String>,
    now: u64,
}

impl AnswerLimit {
    /// Whether a frame answers an answer of ours and asks for nothing more.
    pub(crate) fn ends_with(&self, frame: &Value) -> bool {
        let metadata = &frame["metadata"];
        let parent = metadata["parentId"].as_str();
        parent.is_some_and(|id| self.sent_ids.contains(id)) && metadata["requiresResponse"] != true
    }

    /// Counts an answer that is about to be sent. A frame that names no question is not one.
    pub(crate) fn count(&mut self, answer: &Map<String, Value>) -> Verdict {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = |field: &str| answer.get("metadata").and_then(|metadata| metadata.get(field));
        let (Some(id), Some(_)) = (metadata("correlationId"), metadata("parentId")) else {
            return Verdict::Send;
        };
        let key = (text(answer.get("agent")), text(Some(id)));
        self.make_room();
        self.now += 1;
        let count = self.counts.entry(key).or_default();
        count.answers = count.answers.saturating_add(1);
        count.used_at = self.now;
        match count.answers {
            ..=ANSWERS_PER_CORRELATION_MAX => {
                if let Some(id) = answer.get("id").and_then(Value::as_str) {
                    self.sent.push_back(id.to_owned());
                    self.sent_ids.insert(id.to_owned());
                }
                Verdict::Send
            }
            past if past == ANSWERS_PER_CORRELATION_MAX + 1 => Verdict::Refuse,
            _ => Verdict::Drop,
        }
    }

    /// Forgets the older half of what is remembered, when that is full. A loop keeps its own count fresh.
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

    fn answer(to: &str, correlation_id: &str, id: &str) -> Map<String, Value> {
        let metadata = json!({"correlationId": correlation_id, "parentId": "q"});
        let frame = json!({"type": "message", "agent": to, "id": id, "metadata": metadata});
        frame.as_object().unwrap().clone()
    }

    #[test]
    fn answers_at_the_limit_are_sent_and_past_it_one_error() {
        let mut limit = AnswerLimit::default();
        for _ in 0..ANSWERS_PER_CORRELATION_MAX {
            assert_eq!(limit.count(&answer("b", "c", "m")), Verdict::Send);
        }
        assert_eq!(limit.count(&answer("b", "c", "m")), Verdict::Refuse);
        assert_eq!(limit.count(&answer("b", "c", "m")), Verdict::Drop);
        assert_eq!(limit.count(&answer("b", "d", "m")), Verdict::Send, "another question");
        assert_eq!(limit.count(&answer("e", "c", "m")), Verdict::Send, "another peer");
    }

    #[test]
    fn answer_to_our_answer_is_not_answered_unless_it_asks() {
        let mut limit = AnswerLimit::default();
        limit.count(&answer("b", "c", "ours"));
        let of = |parent: &str, asks: bool| json!({"metadata": {"parentId": parent, "requiresResponse": asks, "correlationId": "c"}});
        assert!(limit.ends_with(&of("ours", false)));
        assert!(!limit.ends_with(&of("ours", true)));
        assert!(!limit.ends_with(&of("theirs", false)));
        assert!(!limit.ends_with(&json!({"type": "message"})));
    }

    #[test]
    fn loop_is_counted_among_many_other_correlations() {
        let mut limit = AnswerLimit::default();
        let mut sent = 0;
        for round in 0..2 * ANSWERS_PER_CORRELATION_MAX {
            sent += u32::from(limit.count(&answer("b", "loop", "m")) == Verdict::Send);
            for other in 0..8 {
                limit.count(&answer("b", &format!("{round}-{other}"), "m"));
            }
        }
        assert_eq!(sent, ANSWERS_PER_CORRELATION_MAX);
        assert!(limit.counts.len() <= REMEMBERED_MAX && limit.sent_ids.len() <= REMEMBERED_MAX);
    }
}
