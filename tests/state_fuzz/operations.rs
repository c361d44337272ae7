//! What a client does next: one message of a packet.

use std::sync::atomic::AtomicU64;

use serde_json::{Value, json};

use super::client::Client;
use super::link::{Asked, Link};
use super::{code, count};

/// Keys of one session that are in use at the same time, well below the outcomes that a session remembers.
const KEYS_PER_EPOCH: u64 = 12;

impl Client {
    /// The text of one message for this connection.
    pub(crate) fn message(&mut self, link: &mut Link) -> String {
        count(&self.counts.messages);
        match self.rng.u8(0..100) {
            0..=34 => self.eval(link),
            35..=54 => self.keyed_eval(link),
            55..=69 => self.invoke_function(link),
            70..=74 => self.release(link),
            75..=77 => self.cancel(link),
            78..=81 => {
                self.forget_keys();
                self.control(link, "session.reset", json!({}))
            }
            82 => {
                self.forget_keys();
                self.control(link, "session.close", json!({}))
            }
            83..=88 => self.control(link, "session.info", json!({})),
            89 => self.control(link, "bindings.search", json!({"query": "k"})),
            90 => self.control(link, "kv.get", json!({"key": "k1"})),
            91 => self.control(link, "no.such", json!({})),
            92 => self.control(link, "session.info", json!({"surplus": true})),
            93 => link.request("handshake", json!({"protocol": "0.1"}), Asked::Plain("handshake")),
            94 => link.request("nonsense", json!([1]), Asked::Plain("nonsense")),
            95 => json!({"jsonrpc": "2.0", "id": self.rng.u16(..), "result": {"value": 1}}).to_string(),
            96 => json!({"jsonrpc": "2.0", "method": "eval", "params": {"code": "1"}}).to_string(),
            97 => json!({"jsonrpc": "2.0", "id": null, "method": "eval"}).to_string(),
            98 => "{\"jsonrpc\": \"2.0\", \"id\":".to_owned(),
            _ => "[]".to_owned(),
        }
    }

    fn eval(&mut self, link: &mut Link) -> String {
        let mut params = json!({"code": code::any(&mut self.rng)});
        if self.rng.u8(0..8) == 0 {
            params["timeoutMs"] = json!(self.rng.u64(0..100));
        }
        if self.rng.u8(0..8) == 0 {
            params["fresh"] = json!(true);
        }
        if self.rng.u8(0..8) == 0 {
            params["stats"] = json!(true);
        }
        link.request("eval", params, Asked::Plain("eval"))
    }

    fn keyed_eval(&mut self, link: &mut Link) -> String {
        let key = format!("{}-{}-{}", self.name, self.epoch, self.rng.u64(0..KEYS_PER_EPOCH));
        let code = match self.keys.get(&key) {
            Some(keyed) => {
                count(&self.counts.keyed_repeats);
                keyed.code.clone()
            }
            None => {
                let code = code::keyed(&mut self.rng, &key);
                self.keys.entry(key.clone()).or_default().code.clone_from(&code);
                code
            }
        };
        link.request("eval", json!({"code": code, "key": key}), Asked::Keyed(key))
    }

    /// Past a reset or a close the keys of a session are free again, so others are used.
    fn forget_keys(&mut self) {
        count(&self.counts.resets);
        self.epoch += 1;
    }

    fn invoke_function(&mut self, link: &mut Link) -> String {
        let reference = match self.rng.choice(link.functions.clone()) {
            Some(known) if self.rng.u8(0..10) > 0 => known,
            Some(_) | None => format!("f{}", self.rng.u8(..)),
        };
        let params = match self.rng.u8(0..4) {
            0 => json!({"ref": reference, "input": self.any_value()}),
            1 => json!({"ref": reference, "args": []}),
            2 => json!({"ref": reference, "args": [self.any_value(), self.any_value()]}),
            _ => json!({"ref": reference, "input": self.own_function()}),
        };
        link.request("invoke", params, Asked::Plain("invoke"))
    }

    fn release(&mut self, link: &mut Link) -> String {
        let reference = match link.functions.len() {
            0 => "f1".to_owned(),
            length => link.functions.swap_remove(self.rng.usize(..length)),
        };
        let params = json!({"ref": reference, "count": self.rng.u64(1..4)});
        json!({"jsonrpc": "2.0", "method": "release_ref", "params": params}).to_string()
    }

    fn cancel(&mut self, link: &mut Link) -> String {
        let input = match self.rng.choice(&link.evals) {
            Some(id) if self.rng.bool() => json!({"evalId": id}),
            Some(_) | None => json!({}),
        };
        self.control(link, "session.cancel", input)
    }

    fn control(&mut self, link: &mut Link, binding: &'static str, input: Value) -> String {
        link.request("invoke", json!({"binding": binding, "input": input}), Asked::Plain(binding))
    }

    fn own_function(&mut self) -> Value {
        json!({"$fn": format!("c{}", self.rng.u8(0..60)), "name": "own"})
    }

    fn any_value(&mut self) -> Value {
        match self.rng.u8(0..5) {
            0 => json!(null),
            1 => json!([1, {"a": "b"}]),
            2 => json!({"$date": "2026-01-01T00:00:00.000Z"}),
            _ => {
                let length = self.rng.usize(0..6);
                (0..length).map(|_| self.own_function()).collect()
            }
        }
    }

    /// The answer to a request of the server; now and then none, or two, or one that makes no sense.
    pub(crate) fn answer(&mut self, call: &Value, is_honest: bool) -> Vec<String> {
        let id = &call["id"];
        let good = |value: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"value": value}}).to_string();
        // Runs are counted by these calls, so they are always answered.
        if call.pointer("/params/binding") == Some(&json!("ran")) {
            return vec![good(Value::Null)];
        }
        let value = self.any_value();
        match self.rng.u8(0..10) {
            0 if !is_honest => Vec::new(),
            1 if !is_honest => vec![good(value.clone()), good(value)],
            2 if !is_honest => vec![json!({"jsonrpc": "2.0", "id": id, "result": 1, "error": 2}).to_string()],
            3 => vec![json!({"jsonrpc": "2.0", "id": id, "error": {"code": 7, "message": "no"}}).to_string()],
            _ => vec![good(value)],
        }
    }
}

/// Collects the references of functions in a value.
pub(crate) fn functions_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(id)) = fields.get("$fn")
                && !found.contains(id)
            {
                found.push(id.clone());
            }
            fields.values().for_each(|field| functions_in(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| functions_in(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Functions in a stored outcome are handed out anew, under another reference.
pub(crate) fn without_references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(id) = fields.get_mut("$fn") {
                *id = Value::Null;
            }
            fields.values_mut().for_each(without_references);
        }
        Value::Array(items) => items.iter_mut().for_each(without_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Counts what is worth a line in the report.
pub(crate) fn note(answer: &Value, lost_sessions: &AtomicU64) {
    if answer.pointer("/error/data/sessionLost").is_some() {
        count(lost_sessions);
    }
}
