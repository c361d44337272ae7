//! The model: what a session's tokens, keys and functions are after all that happened to it.

use std::collections::BTreeMap;

use serde_json::Value;

/// A session as the protocol says it is.
#[derive(Debug)]
pub struct Expected {
    pub id: Value,
    pub current: Value,
    /// Good until the client has shown that it has `current`.
    pub previous: Option<Value>,
    /// A token that was good once and is not any more.
    pub void: Option<Value>,
    /// Which slot holds it.
    pub holder: Option<usize>,
    /// A session that never ran anything is not worth keeping.
    pub ran_eval: bool,
    /// Ended by its client, or left before it ran anything.
    pub is_over: bool,
    /// An eval of it waits for something that never comes.
    pub is_hung: bool,
    /// Every key that was sent, with its outcome once that was heard.
    pub keys: BTreeMap<u8, Option<u64>>,
    /// References that its client holds.
    pub held: Vec<Value>,
}

impl Expected {
    pub fn new(id: Value, token: Value, holder: usize) -> Self {
        Self {
            id,
            current: token,
            previous: None,
            void: None,
            holder: Some(holder),
            ran_eval: false,
            is_over: false,
            is_hung: false,
            keys: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    pub fn accepts(&self, token: &Value) -> bool {
        !self.is_over && (*token == self.current || self.previous.as_ref() == Some(token))
    }

    /// A client came with `shown` and was given `token`.
    pub fn resumed(&mut self, shown: &Value, token: Value, holder: usize) {
        let replaced = std::mem::replace(&mut self.current, token);
        let before = self.previous.replace(shown.clone());
        self.void =
            [Some(replaced), before].into_iter().flatten().find(|old| old != shown).or(self.void.take());
        self.holder = Some(holder);
        self.held.clear();
    }

    /// The client was heard after its handshake.
    pub fn heard(&mut self, is_eval: bool) {
        self.void = self.previous.take().or(self.void.take());
        self.ran_eval |= is_eval;
    }

    /// Its client is gone.
    pub fn left(&mut self) {
        self.holder = None;
        self.held.clear();
        self.is_over |= !self.ran_eval;
    }

    /// The outcome of a keyed eval came in: its side effect is counted by the value.
    pub fn keyed_outcome(&mut self, key: u8, outcome: u64) {
        let known = self.keys.insert(key, Some(outcome)).flatten();
        assert!(known.is_none_or(|known| known == outcome), "key {key} gave {known:?}, then {outcome}");
        let twice = self.keys.iter().find(|(other, value)| **other != key && **value == Some(outcome));
        assert!(twice.is_none(), "keys {key} and {twice:?} gave {outcome}");
        assert!(outcome <= self.keys.len() as u64, "{outcome} runs for {} keys", self.keys.len());
    }
}
