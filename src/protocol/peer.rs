//! The server's side of one connection, as a pure state machine: texts and events in, effects out.
//!
//! It owns both id tables, so they need no lock. It decides what a message means and what is
//! answered; it neither reads a socket nor waits for a script.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client_messages::{FromClient, ToClient};
use super::methods::{
    CANCEL_INVOKE, CancelParams, EVAL, EvalParams, HANDSHAKE, HandshakeParams, INVOKE, InvokeParams,
    PROTOCOL, Payload, RELEASE_REF, RawInvokeParams, ReleaseParams, Target, read_params,
};
use super::names::CALL_CANCEL;
use super::shape::Shape;
use crate::rpc::{
    self, ErrorObject, Id, Inbound, InboundRefusal, Kind, Message, OurId, Outbound, ResponseMatch,
    encode_failure, encode_raw_success, encode_request, encode_success,
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
    Command(FromClient),
    /// Close the connection.
    Close(u16, &'static str),
    /// An answer to no open call, or an unknown notification: to be counted.
    Ignored(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    AwaitingHandshake,
    ShakingHands,
    Live,
}

/// `params` of an `invoke` to a client that may have declared `call.cancel`.
#[derive(Serialize)]
struct KeyedInvokeParams {
    #[serde(flatten)]
    invoke: InvokeParams,
    /// Names the call in its session; never used again.
    #[serde(rename = "callKey", skip_serializing_if = "Option::is_none")]
    call_key: Option<String>,
}

/// The state of a connection. See the module.
#[derive(Debug)]
pub struct Peer {
    phase: Phase,
    inbound: Inbound,
    outbound: Outbound<u64>,
    /// Our requests by the session's number for the call.
    sent: HashMap<u64, OurId>,
    /// Whether the client asked for `cancel_invoke`.
    sends_cancels: bool,
    /// Whether it declared `call.cancel`: its calls then have keys.
    keys_calls: bool,
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
            keys_calls: false,
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
                self.keys_calls = params.bindings.iter().any(|binding| binding["name"] == CALL_CANCEL);
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
                Ok(Effect::Command(FromClient::Eval { request: id.clone(), params }))
            }
            (Phase::Live, INVOKE) => {
                let RawInvokeParams { target, payload } = RawInvokeParams::read(params)?;
                Ok(Effect::Command(FromClient::Invoke { request: id.clone(), target, payload }))
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
                Effect::Command(FromClient::Release { reference, count })
            }
            Err(_) => Effect::Ignored("notification"),
        }
    }

    fn on_response(&mut self, id: &Id, outcome: Result<&RawValue, ErrorObject>) -> Option<Effect> {
        match self.outbound.settle(id) {
            ResponseMatch::Expected(call) => {
                self.sent.remove(&call);
                let outcome = outcome.and_then(read_value);
                Some(Effect::Command(FromClient::Answer { call, outcome }))
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

    /// The client will send nothing more: every call that waits for its answer fails.
    pub fn give_up_calls(&mut self) -> Vec<FromClient> {
        self.sent.clear();
        let gone = || ErrorObject::new(Kind::PeerGone, "the client has ended its side of the connection");
        self.outbound.drain().map(|call| FromClient::Answer { call, outcome: Err(gone()) }).collect()
    }

    /// The session has something for the client.
    pub fn on_event(&mut self, event: ToClient) -> Option<Effect> {
        match event {
            ToClient::Answered { request, outcome } => {
                if !self.inbound.finish(&request) {
                    return None;
                }
                Some(match outcome {
                    Ok(result) => Effect::Send(encode_raw_success(&request, &result)),
                    Err(error) => fail(Some(&request), &error),
                })
            }
            ToClient::Call { call, target, payload } => Some(match self.outbound.open(call) {
                Ok(id) => {
                    self.sent.insert(call, id);
                    let call_key = self.keys_calls.then(|| call.to_string());
                    let params = KeyedInvokeParams { invoke: InvokeParams { target, payload }, call_key };
                    Effect::Send(encode_request(Some(id.0), INVOKE, &params))
                }
                Err(rpc::Full) => {
                    let error = ErrorObject::new(Kind::Busy, "too many calls wait for the client");
                    Effect::Command(FromClient::Answer { call, outcome: Err(error) })
                }
            }),
            ToClient::GiveUp { call } => {
                let id = self.sent.remove(&call)?;
                self.outbound.abandon(id);
                self.cancel(call, id).map(Effect::Send)
            }
            ToClient::Release { reference, count } => {
                let params = ReleaseParams { reference, count };
                Some(Effect::Send(encode_request(None, RELEASE_REF, &params)))
            }
            ToClient::Close(closing) => {
                let (code, reason) = closing.code_and_reason();
                Some(Effect::Close(code, reason))
            }
        }
    }

    /// Says that an answer is not awaited any more, in the way that the client understands; the notification if it
    /// understands both.
    fn cancel(&mut self, call: u64, id: OurId) -> Option<String> {
        if self.sends_cancels {
            return Some(encode_request(None, CANCEL_INVOKE, &CancelParams { id: id.0 }));
        }
        if !self.keys_calls {
            return None;
        }
        // Its answer reaches the session as that of a call that it does not know, and is dropped there.
        let id = self.outbound.open(call).ok()?;
        let target = Target::Binding(CALL_CANCEL.to_owned());
        let payload = Payload::Input(json!({"callKey": call.to_string()}));
        Some(encode_request(Some(id.0), INVOKE, &InvokeParams { target, payload }))
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
mod tests;
