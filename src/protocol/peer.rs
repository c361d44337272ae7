//! The server's side of one connection, as a pure state machine: texts and events in, effects out.
//!
//! It owns both id tables, so nobody else needs a lock around them. It decides what a message means and what is
//! answered; it neither reads a socket nor waits for a script.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::boundary::{SessionCommand, SessionEvent};
use super::methods::{
    CANCEL_INVOKE, CancelParams, EVAL, EvalParams, HANDSHAKE, HandshakeParams, INVOKE, InvokeParams,
    PROTOCOL, RELEASE_REF, RawInvokeParams, ReleaseParams, read_params,
};
use super::shape::Shape;
use crate::rpc::{
    self, ErrorObject, Id, Inbound, InboundRefusal, Kind, Message, OurId, Outbound, ResponseMatch,
    encode_failure, encode_request, encode_success,
};

/// Calls to one client that wait for its answer. A session holds further calls back before the table is full
/// (`client_calls_open_max`); a caller without a session gets `Busy`.
pub const CALLS_WAITING_MAX: usize = 16_384;

/// Longest `error.data` of a client's answer that is read; longer ones are left out.
/// It becomes a value in memory, which takes many times its text, and is shown to a script.
const ERROR_DATA_BYTES_MAX: usize = 64 << 10;

/// Longest handshake that is read, as values in memory: about 2 MiB of ordinary declarations.
const HANDSHAKE_TREE_BYTES_MAX: usize = 16 << 20;

/// What the driver is to do.
#[derive(Debug)]
pub enum Effect {
    /// Send this text.
    Send(String),
    /// Open or resume a session, then tell [`Peer::on_handshake`].
    Handshake {
        /// The request to answer.
        request: Id,
        /// What the client said.
        params: HandshakeParams,
    },
    /// Pass this to the session.
    Command(SessionCommand),
    /// Close the connection.
    Close(u16, &'static str),
    /// An answer that nobody waits for, or a notification that means nothing: count it.
    Ignored(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    AwaitingHandshake,
    ShakingHands,
    Live,
}

/// The state of a connection. See the module.
#[derive(Debug)]
pub struct Peer {
    phase: Phase,
    inbound: Inbound,
    outbound: Outbound<u64>,
    /// Our requests by the session's number for the call.
    sent: HashMap<u64, OurId>,
    /// Whether the client asked to be told of calls that are given up.
    sends_cancels: bool,
}

impl Peer {
    /// A fresh connection, with room for `requests_open_max` unanswered requests.
    pub fn new(requests_open_max: usize) -> Self {
        Self {
            phase: Phase::AwaitingHandshake,
            inbound: Inbound::new(requests_open_max),
            outbound: Outbound::new(CALLS_WAITING_MAX),
            sent: HashMap::new(),
            sends_cancels: false,
        }
    }

    /// A text came in.
    pub fn on_text(&mut self, text: &str) -> Option<Effect> {
        match rpc::decode_within(text, ERROR_DATA_BYTES_MAX) {
            Err(refusal) => Some(fail(refusal.id.as_ref(), &refusal.error)),
            Ok(Message::Request { id, method, params }) => Some(self.on_request(id, &method, params)),
            Ok(Message::Notification { method, params }) => Some(self.on_notification(&method, params)),
            Ok(Message::Response { id, outcome }) => self.on_response(&id, outcome),
            Ok(Message::ErrorWithoutId(_)) => Some(Effect::Ignored("complaint")),
        }
    }

    fn on_request(&mut self, id: Id, method: &str, params: Option<&RawValue>) -> Effect {
        match self.inbound.admit(&id) {
            Ok(()) => {}
            Err(InboundRefusal::InFlight) => {
                let message = format!("the id {id} is still in flight");
                return fail(None, &ErrorObject::new(Kind::InvalidRequest, message));
            }
            Err(InboundRefusal::Full) => {
                return fail(
                    Some(&id),
                    &ErrorObject::new(Kind::Busy, "too many requests wait for their answer"),
                );
            }
        }
        match self.route(&id, method, params) {
            Ok(effect) => effect,
            Err(error) => {
                self.inbound.finish(&id);
                fail(Some(&id), &error)
            }
        }
    }

    fn route(&mut self, id: &Id, method: &str, params: Option<&RawValue>) -> Result<Effect, ErrorObject> {
        match (&self.phase, method) {
            (Phase::AwaitingHandshake, HANDSHAKE) => {
                let params = read_handshake(params)?;
                if params.protocol != PROTOCOL {
                    let message = format!("unsupported protocol version {:?}", params.protocol);
                    return Err(ErrorObject::new(Kind::UnsupportedProtocol, message)
                        .with("supported", vec![Value::from(PROTOCOL)]));
                }
                self.phase = Phase::ShakingHands;
                self.sends_cancels = params.notifications.iter().any(|name| name == CANCEL_INVOKE);
                Ok(Effect::Handshake { request: id.clone(), params })
            }
            (Phase::Live | Phase::ShakingHands, HANDSHAKE) => {
                Err(ErrorObject::new(Kind::InvalidRequest, "the handshake is done already"))
            }
            (Phase::AwaitingHandshake | Phase::ShakingHands, _) => {
                Err(ErrorObject::new(Kind::NotReady, "the handshake has to come first"))
            }
            (Phase::Live, EVAL) => {
                let params = EvalParams::read(params)?;
                Ok(Effect::Command(SessionCommand::Eval { request: id.clone(), params }))
            }
            (Phase::Live, INVOKE) => {
                let RawInvokeParams { target, payload } = RawInvokeParams::read(params)?;
                Ok(Effect::Command(SessionCommand::Invoke { request: id.clone(), target, payload }))
            }
            (Phase::Live, RELEASE_REF) => Err(ErrorObject::new(
                Kind::InvalidRequest,
                "release_ref is a notification: send it without `id`",
            )),
            (Phase::Live, _) => Err(ErrorObject::new(Kind::UnknownMethod, format!("no method {method:?}"))),
        }
    }

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) -> Effect {
        if method != RELEASE_REF || self.phase != Phase::Live {
            return Effect::Ignored("notification");
        }
        match read_params::<ReleaseParams>(params) {
            Ok(ReleaseParams { reference, count }) => {
                Effect::Command(SessionCommand::Release { reference, count })
            }
            Err(_) => Effect::Ignored("notification"),
        }
    }

    fn on_response(&mut self, id: &Id, outcome: Result<&RawValue, ErrorObject>) -> Option<Effect> {
        match self.outbound.settle(id) {
            ResponseMatch::Expected(call) => {
                self.sent.remove(&call);
                let outcome = outcome.and_then(read_value);
                Some(Effect::Command(SessionCommand::Answer { call, outcome }))
            }
            stray @ (ResponseMatch::Unknown | ResponseMatch::Duplicate | ResponseMatch::Stale) => {
                stray.stray().map(Effect::Ignored)
            }
        }
    }

    /// The handshake was accepted with this result, or refused; after a refusal the client may try again.
    pub fn on_handshake<R: Serialize>(&mut self, request: &Id, outcome: Result<&R, &ErrorObject>) -> String {
        self.inbound.finish(request);
        match outcome {
            Ok(result) => {
                self.phase = Phase::Live;
                encode_success(request, result)
            }
            Err(error) => {
                self.phase = Phase::AwaitingHandshake;
                encode_failure(Some(request), error)
            }
        }
    }

    /// Answers a request that does not reach the session, such as one past a quota; `None` if it is not open.
    pub fn refuse(&mut self, request: &Id, error: &ErrorObject) -> Option<String> {
        self.inbound.finish(request).then(|| encode_failure(Some(request), error))
    }

    /// Whether the client has calls to answer.
    pub fn awaits_answers(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Whether every request of the client is answered.
    pub fn is_idle(&self) -> bool {
        self.inbound.is_empty()
    }

    /// The client will send nothing more: what waits for its answer is told so.
    pub fn give_up_calls(&mut self) -> Vec<SessionCommand> {
        self.sent.clear();
        let gone = || ErrorObject::new(Kind::PeerGone, "the client has ended its side of the connection");
        self.outbound.drain().map(|call| SessionCommand::Answer { call, outcome: Err(gone()) }).collect()
    }

    /// The session has something for the client.
    pub fn on_event(&mut self, event: SessionEvent) -> Option<Effect> {
        match event {
            SessionEvent::Answered { request, outcome } => {
                if !self.inbound.finish(&request) {
                    return None;
                }
                Some(match outcome {
                    Ok(result) => Effect::Send(encode_success(&request, &result)),
                    Err(error) => fail(Some(&request), &error),
                })
            }
            SessionEvent::Call { call, target, payload } => Some(match self.outbound.open(call) {
                Ok(id) => {
                    self.sent.insert(call, id);
                    Effect::Send(encode_request(Some(id.0), INVOKE, &InvokeParams { target, payload }))
                }
                Err(rpc::Full) => {
                    let error = ErrorObject::new(Kind::Busy, "too many calls wait for the client");
                    Effect::Command(SessionCommand::Answer { call, outcome: Err(error) })
                }
            }),
            SessionEvent::GiveUp { call } => {
                let id = self.sent.remove(&call)?;
                self.outbound.abandon(id);
                let params = CancelParams { id: id.0 };
                self.sends_cancels.then(|| Effect::Send(encode_request(None, CANCEL_INVOKE, &params)))
            }
            SessionEvent::Release { reference, count } => {
                let params = ReleaseParams { reference, count };
                Some(Effect::Send(encode_request(None, RELEASE_REF, &params)))
            }
            SessionEvent::Close(closing) => {
                let (code, reason) = closing.code_and_reason();
                Some(Effect::Close(code, reason))
            }
        }
    }
}

fn read_handshake(params: Option<&RawValue>) -> Result<HandshakeParams, ErrorObject> {
    if params.is_some_and(|params| Shape::of(params.get()).tree_bytes > HANDSHAKE_TREE_BYTES_MAX) {
        return Err(ErrorObject::new(Kind::InvalidParams, "params: the handshake is too large"));
    }
    read_params(params)
}

/// `result` of an `invoke` of ours.
#[derive(Deserialize)]
struct RawValueResult<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
}

/// The value stays text until the turn that uses it.
fn read_value(result: &RawValue) -> Result<Box<RawValue>, ErrorObject> {
    let read = serde_json::from_str::<RawValueResult<'_>>(result.get());
    read.map(|result| result.value.to_owned()).map_err(|error| {
        ErrorObject::new(Kind::InvalidOutput, format!("the answer to invoke is not {{value}}: {error}"))
    })
}

fn fail(id: Option<&Id>, error: &ErrorObject) -> Effect {
    Effect::Send(encode_failure(id, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::methods::{Payload, Target};
    use serde_json::json;

    #[test]
    fn calls_to_a_client_that_sends_nothing_more_are_given_up_once() {
        let mut peer = live();
        peer.on_event(SessionEvent::Call {
            call: 7,
            target: Target::Binding("notify".into()),
            payload: Payload::Input(Value::Null),
        });
        let given_up = peer.give_up_calls();
        assert!(matches!(
            given_up.as_slice(),
            [SessionCommand::Answer { call: 7, outcome: Err(error) }] if error.is(Kind::PeerGone)
        ));
        assert!(peer.give_up_calls().is_empty());
    }

    fn live() -> Peer {
        let mut peer = Peer::new(4);
        let effect =
            peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"0.1"}}"#);
        let Some(Effect::Handshake { request, .. }) = effect else { panic!("no handshake") };
        peer.on_handshake(&request, Ok(&json!({})));
        peer
    }

    fn sent(effect: Option<Effect>) -> Value {
        match effect {
            Some(Effect::Send(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("nothing was sent: {other:?}"),
        }
    }

    fn error_of(effect: Option<Effect>) -> (Value, Value) {
        let answer = sent(effect);
        (answer["id"].clone(), answer["error"]["data"]["kind"].clone())
    }

    #[test]
    fn anything_before_the_handshake_is_not_ready() {
        let mut peer = Peer::new(4);
        let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"eval","params":{"code":"1"}}"#);
        assert_eq!(error_of(effect), (json!(1), json!("NotReady")));
    }

    #[test]
    fn a_refused_handshake_may_be_tried_again_and_a_second_one_not() {
        let mut peer = Peer::new(4);
        let effect =
            peer.on_text(r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"9"}}"#);
        let answer = sent(effect);
        assert_eq!(answer["error"]["data"], json!({"kind": "UnsupportedProtocol", "supported": ["0.1"]}));
        let mut peer = live();
        let effect =
            peer.on_text(r#"{"jsonrpc":"2.0","id":2,"method":"handshake","params":{"protocol":"0.1"}}"#);
        assert_eq!(error_of(effect), (json!(2), json!("InvalidRequest")));
    }

    #[test]
    fn an_id_in_flight_is_refused_without_id() {
        let mut peer = live();
        let eval = r#"{"jsonrpc":"2.0","id":5,"method":"eval","params":{"code":"1"}}"#;
        assert!(matches!(peer.on_text(eval), Some(Effect::Command(SessionCommand::Eval { .. }))));
        assert_eq!(error_of(peer.on_text(eval)), (Value::Null, json!("InvalidRequest")));
        let outcome = Ok(serde_json::value::to_raw_value(&json!({"value": 1})).unwrap());
        let answer = sent(peer.on_event(SessionEvent::Answered { request: Id::from(5), outcome }));
        assert_eq!(answer["result"], json!({"value": 1}));
        assert!(matches!(peer.on_text(eval), Some(Effect::Command(SessionCommand::Eval { .. }))));
    }

    #[test]
    fn calls_to_the_client_have_ids_of_their_own() {
        let mut peer = live();
        let target = Target::Binding("notify".into());
        let call =
            |call| SessionEvent::Call { call, target: target.clone(), payload: Payload::Input(json!(1)) };
        assert_eq!(sent(peer.on_event(call(70)))["id"], json!(1));
        assert_eq!(sent(peer.on_event(call(71)))["id"], json!(2));
        let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":2,"result":{"value":null}}"#);
        assert!(matches!(effect, Some(Effect::Command(SessionCommand::Answer { call: 71, outcome: Ok(_) }))));
        peer.on_event(SessionEvent::GiveUp { call: 70 });
        let late = peer.on_text(r#"{"jsonrpc":"2.0","id":1,"result":{"value":null}}"#);
        assert!(matches!(late, Some(Effect::Ignored("stale"))));
        let twice = peer.on_text(r#"{"jsonrpc":"2.0","id":2,"result":{"value":null}}"#);
        assert!(matches!(twice, Some(Effect::Ignored("duplicate"))));
        let never = peer.on_text(r#"{"jsonrpc":"2.0","id":9,"result":{"value":null}}"#);
        assert!(matches!(never, Some(Effect::Ignored("unknown"))));
    }

    #[test]
    fn a_call_given_up_is_cancelled_at_a_client_that_asks_for_it() {
        for (notifications, is_sent) in
            [(r#"["cancel_invoke","other"]"#, true), (r#"["other"]"#, false), ("[]", false)]
        {
            let mut peer = Peer::new(4);
            let handshake = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"handshake","params":{{"protocol":"0.1","notifications":{notifications}}}}}"#
            );
            let Some(Effect::Handshake { request, .. }) = peer.on_text(&handshake) else {
                panic!("no handshake")
            };
            peer.on_handshake(&request, Ok(&json!({})));
            let (target, payload) = (Target::Binding("notify".into()), Payload::Input(Value::Null));
            peer.on_event(SessionEvent::Call { call: 70, target, payload });
            let effect = peer.on_event(SessionEvent::GiveUp { call: 70 });
            assert_eq!(effect.is_some(), is_sent, "{notifications}");
            if is_sent {
                let expected = json!({"jsonrpc": "2.0", "method": "cancel_invoke", "params": {"id": 1}});
                assert_eq!(sent(effect), expected);
            }
            assert!(peer.on_event(SessionEvent::GiveUp { call: 70 }).is_none());
        }
    }

    #[test]
    fn notifications_other_than_release_ref_are_ignored() {
        let mut peer = live();
        let effect = peer.on_text(r#"{"jsonrpc":"2.0","method":"eval","params":{"code":"1"}}"#);
        assert!(matches!(effect, Some(Effect::Ignored("notification"))));
        let effect = peer.on_text(r#"{"jsonrpc":"2.0","method":"release_ref","params":{"ref":"f1"}}"#);
        assert!(matches!(effect, Some(Effect::Command(SessionCommand::Release { count: 1, .. }))));
    }

    #[test]
    fn refused_request_is_answered_once_and_its_id_is_free() {
        let mut peer = live();
        let eval = r#"{"jsonrpc":"2.0","id":5,"method":"eval","params":{"code":"1"}}"#;
        assert!(matches!(peer.on_text(eval), Some(Effect::Command(SessionCommand::Eval { .. }))));
        let error = ErrorObject::new(Kind::Busy, "too much");
        let answer = peer.refuse(&Id::from(5), &error).map(Effect::Send);
        assert_eq!(error_of(answer), (json!(5), json!("Busy")));
        assert!(peer.is_idle());
        assert_eq!(peer.refuse(&Id::from(5), &error), None);
        assert!(matches!(peer.on_text(eval), Some(Effect::Command(SessionCommand::Eval { .. }))));
    }

    #[test]
    fn requests_past_the_limit_are_busy() {
        let mut peer = live();
        for id in 0..4 {
            let eval = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eval","params":{{"code":"1"}}}}"#);
            assert!(matches!(peer.on_text(&eval), Some(Effect::Command(_))));
        }
        let effect = peer.on_text(r#"{"jsonrpc":"2.0","id":9,"method":"eval","params":{"code":"1"}}"#);
        assert_eq!(error_of(effect), (json!(9), json!("Busy")));
    }
}
