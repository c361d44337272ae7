//! A client's side of one connection to a gateway: its token, the hello, and the answers to its requests.
//!
//! A gateway serves the requests of a connection one after another and knows no way to stop one, so a connection has
//! few requests under way and is dropped when a chat is to end. Ids are numbers that never come again; an answer to one
//! that is not waited for is reported and harmless.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bindings::exoclaw::wire::{self, Reply};

/// Requests that may wait for their answers on one connection.
/// They are answered one by one, so more would only wait in the gateway.
pub(crate) const REQUESTS_WAITING_MAX: usize = 64;

/// What the gateway has sent for a request, or what ended it.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// All of it.
    Outcome(Result<Value, String>),
    /// A part of it; `done` is the last.
    Event { event: String, data: Option<Value> },
    /// Nothing more comes, and why.
    Lost(String),
}

/// What the driver does for the machine.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect<W> {
    /// Send a frame.
    Send(String),
    /// The hello came: requests may be made.
    Ready,
    /// The token was refused, now and whenever it is tried again.
    AuthFailed,
    /// Hand this to whoever waits.
    Deliver(W, Answer),
    /// Something that no rule of the protocol allows came in.
    Odd(String),
}

/// Why a request was not made; what waited is given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsent<W> {
    NotReady(W),
    Full(W),
}

/// One connection. `W` is what waits for an answer.
#[derive(Debug)]
pub(crate) struct Machine<W> {
    token: Option<String>,
    is_ready: bool,
    requests_made: u64,
    waiting: BTreeMap<u64, W>,
}

impl<W: Clone> Machine<W> {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { token, is_ready: false, requests_made: 0, waiting: BTreeMap::new() }
    }

    /// The connection is there: the first frame is the token, if there is one.
    pub(crate) fn on_open(&mut self) -> Vec<Effect<W>> {
        self.is_ready = false;
        self.token.iter().map(|token| Effect::Send(wire::auth(token))).collect()
    }

    /// A request is to be made; gives the frame.
    pub(crate) fn request(
        &mut self,
        method: &str,
        params: Option<&Value>,
        waiter: W,
    ) -> Result<String, Unsent<W>> {
        if !self.is_ready {
            return Err(Unsent::NotReady(waiter));
        }
        if self.waiting.len() >= REQUESTS_WAITING_MAX {
            return Err(Unsent::Full(waiter));
        }
        self.requests_made += 1;
        self.waiting.insert(self.requests_made, waiter);
        Ok(wire::request(&self.requests_made.to_string(), method, params))
    }

    /// A text frame came in.
    pub(crate) fn on_text(&mut self, text: &str) -> Effect<W> {
        match Reply::read(text) {
            Ok(Reply::Hello) if self.is_ready => Effect::Odd("a second hello".to_owned()),
            Ok(Reply::Hello) => {
                self.is_ready = true;
                Effect::Ready
            }
            Ok(Reply::AuthFailed) => Effect::AuthFailed,
            Ok(Reply::Answer { id, outcome }) => self.deliver(&id, Answer::Outcome(outcome), true),
            Ok(Reply::Event { id, event, data }) => {
                let is_last = event == "done";
                self.deliver(&id, Answer::Event { event, data }, is_last)
            }
            Err(odd) => Effect::Odd(odd),
        }
    }

    /// The connection is gone; gives everybody who still waits.
    pub(crate) fn on_end(&mut self) -> Vec<W> {
        self.is_ready = false;
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    fn deliver(&mut self, id: &str, answer: Answer, is_last: bool) -> Effect<W> {
        let number = id.parse::<u64>().ok();
        let waiter = number.and_then(|number| {
            if is_last { self.waiting.remove(&number) } else { self.waiting.get(&number).cloned() }
        });
        match (waiter, number) {
            (Some(waiter), _) => Effect::Deliver(waiter, answer),
            (None, Some(number)) if (1..=self.requests_made).contains(&number) => {
                Effect::Odd(format!("an answer to request {id}, which has ended"))
            }
            (None, _) => Effect::Odd(format!("an answer to `{id}`, which was never asked")),
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
        assert_eq!(machine.on_text(&wire::hello()), Effect::Ready);
        machine
    }

    #[test]
    fn the_token_goes_first_and_nothing_is_asked_before_the_hello() {
        let mut machine = Machine::new(Some("s".to_owned()));
        assert_eq!(machine.on_open(), [Effect::Send(r#"{"token":"s"}"#.to_owned())]);
        assert_eq!(machine.request("ping", None, "w"), Err(Unsent::NotReady("w")));
        assert_eq!(machine.on_text(&wire::hello()), Effect::Ready);
        assert_eq!(machine.request("ping", None, "w"), Ok(r#"{"id":"1","method":"ping"}"#.to_owned()));
    }

    #[test]
    fn a_refused_token_is_told() {
        let mut machine = Machine::<()>::new(Some("s".to_owned()));
        machine.on_open();
        assert_eq!(machine.on_text(&wire::auth_failed()), Effect::AuthFailed);
    }

    #[test]
    fn answers_find_who_waits_in_any_order_and_once() {
        let mut machine = ready();
        machine.request("ping", None, "one").unwrap();
        machine.request("status", None, "two").unwrap();
        let two = machine.on_text(r#"{"id":"2","error":"no"}"#);
        assert_eq!(two, Effect::Deliver("two", Answer::Outcome(Err("no".to_owned()))));
        let one = machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert_eq!(one, Effect::Deliver("one", Answer::Outcome(Ok(json!("pong")))));
        let again = machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert_eq!(again, Effect::Odd("an answer to request 1, which has ended".to_owned()));
        let unknown = machine.on_text(r#"{"id":"9","result":"pong"}"#);
        assert_eq!(unknown, Effect::Odd("an answer to `9`, which was never asked".to_owned()));
    }

    #[test]
    fn a_stream_ends_with_done_and_not_with_an_error() {
        let mut machine = ready();
        machine.request("chat.send", Some(&json!({})), "w").unwrap();
        for event in ["text", "error", "done"] {
            let frame = json!({"id": "1", "event": event}).to_string();
            let answer = Answer::Event { event: event.to_owned(), data: None };
            assert_eq!(machine.on_text(&frame), Effect::Deliver("w", answer));
        }
        assert_eq!(machine.on_end(), Vec::<&str>::new());
    }

    #[test]
    fn the_end_of_the_connection_gives_back_who_waits() {
        let mut machine = ready();
        machine.request("ping", None, "one").unwrap();
        machine.request("ping", None, "two").unwrap();
        assert_eq!(machine.on_end(), ["one", "two"]);
        assert_eq!(machine.request("ping", None, "w"), Err(Unsent::NotReady("w")));
    }

    #[test]
    fn ids_are_not_used_again_on_a_new_connection() {
        let mut machine = ready();
        machine.request("ping", None, "one").unwrap();
        machine.on_end();
        machine.on_open();
        machine.on_text(&wire::hello());
        assert_eq!(machine.request("ping", None, "two"), Ok(r#"{"id":"2","method":"ping"}"#.to_owned()));
    }

    #[test]
    fn requests_that_wait_have_a_largest_number() {
        let mut machine = ready();
        for _ in 0..REQUESTS_WAITING_MAX {
            machine.request("ping", None, "w").unwrap();
        }
        assert_eq!(machine.request("ping", None, "late"), Err(Unsent::Full("late")));
        machine.on_text(r#"{"id":"1","result":"pong"}"#);
        assert!(machine.request("ping", None, "w").is_ok());
    }

    proptest! {
        #[test]
        fn nothing_that_a_gateway_sends_breaks_the_client(text in ".{0,80}", id in "[0-9]{0,25}") {
            let mut machine = ready();
            machine.request("ping", None, "w").unwrap();
            machine.on_text(&text);
            machine.on_text(&json!({"id": id, "event": text}).to_string());
            prop_assert!(machine.on_end().len() <= 1);
        }
    }
}
