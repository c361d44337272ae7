//! A connection that knows what it is owed: every answer must be expected, and come once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::Wire;
use crate::support::wire::Arrival;

/// What the answer to a request must be.
#[derive(Debug)]
pub enum Owed {
    Value(Value),
    /// The outcome of this key.
    Keyed(u8),
    Cancelled,
    /// Checked by the caller.
    Anything,
}

/// A connection after its handshake.
pub struct Client {
    wire: Wire,
    owed: BTreeMap<u64, Owed>,
    /// Which session it was opened for.
    pub session: usize,
    /// Outcomes of keyed evals that are not in the model yet.
    pub outcomes: Vec<(u8, u64)>,
}

impl Client {
    pub fn new(wire: Wire, session: usize) -> Self {
        Self { wire, owed: BTreeMap::new(), session, outcomes: Vec::new() }
    }

    pub async fn send(&mut self, method: &str, params: Value, owed: Owed) -> u64 {
        let id = self.wire.send(method, params).await;
        self.owed.insert(id, owed);
        id
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.wire.text(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Reads until this request is answered.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.wire.json().await;
            if self.take(&message) == id {
                return message;
            }
        }
    }

    pub async fn request(&mut self, method: &str, params: Value, owed: Owed) -> Value {
        let id = self.send(method, params, owed).await;
        self.answer(id).await
    }

    pub async fn invoke(&mut self, binding: &str, input: Value) -> Value {
        let answer =
            self.request("invoke", json!({"binding": binding, "input": input}), Owed::Anything).await;
        answer.pointer("/result/value").unwrap_or_else(|| panic!("{binding} => {answer}")).clone()
    }

    /// Reads until nothing is owed.
    pub async fn answer_all(&mut self) {
        while let Some(id) = self.owed.keys().next().copied() {
            self.answer(id).await;
        }
    }

    /// Reads to the end, which must be a close with this code; what is still owed stays so.
    pub async fn closed_with(mut self, code: u16) -> Vec<(u8, u64)> {
        loop {
            match self.wire.next().await {
                Arrival::Text(text) => {
                    self.take(&serde_json::from_str(&text).unwrap());
                }
                end => {
                    assert_eq!(end, Arrival::Closed(code));
                    return self.outcomes;
                }
            }
        }
    }

    fn take(&mut self, message: &Value) -> u64 {
        assert!(message.get("method").is_none(), "nothing was declared, so nothing is called: {message}");
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("an answer to nothing: {message}"));
        let value = message.pointer("/result/value");
        match self.owed.remove(&id).unwrap_or_else(|| panic!("a second answer: {message}")) {
            Owed::Value(expected) => assert_eq!(value, Some(&expected), "{message}"),
            Owed::Keyed(key) => {
                let outcome = value.and_then(Value::as_u64).unwrap_or_else(|| panic!("key {key}: {message}"));
                self.outcomes.push((key, outcome));
            }
            Owed::Cancelled => {
                assert_eq!(message.pointer("/error/data/kind"), Some(&json!("Cancelled")), "{message}");
            }
            Owed::Anything => {}
        }
        id
    }
}
