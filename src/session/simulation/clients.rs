//! The clients of a session, one connection after the other, and what random clients do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::World;
use super::connection::{Connection, Request};
use crate::protocol::client_messages::{FromClient, ToClient};
use crate::protocol::peer;
use crate::session::boundary::{Admission, ToSession};
use crate::session::tests::support::catalog;

/// An eval that was sent.
#[derive(Debug, Clone)]
struct SentEval {
    /// Its place among all evals.
    order: u64,
    key: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) connections: BTreeMap<u64, Connection>,
    last_number: u64,
    /// The connection that the session was last said to have.
    pub(super) attached: Option<u64>,
    evals: BTreeMap<String, SentEval>,
    started: BTreeSet<String>,
    last_started: u64,
    /// Keys of evals that ran since the last reset.
    run_keys: BTreeSet<String>,
    /// Numbers of the session's calls.
    calls: BTreeSet<u64>,
}

impl Clients {
    /// Those of a fork: none is connected yet, and names go on from here.
    pub(super) fn fork(&self) -> Self {
        Self {
            connections: BTreeMap::new(),
            last_number: self.last_number,
            attached: None,
            evals: self.evals.clone(),
            started: self.started.clone(),
            last_started: self.last_started,
            run_keys: self.run_keys.clone(),
            calls: self.calls.clone(),
        }
    }

    /// The session has ended. Every request of its connection is answered by then.
    pub(super) fn close_all(&mut self) {
        let attached = self.attached.take().and_then(|number| self.connections.get(&number));
        if let Some(connection) = attached {
            assert!(connection.requests.is_empty(), "requests not answered: {:?}", connection.requests);
        }
        self.connections.clear();
    }

    /// The code of an eval begins to run; evals do so in the order received.
    pub(super) fn note_started(&mut self, name: &str) {
        let order = self.evals[name].order;
        assert!(order > self.last_started, "{name} runs out of order");
        self.last_started = order;
        assert!(self.started.insert(name.to_owned()), "{name} runs twice");
        if let Some(key) = &self.evals[name].key {
            assert!(self.run_keys.insert(key.clone()), "the key {key} runs twice");
        }
    }
}

impl World {
    /// A text of a client arrives at its server.
    pub(super) fn text(&mut self, number: u64, text: &str) {
        self.note(|| format!("{number}> {text}"));
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        if let Some(effect) = connection.peer.on_text(text) {
            self.perform_for(number, effect);
        }
    }

    fn perform_for(&mut self, number: u64, effect: peer::Effect) {
        match effect {
            peer::Effect::Send(text) => self.hear(number, &text),
            peer::Effect::Handshake { request, .. } => {
                let bindings = catalog(0, &self.clients.connections[&number].bindings);
                let listed = self.host.catalog();
                self.send(ToSession::Attach { connection: number, bindings, listed, schema_bytes: 0 });
                assert_eq!(self.clients.attached, Some(number), "an attach is answered");
                let Some(connection) = self.clients.connections.get_mut(&number) else { return };
                let text = connection.peer.on_handshake(&request, Ok(&json!({})));
                self.hear(number, &text);
            }
            peer::Effect::Command(command) => {
                let is_eval = matches!(command, FromClient::Eval { .. });
                let is_charged = !matches!(command, FromClient::Answer { .. }) || self.rng.bool();
                let admission = if is_charged { self.admission(is_eval) } else { Admission::default() };
                let charge = if is_charged { self.host.charge(admission.has_slot) } else { 0 };
                self.send(ToSession::Client { connection: number, command, charge, admission });
            }
            peer::Effect::Close(..) => {
                self.clients.connections.remove(&number);
                if self.clients.attached == Some(number) {
                    self.clients.attached = None;
                }
            }
            peer::Effect::Ignored(_) => {}
        }
    }

    /// The session has something for a connection: it must be the one that is attached.
    pub(super) fn receive_event(&mut self, number: u64, event: ToClient) {
        assert_eq!(
            self.clients.attached,
            Some(number),
            "sent to a connection that is not attached: {event:?}"
        );
        let is_answer = matches!(event, ToClient::Answered { .. });
        if let ToClient::Call { call, .. } = &event {
            assert!(self.clients.calls.insert(*call), "the call {call} is sent twice");
        }
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        match connection.peer.on_event(event) {
            Some(effect) => self.perform_for(number, effect),
            None => assert!(!is_answer, "an answer without a request"),
        }
    }

    /// A client hears something.
    fn hear(&mut self, number: u64, text: &str) {
        self.note(|| format!("{number}< {text}"));
        let message: Value = serde_json::from_str(text).unwrap();
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        if message.get("method").is_some() {
            return connection.hear_method(&message);
        }
        let Some(id) = message["id"].as_u64() else { return };
        let request = connection.requests.remove(&id);
        let request = request.unwrap_or_else(|| panic!("an answer without a request: {text}"));
        if !self.session.is_ending() {
            connection.check_console(&message);
        }
        self.check_answer(number, &request, &message);
    }

    fn check_answer(&mut self, number: u64, request: &Request, answer: &Value) {
        let (epoch, clients) = (self.epoch, &mut self.clients);
        let Some(connection) = clients.connections.get_mut(&number) else { return };
        let value = &answer["result"]["value"];
        // An answer that waited behind console lines may be of a context that was replaced since.
        let made = value["epoch"].as_u64().unwrap_or(epoch);
        match request {
            Request::Eval(name) => {
                let sent = &clients.evals[name];
                if let Some(result) = value["name"].as_str() {
                    let same_key = sent.key.is_some() && clients.evals[result].key == sent.key;
                    assert!(result == name || same_key, "{name} got the value of {result}");
                }
                if sent.key.is_some() {
                    return;
                }
                if clients.started.contains(name) {
                    assert!(sent.order > connection.last_answered, "{name} is answered out of order");
                    connection.last_answered = sent.order;
                }
                connection.receive_functions(value, made);
            }
            Request::Function(since) => {
                let is_unknown = answer["error"]["data"]["kind"] == json!("UnknownRef");
                assert!(!is_unknown || *since < epoch, "a function that is held is unknown: {answer}");
                connection.receive_functions(value, made);
            }
            Request::Other => connection.receive_functions(value, made),
        }
    }

    /// A client connects, and takes the session from another one if need be.
    pub(super) fn connect(&mut self) {
        self.clients.last_number += 1;
        let number = self.clients.last_number;
        let mut bindings = vec!["slow:700", "approve"];
        if self.rng.u8(..4) == 0 {
            bindings.push("count#");
        }
        if self.rng.u8(..8) > 0 {
            bindings.push("tool");
        }
        if self.rng.bool() {
            bindings.push("console.write");
        }
        if self.rng.bool() {
            bindings.push("bindings.changed");
        }
        let declared: Vec<Value> = bindings.iter().map(|name| json!({"name": name})).collect();
        let params = json!({"protocol": "0.1", "bindings": declared, "notifications": ["cancel_invoke"]});
        let mut connection = Connection::new(bindings, self.context.printed, self.limits.requests_open_max);
        let text = connection.request("handshake", &params, Request::Other);
        self.clients.connections.insert(number, connection);
        self.text(number, &text);
    }

    /// A connection ends; its client may find out later.
    pub(super) fn cut(&mut self, number: u64) {
        self.clients.connections.remove(&number);
        self.detach(number);
    }

    fn detach(&mut self, number: u64) {
        if self.clients.attached == Some(number) {
            self.clients.attached = None;
        }
        self.send(ToSession::Detach { connection: number });
    }

    fn stall(&mut self, number: u64) {
        if self.clients.attached == Some(number) {
            self.clients.attached = None;
        }
        self.send(ToSession::Stalled { connection: number });
    }

    /// Something that a client does.
    pub(super) fn act_as_client(&mut self) {
        let numbers: Vec<u64> = self.clients.connections.keys().copied().collect();
        let Some(number) = self.rng.choice(numbers) else { return self.connect() };
        match self.rng.u8(..100) {
            0..=44 => self.send_eval(number),
            45..=64 => {
                self.answer_call(number);
            }
            65..=84 => self.send_invoke(number),
            85..=88 => self.release_function(number),
            89..=91 => self.send_nonsense(number),
            92..=93 => self.cut(number),
            94..=95 => self.stall(number),
            96 => {
                // The end of a connection that ended long ago.
                let earlier = self.rng.u64(..number);
                self.detach(earlier);
            }
            _ => self.connect(),
        }
    }

    fn send_eval(&mut self, number: u64) {
        let Some(connection) = self.clients.connections.get(&number) else { return };
        let name = format!("{number}-{}", connection.next_id());
        let length = self.rng.usize(..6);
        let mut code = String::new();
        for _ in 0..length {
            code.extend(self.rng.choice(&self.operations).map(|operation| char::from(*operation)));
        }
        let key = (self.rng.u8(..5) == 0).then(|| format!("k{}", self.rng.u8(..3)));
        if let Some(key) = &key
            && self.rng.u8(..10) > 0
        {
            code = ["cp", "zf", "y"][usize::from(key.as_bytes()[1] % 3)].to_owned();
        }
        let mut params = json!({"code": code, "name": name, "stats": self.rng.bool()});
        if self.rng.u8(..8) == 0 {
            params["timeoutMs"] = json!(self.rng.u64(1..3_000));
        }
        if let Some(key) = &key {
            params["key"] = json!(key);
        }
        let order = self.clients.evals.len() as u64 + 1;
        self.clients.evals.insert(name.clone(), SentEval { order, key });
        self.request(number, "eval", &params, Request::Eval(name));
    }

    fn request(&mut self, number: u64, method: &str, params: &Value, request: Request) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        let text = connection.request(method, params, request);
        self.text(number, &text);
    }

    fn send_invoke(&mut self, number: u64) {
        let Some(connection) = self.clients.connections.get(&number) else { return };
        let held: Vec<(String, u64)> =
            connection.held.iter().map(|(id, (_, epoch))| (id.clone(), *epoch)).collect();
        let evals: Vec<u64> = connection.requests.keys().copied().collect();
        let eval_id = self.rng.choice(evals);
        let (name, input) = match self.rng.u8(..24) {
            0..=9 => {
                let function = self.rng.choice(held);
                let (reference, request) = match function {
                    Some((id, epoch)) => (id, Request::Function(epoch)),
                    None => ("f99".to_owned(), Request::Other),
                };
                let params = json!({"ref": reference, "args": []});
                return self.request(number, "invoke", &params, request);
            }
            10..=13 => ("echo", json!({"a": 1})),
            14 => ("kv.get", json!([])),
            15 => ("missing", json!(null)),
            16..=17 => ("session.cancel", json!({})),
            18..=19 => ("session.cancel", eval_id.map_or(json!({}), |id| json!({"evalId": id}))),
            20 => ("session.info", json!({})),
            21 => {
                // What the client sends after this may run with the same keys.
                self.clients.run_keys.clear();
                ("session.reset", json!({}))
            }
            22 => ("bindings.search", json!({"query": "kv"})),
            _ => match self.rng.u8(..12) {
                0 => ("session.close", json!({})),
                _ => ("bindings.types", json!({})),
            },
        };
        self.request(number, "invoke", &json!({"binding": name, "input": input}), Request::Other);
    }

    /// Answers a call of the session; returns whether there was one.
    pub(super) fn answer_call(&mut self, number: u64) -> bool {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return false };
        let ids: Vec<u64> = connection.calls.keys().copied().collect();
        let Some(id) = self.rng.choice(ids) else { return false };
        let name = connection.calls.remove(&id);
        let outcome = match (name.as_deref(), self.rng.u8(..10)) {
            (_, 0) => json!({"error": {"code": 1, "message": "no"}}),
            (_, 1) => json!({"result": {"wrong": 1}}),
            (_, 2) => json!({"result": {"value": {"$date": "wrong"}}}),
            (Some("count"), 3) => json!({"result": {"value": "wrong"}}),
            (Some("tool"), 4..=6) => {
                let is_new = self.rng.bool();
                json!({"result": {"value": connection.send_function(is_new)}})
            }
            _ => json!({"result": {"value": 1}}),
        };
        let mut answer = json!({"jsonrpc": "2.0", "id": id});
        answer.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        let text = answer.to_string();
        self.text(number, &text);
        if self.rng.u8(..12) == 0 {
            // Once more: it is ignored.
            self.text(number, &text);
        }
        true
    }

    fn release_function(&mut self, number: u64) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        let ids: Vec<String> = connection.held.keys().cloned().collect();
        let Some(id) = self.rng.choice(ids) else { return };
        let (count, _) = connection.held.remove(&id).unwrap_or_default();
        // Sometimes more than it got.
        let count = count + self.rng.u64(..2);
        let params = json!({"ref": id, "count": count});
        let text = json!({"jsonrpc": "2.0", "method": "release_ref", "params": params}).to_string();
        self.text(number, &text);
    }

    fn send_nonsense(&mut self, number: u64) {
        let texts = [
            "{",
            "[]",
            r#"{"jsonrpc":"2.0","id":77777,"result":{"value":1}}"#,
            r#"{"jsonrpc":"2.0","method":"eval","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"release_ref","params":{"ref":"f999","count":99}}"#,
            r#"{"jsonrpc":"2.0","method":"release_ref","params":{"ref":"h1"}}"#,
        ];
        let text = texts[self.rng.usize(..texts.len())];
        self.text(number, text);
    }
}
