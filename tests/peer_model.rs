//! The machine of one connection against random texts and events: it holds what it promises, whatever comes.
//!
//! The model is a set of admitted requests, a set of calls that wait, and the last id that was seen.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use scomp::protocol::client_messages::{Closing, FromClient, ToClient};
use scomp::protocol::methods::{Payload, Target};
use scomp::protocol::peer::{Effect, Peer};
use scomp::rpc::{ErrorObject, Id, Kind};
use serde_json::{Value, json};

/// Few enough that random requests meet the limit.
const REQUESTS_OPEN_MAX: usize = 4;

/// What happens to the machine.
#[derive(Debug, Clone)]
enum Step {
    Garbage(String),
    Request { id: u8, method: &'static str, params: Value },
    Notification { method: &'static str, params: Value },
    Answer { id: u8, result: Value },
    Answered { request: u8, fails: bool },
    Call(u8),
    Cancel(u8),
    Release,
    FailCalls,
    Close,
}

fn params() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"protocol": "0.1"})),
        Just(json!({"protocol": "9"})),
        Just(json!({"code": "1"})),
        Just(json!({"binding": "echo", "input": 1})),
        Just(json!({"ref": "f1"})),
        Just(json!({"ref": "f1", "count": 2})),
        Just(json!([1, "x"])),
        Just(json!({})),
    ]
}

fn method() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        2 => Just("handshake"),
        4 => Just("eval"),
        2 => Just("invoke"),
        1 => Just("release_ref"),
        1 => Just("nonsense"),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let result = prop_oneof![Just(json!({"value": 1})), Just(json!(null)), Just(json!({"values": 1}))];
    prop_oneof![
        1 => ".{0,40}".prop_map(Step::Garbage),
        8 => (0..8_u8, method(), params()).prop_map(|(id, method, params)| Step::Request { id, method, params }),
        2 => (method(), params()).prop_map(|(method, params)| Step::Notification { method, params }),
        4 => (0..8_u8, result).prop_map(|(id, result)| Step::Answer { id, result }),
        6 => (0..8_u8, any::<bool>()).prop_map(|(request, fails)| Step::Answered { request, fails }),
        5 => (0..8_u8).prop_map(Step::Call),
        2 => (0..8_u8).prop_map(Step::Cancel),
        1 => Just(Step::Release),
        1 => Just(Step::FailCalls),
        1 => Just(Step::Close),
    ]
}

/// The machine and what the model knows of it.
struct PeerModel {
    peer: Peer,
    open: BTreeSet<u64>,
    /// Calls that wait for the client, by our id.
    waiting: BTreeMap<u64, u64>,
    last_id: u64,
    next_call: u64,
    is_live: bool,
}

impl PeerModel {
    /// The machine after a proper handshake: nothing past it could be reached by chance alone.
    fn live() -> Self {
        let mut model = Self {
            peer: Peer::new(REQUESTS_OPEN_MAX),
            open: BTreeSet::new(),
            waiting: BTreeMap::new(),
            last_id: 0,
            next_call: 100,
            is_live: false,
        };
        model.request(1, "handshake", &json!({"protocol": "0.1"}));
        assert!(model.is_live && model.open.is_empty());
        model
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Garbage(text) => self.garbage(&text),
            Step::Request { id, method, params } => self.request(id.into(), method, &params),
            Step::Notification { method, params } => {
                let text = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
                let effect = self.peer.on_text(&text);
                let released = matches!(effect, Some(Effect::Command(FromClient::Release { .. })));
                assert!(released || matches!(effect, Some(Effect::Ignored(_))), "{text} => {effect:?}");
            }
            Step::Answer { id, result } => self.answer(id.into(), &result),
            Step::Answered { request, fails } => self.answered(request.into(), fails),
            Step::Call(count) => (0..count).for_each(|_| self.call()),
            Step::Cancel(nth) => self.cancel(nth.into()),
            Step::Release => {
                let effect = self.peer.on_event(ToClient::Release { reference: "f1".into(), count: 1 });
                assert_eq!(sent(effect)["method"], json!("release_ref"));
            }
            Step::FailCalls => {
                let failed = self.peer.give_up_calls().len();
                assert_eq!(failed, std::mem::take(&mut self.waiting).len());
            }
            Step::Close => {
                let effect = self.peer.on_event(ToClient::Close(Closing::GoingAway));
                assert!(matches!(effect, Some(Effect::Close(1001, _))), "{effect:?}");
            }
        }
        assert_eq!(self.peer.is_idle(), self.open.is_empty());
    }

    /// Text that is hardly ever a message: it is refused, and nothing is admitted.
    fn garbage(&mut self, text: &str) {
        match self.peer.on_text(text) {
            None | Some(Effect::Ignored(_)) => {}
            Some(Effect::Send(text)) => {
                assert!(serde_json::from_str::<Value>(&text).unwrap().get("error").is_some());
            }
            other => panic!("{text:?} => {other:?}"),
        }
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let effect = self.peer.on_text(&text);
        if self.open.contains(&id) {
            assert_eq!(sent(effect)["id"], Value::Null, "an id in flight is refused without id");
            return;
        }
        if self.open.len() == REQUESTS_OPEN_MAX {
            assert_eq!(sent(effect)["error"]["data"]["kind"], json!("Busy"));
            return;
        }
        match effect {
            Some(Effect::Handshake { request, .. }) => {
                assert!(!self.is_live, "a second handshake was let in");
                let welcome = self.peer.on_handshake(&request, Ok(&json!({})));
                assert_eq!(serde_json::from_str::<Value>(&welcome).unwrap()["id"], json!(id));
                self.is_live = true;
            }
            Some(Effect::Command(FromClient::Eval { request, .. } | FromClient::Invoke { request, .. })) => {
                assert!(self.is_live, "a request came before the handshake");
                assert_eq!(request, Id::from(id));
                self.open.insert(id);
            }
            refused => {
                let answer = sent(refused);
                assert_eq!(answer["id"], json!(id));
                assert!(answer.get("error").is_some(), "{answer}");
            }
        }
    }

    /// The client answers one of our ids, or one that we never used.
    fn answer(&mut self, id: u64, result: &Value) {
        let id = self.last_id.saturating_sub(3) + id;
        let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        match (self.peer.on_text(&text), self.waiting.remove(&id)) {
            (Some(Effect::Command(FromClient::Answer { call, outcome })), Some(expected)) => {
                assert_eq!(call, expected);
                assert_eq!(outcome.is_ok(), result.get("value").is_some());
            }
            (None | Some(Effect::Ignored(_)), None) => {}
            (effect, expected) => panic!("{text}: {expected:?} was expected, got {effect:?}"),
        }
    }

    /// The session answers a request that is open, was answered before, or never was.
    fn answered(&mut self, request: u64, fails: bool) {
        let outcome = match fails {
            true => Err(ErrorObject::new(Kind::Cancelled, "ended")),
            false => Ok(serde_json::value::to_raw_value(&json!({"value": 1})).unwrap()),
        };
        let effect = self.peer.on_event(ToClient::Answered { request: Id::from(request), outcome });
        if self.open.remove(&request) {
            let answer = sent(effect);
            assert_eq!(answer["id"], json!(request));
            assert_eq!(answer.get("error").is_some(), fails);
        } else {
            assert!(effect.is_none(), "answered a second time: {effect:?}");
        }
    }

    fn call(&mut self) {
        let call = self.next_call;
        self.next_call += 1;
        let (target, payload) = (Target::Binding("ask".into()), Payload::Input(Value::Null));
        let message = sent(self.peer.on_event(ToClient::Call { call, target, payload }));
        let id = message["id"].as_u64().unwrap();
        assert!(id > self.last_id, "{id} came after {}", self.last_id);
        self.last_id = id;
        self.waiting.insert(id, call);
    }

    fn cancel(&mut self, nth: usize) {
        let waiting = self.waiting.iter().nth(nth).map(|(id, call)| (*id, *call));
        let (id, call) = waiting.unwrap_or((0, 99));
        self.waiting.remove(&id);
        let effect = self.peer.on_event(ToClient::GiveUp { call });
        assert!(effect.is_none(), "{effect:?}");
    }
}

fn sent(effect: Option<Effect>) -> Value {
    match effect {
        Some(Effect::Send(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("nothing was sent: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_answered_once_and_our_ids_only_grow(steps in prop::collection::vec(step(), 0..80)) {
        let mut model = PeerModel::live();
        for step in steps {
            model.play(step);
        }
        // Whatever is still open can be answered.
        for request in model.open.clone() {
            model.answered(request, false);
        }
        prop_assert!(model.peer.is_idle());
    }

    #[test]
    fn nothing_runs_before_the_handshake(steps in prop::collection::vec(step(), 0..20)) {
        let mut model = PeerModel { peer: Peer::new(REQUESTS_OPEN_MAX), is_live: false, ..PeerModel::live() };
        for step in steps {
            if let Step::Request { .. } | Step::Notification { .. } | Step::Garbage(_) = step {
                model.play(step);
            }
        }
    }
}
