//! One connection as the client sees it: requests out, requests in, and who waits for what.
//!
//! Pure: texts in, at most one effect out for each. No socket, no clock, no task. `W` is whoever waits for an answer;
//! the machine only keeps it and hands it back.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::debug;

use super::ClientError;
use super::handler::{Handler, Outcome};
use super::references::{Exports, Imports};
use crate::rpc::{
    Answer, ErrorObject, Full, Id, Inbound, InboundRefusal, Kind, Message, OurId, Outbound, Refusal, decode,
    encode_failure, encode_request, encode_success,
};
use crate::scomp::methods::{
    INVOKE, InvokeParams, Payload, RELEASE_REF, ReleaseParams, Target, ValueResult, read_params,
};

/// Requests of ours that wait for their answers; one more is refused here.
/// The server's own default for one connection, so that it need not refuse them.
pub(super) const REQUESTS_WAITING_MAX: usize = 1024;
/// Calls of the server that run here at the same time; one more is answered with `Busy`.
/// Far more than one script starts, few enough that a runaway script cannot fill this process.
pub(super) const INVOKES_RUNNING_MAX: usize = 256;

/// What the driver has to do.
pub(super) enum Effect<W> {
    /// Send this text.
    Send(String),
    /// Run a handler; its end goes to [`Machine::on_handled`].
    Run { id: Id, handler: Handler, payload: Payload },
    /// An answer came for this waiter.
    Answered { waiter: W, outcome: Result<Value, ClientError> },
}

/// The handlers of the declared bindings.
pub(super) type Bindings = HashMap<String, Handler>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    ShakingHands,
    Live,
}

pub(super) struct Machine<W> {
    phase: Phase,
    outbound: Outbound<W>,
    inbound: Inbound,
    bindings: Arc<Bindings>,
    exports: Exports,
    imports: Arc<Imports>,
    message_bytes_max: usize,
}

impl<W> Machine<W> {
    pub(super) fn new(bindings: Arc<Bindings>, message_bytes_max: usize) -> Self {
        Self {
            phase: Phase::ShakingHands,
            outbound: Outbound::new(REQUESTS_WAITING_MAX),
            inbound: Inbound::new(INVOKES_RUNNING_MAX),
            bindings,
            exports: Exports::default(),
            imports: Arc::default(),
            message_bytes_max,
        }
    }

    /// The handshake is done: the server may call.
    pub(super) fn go_live(&mut self) {
        self.phase = Phase::Live;
    }

    /// What was received on this connection, for the handles of functions.
    pub(super) fn imports(&self) -> &Arc<Imports> {
        &self.imports
    }

    /// Names a function of ours; `None` if there are too many.
    pub(super) fn export(&mut self, handler: Handler) -> Option<String> {
        self.exports.add(handler)
    }

    /// Opens a request and returns its id and text, or gives the waiter back with the reason.
    pub(super) fn request<P: Serialize>(
        &mut self,
        method: &str,
        params: &P,
        waiter: W,
    ) -> Result<(OurId, String), (ClientError, W)> {
        if self.outbound.len() >= REQUESTS_WAITING_MAX {
            return Err((ClientError::Busy, waiter));
        }
        let id = self.outbound.open(waiter).unwrap_or_else(|Full| unreachable!("there is room for one more"));
        let text = encode_request(Some(id.0), method, params);
        if text.len() > self.message_bytes_max
            && let Some(waiter) = self.outbound.abandon(id)
        {
            return Err((ClientError::TooLong { bytes: text.len(), max: self.message_bytes_max }, waiter));
        }
        Ok((id, text))
    }

    /// Opens an `invoke`; functions of ours in its payload count as sent.
    pub(super) fn invoke(
        &mut self,
        params: &InvokeParams,
        waiter: W,
    ) -> Result<(OurId, String), (ClientError, W)> {
        let opened = self.request(INVOKE, params, waiter)?;
        values(&params.payload).iter().for_each(|value| self.exports.note_sent(value));
        Ok(opened)
    }

    /// A text came from the server.
    pub(super) fn on_text(&mut self, text: &str) -> Option<Effect<W>> {
        match decode(text) {
            Ok(Message::Request { id, method, params }) => self.on_request(id, &method, params),
            Ok(Message::Response { id, outcome }) => self.on_response(&id, outcome),
            Ok(Message::Notification { method, params }) => {
                self.on_notification(&method, params);
                None
            }
            Err(Refusal { id: Some(id), error }) => Some(Effect::Send(encode_failure(Some(&id), &error))),
            // An answer to this could itself be unreadable to the server: two peers would refuse each other for ever.
            Ok(Message::Complaint(error)) | Err(Refusal { id: None, error }) => {
                debug!(%error, "the server sent what is no message");
                None
            }
        }
    }

    fn on_request(&mut self, id: Id, method: &str, params: Option<&RawValue>) -> Option<Effect<W>> {
        let call = if method == INVOKE {
            self.find_handler(params)
        } else {
            Err(ErrorObject::new(Kind::UnknownMethod, format!("a client has no method {method}")))
        };
        let (handler, payload) = match call {
            Ok(call) => call,
            Err(error) => return Some(Effect::Send(encode_failure(Some(&id), &error))),
        };
        match self.inbound.admit(&id) {
            Ok(()) => {}
            Err(InboundRefusal::InFlight) => {
                let error = ErrorObject::new(Kind::InvalidRequest, format!("id {id} is still in flight"));
                return Some(Effect::Send(encode_failure(None, &error)));
            }
            Err(InboundRefusal::Full) => {
                let error = ErrorObject::new(Kind::Busy, format!("{INVOKES_RUNNING_MAX} calls run already"));
                return Some(Effect::Send(encode_failure(Some(&id), &error)));
            }
        }
        values(&payload).iter().for_each(|value| self.imports.note_received(value));
        Some(Effect::Run { id, handler, payload })
    }

    /// Which handler an `invoke` means, or why none.
    fn find_handler(&self, params: Option<&RawValue>) -> Result<(Handler, Payload), ErrorObject> {
        if self.phase == Phase::ShakingHands {
            return Err(ErrorObject::new(Kind::NotReady, "the handshake is not done"));
        }
        let InvokeParams { target, payload } = InvokeParams::read(params)?;
        let handler = match &target {
            Target::Binding(name) => {
                self.bindings.get(name).ok_or_else(|| unknown(Kind::UnknownBinding, name))
            }
            Target::Reference(id) => self.exports.get(id).ok_or_else(|| unknown(Kind::UnknownRef, id)),
        }?;
        Ok((Arc::clone(handler), payload))
    }

    fn on_response(&mut self, id: &Id, outcome: Result<&RawValue, ErrorObject>) -> Option<Effect<W>> {
        let answer = self.outbound.settle(id);
        if let Some(stray) = answer.stray() {
            debug!(%id, stray, "the server answered what nobody asked");
        }
        let Answer::Expected(waiter) = answer else {
            return None;
        };
        let outcome = outcome.map_err(ClientError::Rpc).and_then(|result| {
            let result = serde_json::from_str(result.get());
            result.map_err(|error| ClientError::Unexpected(error.to_string()))
        });
        if let Ok(result) = &outcome {
            self.imports.note_received(result);
        }
        Some(Effect::Answered { waiter, outcome })
    }

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match read_params::<ReleaseParams>(params) {
            Ok(release) if method == RELEASE_REF => self.exports.release(&release),
            Ok(_) | Err(_) => debug!(method, "the server sent a notification that means nothing"),
        }
    }

    /// A handler is done: the text of its answer.
    pub(super) fn on_handled(&mut self, id: &Id, outcome: Outcome) -> String {
        self.inbound.finish(id);
        let value = match outcome {
            Ok(value) => value,
            Err(error) => return encode_failure(Some(id), &error),
        };
        let result = ValueResult { value };
        let text = encode_success(id, &result);
        if text.len() > self.message_bytes_max {
            let message =
                format!("an answer of {} bytes; {} may be sent", text.len(), self.message_bytes_max);
            return encode_failure(Some(id), &ErrorObject::new(Kind::ResultTooLarge, message));
        }
        self.exports.note_sent(&result.value);
        text
    }

    /// The notifications for what our handles gave up.
    pub(super) fn releases(&self) -> Vec<String> {
        let given_up = self.imports.take_given_up();
        given_up.iter().map(|release| encode_request(None, RELEASE_REF, release)).collect()
    }

    /// The connection is over: everybody who still waits.
    pub(super) fn drain(&mut self) -> Vec<W> {
        self.outbound.drain().collect()
    }
}

fn values(payload: &Payload) -> &[Value] {
    match payload {
        Payload::Input(input) => std::slice::from_ref(input),
        Payload::Args(args) => args,
    }
}

fn unknown(kind: Kind, name: &str) -> ErrorObject {
    ErrorObject::new(kind, format!("the client has no {name}"))
}
