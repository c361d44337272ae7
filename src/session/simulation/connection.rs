//! One model client: it speaks JSON with a [`Peer`], and checks that what it hears makes sense.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::protocol::peer::Peer;

/// What a request was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// An eval, by the name of its code.
    Eval(String),
    /// A call of a function that the client held when the context had this number.
    Function(u64),
    /// Anything else.
    Other,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    last_id: u64,
    /// Requests that are not answered.
    pub(super) requests: BTreeMap<u64, Request>,
    /// Calls of the session that are not answered.
    pub(super) calls: BTreeMap<u64, String>,
    /// Functions of the session, with how often each was received and in which context.
    pub(super) held: BTreeMap<String, (u64, u64)>,
    last_function: u64,
    /// How often own functions were sent and not released.
    own: BTreeMap<String, u64>,
    /// The bindings that it declares.
    pub(super) bindings: Vec<&'static str>,
    /// The number of lines that were printed before it was attached.
    pub(super) printed_before: u64,
    /// The last console line that it got.
    last_line: u64,
    /// Where its last answered eval stands in the order of acceptance.
    pub(super) last_answered: u64,
}

impl Connection {
    pub(super) fn new(bindings: Vec<&'static str>, printed_before: u64, requests_max: usize) -> Self {
        Self {
            peer: Peer::new(requests_max),
            last_id: 0,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            held: BTreeMap::new(),
            last_function: 0,
            own: BTreeMap::new(),
            bindings,
            printed_before,
            last_line: 0,
            last_answered: 0,
        }
    }

    /// The text of a new request.
    pub(super) fn request(&mut self, method: &str, params: &Value, request: Request) -> String {
        self.last_id += 1;
        self.requests.insert(self.last_id, request);
        json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).to_string()
    }

    /// The id that the next request gets.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// A function of its own, new or sent before, as a value.
    pub(super) fn send_function(&mut self, is_new: bool) -> Value {
        if is_new || self.last_function == 0 {
            self.last_function += 1;
        }
        let id = format!("c{}", self.last_function);
        *self.own.entry(id.clone()).or_default() += 1;
        json!({"$fn": id})
    }

    /// The session calls it, or says something about calls and functions.
    pub(super) fn hear_method(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("invoke") => self.hear_invoke(message["id"].as_u64().unwrap(), params),
            Some("cancel_invoke") => {
                let given_up = self.calls.remove(&params["id"].as_u64().unwrap());
                assert!(given_up.is_some(), "a call is given up that is not open: {message}");
            }
            Some("release_ref") => {
                let sent = self.own.get_mut(params["ref"].as_str().unwrap());
                let sent =
                    sent.unwrap_or_else(|| panic!("a function is released that was not sent: {message}"));
                let count = params["count"].as_u64().unwrap();
                *sent = sent.checked_sub(count).unwrap_or_else(|| panic!("released too often: {message}"));
            }
            other => panic!("the method {other:?}"),
        }
    }

    fn hear_invoke(&mut self, id: u64, params: &Value) {
        let name = params["binding"].as_str().or(params["ref"].as_str()).unwrap().to_owned();
        match params.get("binding") {
            Some(_) => {
                let is_declared =
                    |binding: &&str| binding.trim_end_matches('#').split(':').next() == Some(&name);
                assert!(self.bindings.iter().any(is_declared), "{name} is called and not declared");
            }
            None => {
                assert!(self.own.get(&name).is_some_and(|sent| *sent > 0), "{name} is called and released")
            }
        }
        if name == "console.write" {
            let line = line_number(&params["input"]);
            assert!(line > self.last_line, "line {line} comes after line {}", self.last_line);
            self.last_line = line;
        }
        assert!(self.calls.insert(id, name).is_none(), "the id {id} is used twice");
    }

    /// Console lines of an answer come after the same lines as calls, if it wants them as they come.
    pub(super) fn check_console(&self, answer: &Value) {
        let console = answer["result"].get("console").or_else(|| answer["error"]["data"].get("console"));
        let Some(Value::Array(lines)) = console else { return };
        if self.bindings.contains(&"console.write") {
            let last = lines.iter().map(line_number).filter(|line| *line > self.printed_before).max();
            assert!(last.unwrap_or_default() <= self.last_line, "an answer overtook line {last:?}");
        }
    }

    /// Counts the functions in a value that it got.
    pub(super) fn receive_functions(&mut self, value: &Value, epoch: u64) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(id)) = fields.get("$fn") {
                    let held = self.held.entry(id.clone()).or_insert((0, epoch));
                    *held = (held.0 + 1, epoch);
                }
                fields.values().for_each(|field| self.receive_functions(field, epoch));
            }
            Value::Array(items) => items.iter().for_each(|item| self.receive_functions(item, epoch)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn line_number(line: &Value) -> u64 {
    line["text"].as_str().unwrap().parse().unwrap()
}
