//! The client's side of one connection to a gateway, without I/O: its token, the hello frame, and
//! its requests.
//!
//! A gateway serves the requests of a connection one after another and cannot cancel one. So a
//! connection has few requests in flight, and is closed to end a chat. Ids are consecutive numbers
//! and never reused; a reply without a pending request causes only a warning.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bindings::exoclaw::wire::{self, Reply};

/// Most requests in flight on one connection.
/// The gateway serves them one by one, so more would only wait there.
pub(crate) const REQUESTS_PENDING_MAX: usize = 64;

/// What the sender of a request receives.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// The complete response.
    Response(Result<Value, String>),
    /// A part of a streamed answer; `done` is the last.
    Event { event: String, data: Option<Value> },
    /// The connection failed, with the reason.
    Lost(String),
}

/// What the driver has to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect<W> {
    Send(String),
    /// The hello frame arrived, so requests can be sent.
    Ready,
    /// The gateway rejected the token. Another attempt would fail too.
    AuthFailed,
    Deliver(W, Answer),
    /// The gateway violated the protocol.
    Warn(String),
}

/// Why a request was not sent. Returns the waiter to the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SendError<W> {
    NotReady(W),
    TooManyPending(W),
}

/// `W` receives the answer to a request.
#[derive(Debug)]
pub(crate) struct Machine<W> {
    token: Option<String>,
    is_ready: bool,
    requests_sent: u64,
    pending: BTreeMap<u64, W>,
}

impl<W: Clone> Machine<W> {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { token, is_ready: false, requests_sent: 0, pending: BTreeMap::new() }
    }

    /// Sends the token, if there is one, as the first frame.
    pub(crate) fn on_open(&mut self) -> Vec<Effect<W>> {
        self.is_ready = false;
        self.token.iter().map(|token| Effect::Send(wire::encode_auth(token))).collect()
    }

    /// Registers a request and returns its frame.
    pub(crate) fn start_request(
        &mut self,
        method: &str,
        params: Option<&Value>,
        waiter: W,
    ) -> Result<String, SendError<W>> {
        if !self.is_ready {
            return Err(SendError::NotReady(waiter));
        }
        if self.pending.len() >= REQUESTS_PENDING_MAX {
            return Err(SendError::TooManyPending(waiter));
        }
        self.requests_sent += 1;
        self.pending.insert(self.requests_sent, waiter);
        Ok(wire::encode_request(&self.requests_sent.to_string(), method, params))
    }

    pub(crate) fn on_text(&mut self, text: &str) -> Effect<W> {
        match Reply::parse(text) {
            Ok(Reply::Hello) if self.is_ready => Effect::Warn("duplicate hello".to_owned()),
            Ok(Reply::Hello) => {
                self.is_ready = true;
                Effect::Ready
            }
            Ok(Reply::AuthFailed) => Effect::AuthFailed,
            Ok(Reply::Response { id, outcome }) => self.deliver(&id, Answer::Response(outcome), true),
            Ok(Reply::Event { id, event, data }) => {
                let is_last = event == "done";
                self.deliver(&id, Answer::Event { event, data }, is_last)
            }
            Err(reason) => Effect::Warn(reason),
        }
    }

    /// The connection has ended. Returns the waiters of the pending requests.
    pub(crate) fn on_end(&mut self) -> Vec<W> {
        self.is_ready = false;
        std::mem::take(&mut self.pending).into_values().collect()
    }

    fn deliver(&mut self, id: &str, answer: Answer, is_last: bool) -> Effect<W> {
        let number = id.parse::<u64>().ok();
        let waiter = number.and_then(|number| {
            if is_last { self.pending.remove(&number) } else { self.pending.get(&number).cloned() }
        });
        match (waiter, number) {
            (Some(waiter), _) => Effect::Deliver(waiter, answer),
            (None, Some(number)) if (1..=self.requests_sent).contains(&number) => {
                Effect::Warn(format!("reply to request {id}, which has ended"))
            }
            (None, _) => Effect::Warn(format!("reply to unknown request `{id}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn ready() -> Machine<&'static str> {
        let mut machine = Machine::new(None);
        assert_eq!(machine.on_open(), []);
        assert_eq!(machine.on_text(&wire::hello_frame()), Effect::Ready);
        machine
    }

    #[test]
    fn token_is_sent_first_and_requests_wait_for_hello() {
        let mut machine = Machine::new(Some("s".to_owned()));
        assert_eq!(machine.on_open(), [Effect::Send(r#"{"token":"s"}"#.to_owned())]);
        assert_eq!(machine.start_request("ping", None, "w"), Err(SendError::NotReady("w")));
        assert_eq!(machine.on_text(&wire::hello_frame()), Effect::Ready);
        assert_eq!(machine.start_request("ping", None, "w"), Ok(r#"{"id":"1","method":"ping"}"#.to_owned()));
    }

    #[test]
    fn rejected_token_is_reported() {
        let mut machine = Machine::<()>::new(Some("s".to_owned()));
        machine.on_open();
        assert_eq!(machine.on_text(&wire::auth_failed_frame()), Effect::AuthFailed);
    }

    #[test]
    fn answers_are_delivered_once_in_any_order() {
        let mut machine = ready();
        machine.start_request("ping", None, "one").unwrap();
        machine.start_request("status", None, "two").unwrap();
        let two = machine.on_text(r#"{"id":"2","error":"no"}"#);
        assert_eq!(two, Effect::Deliver("two", Answer::Response(Err("no".to_owned()))));
        let one = machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert_eq!(one, Effect::Deliver("one", Answer::Response(Ok(json!("pong")))));
        let again = machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert_eq!(again, Effect::Warn("reply to request 1, which has ended".to_owned()));
        let unknown = machine.on_text(r#"{"id":"9","result":"pong"}"#);
        assert_eq!(unknown, Effect::Warn("reply to unknown request `9`".to_owned()));
    }

    #[test]
    fn stream_ends_with_done_and_not_with_error() {
        let mut machine = ready();
        machine.start_request("chat.send", Some(&json!({})), "w").unwrap();
        for event in ["text", "error", "done"] {
            let frame = json!({"id": "1", "event": event}).to_string();
            let answer = Answer::Event { event: event.to_owned(), data: None };
            assert_eq!(machine.on_text(&frame), Effect::Deliver("w", answer));
        }
        assert_eq!(machine.on_end(), Vec::<&str>::new());
    }

    #[test]
    fn end_of_connection_returns_the_waiters() {
        let mut machine = ready();
        machine.start_request("ping", None, "one").unwrap();
        machine.start_request("ping", None, "two").unwrap();
        assert_eq!(machine.on_end(), ["one", "two"]);
        assert_eq!(machine.start_request("ping", None, "w"), Err(SendError::NotReady("w")));
    }

    #[test]
    fn ids_continue_on_a_new_connection() {
        let mut machine = ready();
        machine.start_request("ping", None, "one").unwrap();
        machine.on_end();
        machine.on_open();
        machine.on_text(&wire::hello_frame());
        assert_eq!(
            machine.start_request("ping", None, "two"),
            Ok(r#"{"id":"2","method":"ping"}"#.to_owned())
        );
    }

    #[test]
    fn requests_past_the_limit_are_rejected() {
        let mut machine = ready();
        for _ in 0..REQUESTS_PENDING_MAX {
            machine.start_request("ping", None, "w").unwrap();
        }
        assert_eq!(machine.start_request("ping", None, "late"), Err(SendError::TooManyPending("late")));
        machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert!(machine.start_request("ping", None, "w").is_ok());
    }

    proptest! {
        #[test]
        fn any_frame_is_handled_without_panic(text in ".{0,80}", id in "[0-9]{0,25}") {
            let mut machine = ready();
            machine.start_request("ping", None, "w").unwrap();
            machine.on_text(&text);
            machine.on_text(&json!({"id": id, "event": text}).to_string());
            prop_assert!(machine.on_end().len() <= 1);
        }
    }
}
