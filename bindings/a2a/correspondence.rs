//! What one party waits for on its line: answers by their correlation, and the echo of its pings.
//!
//! The protocol acknowledges no plain message, so a ping goes behind it: whatever error comes before the echo is about
//! what was sent since the echo before. Generic over the waiter, so that it is tested without channels.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::wire::Type;

/// Answers and echoes that one party may wait for; a script that asks for one more is told to wait.
pub(crate) const WAITING_MAX: usize = 1024;

/// A frame that nobody waits for, or who waited for it.
#[derive(Debug, PartialEq)]
pub(crate) enum Sorted<W> {
    /// Something to be acted upon: a question, an event.
    News(Value),
    /// An answer, or the error that came instead.
    Answer(W, Value),
    /// All is well with what was sent before a ping, or the error about it.
    Echo(W, Option<Value>),
    /// The answer to something that nobody waits for any more.
    Stale,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Asked<W> {
    message_id: String,
    waiter: W,
}

/// A ping that waits for its echo.
#[derive(Debug)]
struct Echo<W> {
    /// The correlation of what was sent before it.
    correlation_id: Option<String>,
    waiter: W,
    error: Option<Value>,
}

/// What a party waits for.
#[derive(Debug)]
pub(crate) struct Correspondence<W> {
    answers: HashMap<String, Asked<W>>,
    echoes: VecDeque<Echo<W>>,
}

impl<W> Default for Correspondence<W> {
    fn default() -> Self {
        Self { answers: HashMap::new(), echoes: VecDeque::new() }
    }
}

impl<W> Correspondence<W> {
    /// Whether one more may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.answers.len() + self.echoes.len() < WAITING_MAX
    }

    /// A question was sent; its correlation is used for nothing else.
    pub(crate) fn asked(&mut self, correlation_id: String, message_id: String, waiter: W) {
        self.answers.insert(correlation_id, Asked { message_id, waiter });
    }

    /// A ping was sent, behind a frame with that correlation.
    pub(crate) fn pinged(&mut self, correlation_id: Option<String>, waiter: W) {
        self.echoes.push_back(Echo { correlation_id, waiter, error: None });
    }

    /// Forgets those who stopped waiting for an answer. An echo keeps its place, or the next would be taken for it.
    pub(crate) fn forget(&mut self, mut is_gone: impl FnMut(&W) -> bool) {
        self.answers.retain(|_, asked| !is_gone(&asked.waiter));
    }

    /// Finds out what a frame is.
    pub(crate) fn sort(&mut self, frame: Value) -> Sorted<W> {
        let kind = frame["type"].as_str().and_then(Type::of);
        let correlation_id = correlation(&frame);
        if kind == Some(Type::Pong) {
            return match self.echoes.pop_front() {
                Some(echo) => Sorted::Echo(echo.waiter, echo.error),
                None => Sorted::Stale,
            };
        }
        // Somebody who asks itself gets the question first, under the same correlation.
        let is_answer = |asked: &Asked<W>| frame["id"] != asked.message_id.as_str();
        let answered = correlation_id.filter(|id| self.answers.get(*id).is_some_and(is_answer));
        if let Some(asked) = answered.and_then(|id| self.answers.remove(id)) {
            return Sorted::Answer(asked.waiter, frame);
        }
        let is_concerned = |echo: &&mut Echo<W>| echo.correlation_id.as_deref() == correlation_id;
        match (kind, self.echoes.front_mut().filter(is_concerned)) {
            (Some(Type::Error), Some(echo)) => {
                echo.error.get_or_insert(frame);
                Sorted::Stale
            }
            (Some(Type::Error | Type::Response), _) => Sorted::Stale,
            _ => Sorted::News(frame),
        }
    }
}

/// What is echoed.
pub(crate) fn ping() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!(Type::Ping.name()))])
}

/// The correlation of a frame, wherever it stands; a decision is correlated by its proposal.
pub(crate) fn correlation(frame: &Value) -> Option<&str> {
    let is_decision = frame["type"] == Type::Decision.name();
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
    fn an_answer_finds_who_asked_once() {
        let mut correspondence = Correspondence::default();
        correspondence.asked("c".to_owned(), "m".to_owned(), 1);
        let answer = json!({"type": "message", "metadata": {"correlationId": "c"}});
        assert_eq!(correspondence.sort(answer.clone()), Sorted::Answer(1, answer.clone()));
        assert_eq!(
            correspondence.sort(answer.clone()),
            Sorted::News(answer),
            "then it is a message like any other"
        );
    }

    #[test]
    fn whoever_asks_itself_gets_the_question_before_the_answer() {
        let mut correspondence = Correspondence::default();
        correspondence.asked("c".to_owned(), "m".to_owned(), 1);
        let question = json!({"type": "message", "id": "m", "correlationId": "c"});
        let answer = json!({"type": "message", "id": "n", "correlationId": "c"});
        assert_eq!(correspondence.sort(question.clone()), Sorted::News(question));
        assert_eq!(correspondence.sort(answer.clone()), Sorted::Answer(1, answer));
    }

    #[test]
    fn a_decision_answers_its_proposal() {
        let mut correspondence = Correspondence::default();
        correspondence.asked("p".to_owned(), "m".to_owned(), 1);
        let decision = json!({"type": "decision", "content": {"proposalId": "p"}});
        assert_eq!(correspondence.sort(decision.clone()), Sorted::Answer(1, decision));
    }

    #[test]
    fn an_error_before_the_echo_is_about_what_was_sent_before_it() {
        let mut correspondence = Correspondence::default();
        for waiter in [1, 2, 3] {
            correspondence.pinged(None, waiter);
        }
        let pong = json!({"type": "pong"});
        assert_eq!(correspondence.sort(pong.clone()), Sorted::Echo(1, None));
        assert_eq!(correspondence.sort(error(3002)), Sorted::Stale);
        assert_eq!(correspondence.sort(error(2005)), Sorted::Stale);
        assert_eq!(
            correspondence.sort(pong.clone()),
            Sorted::Echo(2, Some(error(3002))),
            "the first error counts"
        );
        assert_eq!(correspondence.sort(pong.clone()), Sorted::Echo(3, None));
        assert_eq!(correspondence.sort(pong), Sorted::Stale);
    }

    #[test]
    fn an_error_about_something_else_is_not_taken_for_one_about_this() {
        let mut correspondence = Correspondence::default();
        correspondence.pinged(Some("c".to_owned()), 1);
        let about = |id: &str| {
            let mut frame = error(2005);
            frame["correlationId"] = json!(id);
            frame
        };
        assert_eq!(correspondence.sort(about("d")), Sorted::Stale);
        assert_eq!(correspondence.sort(about("c")), Sorted::Stale);
        assert_eq!(correspondence.sort(json!({"type": "pong"})), Sorted::Echo(1, Some(about("c"))));
    }

    #[test]
    fn an_error_with_a_correlation_is_an_answer() {
        let mut correspondence = Correspondence::default();
        correspondence.pinged(None, 1);
        correspondence.asked("c".to_owned(), "m".to_owned(), 2);
        let mut refused = error(3002);
        refused["correlationId"] = json!("c");
        assert_eq!(correspondence.sort(refused.clone()), Sorted::Answer(2, refused));
        assert_eq!(correspondence.sort(json!({"type": "pong"})), Sorted::Echo(1, None));
    }

    #[test]
    fn the_last_place_is_taken_and_is_free_again_when_nobody_waits() {
        let mut correspondence = Correspondence::default();
        for number in 0..WAITING_MAX {
            assert!(correspondence.has_room());
            correspondence.asked(number.to_string(), "m".to_owned(), number);
        }
        assert!(!correspondence.has_room());
        correspondence.forget(|waiter| *waiter == 0);
        assert!(correspondence.has_room());
    }
}
