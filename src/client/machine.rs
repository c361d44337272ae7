//! One connection as the client sees it: requests out, requests in, and the callers that wait for answers.
//!
//! Pure: texts in, at most one effect out for each. No socket, no clock, no task. `W` is the caller that waits for an answer;
//! the machine only keeps it and hands it back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::debug;

use super::ClientError;
use super::handler::{Handler, Outcome};
use super::references::{Exports, Imports};
use crate::protocol::methods::{
    CANCEL_INVOKE, CancelParams, INVOKE, InvokeParams, Payload, RELEASE_REF, ReleaseParams, Target,
    ValueResult, read_params,
};
use crate::protocol::names::CONSOLE_WRITE;
use crate::rpc::{
    ErrorObject, Full, Id, Inbound, InboundRefusal, Kind, Message, OurId, Outbound, Refusal, ResponseMatch,
    decode, encode_failure, encode_request, encode_success,
};

/// Requests of ours that wait for their answers; one more is refused here.
/// The server's own default for one connection, so that it need not refuse them.
pub(super) const REQUESTS_WAITING_MAX: usize = 1024;
/// Handlers that run at the same time: every call that one eval may make by default. Others wait.
pub(super) const INVOKES_RUNNING_MAX: usize = 1024;
/// Calls that wait for a handler to end. As many as a server may have open; past it: `Busy`.
pub(super) const INVOKES_QUEUED_MAX: usize = 16_384;

/// What the driver has to do.
pub(super) enum Effect<W> {
    /// Send this text.
    Send(String),
    /// Look at [`Machine::next_run`]: a call came.
    Called,
    /// Print a console line, in its order; its end goes to [`Machine::on_handled`].
    Print(Run),
    /// End this handler: the server does not wait for it any more.
    Cancel(Id),
    /// An answer came for this waiter.
    Answered { waiter: W, outcome: Result<Value, ClientError> },
}

/// A handler to run; its end goes to [`Machine::on_handled`].
pub(super) struct Run {
    pub(super) id: Id,
    pub(super) handler: Handler,
    pub(super) payload: Payload,
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
    running: HashSet<Id>,
    queued: VecDeque<Run>,
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
            inbound: Inbound::new(INVOKES_RUNNING_MAX + INVOKES_QUEUED_MAX),
            running: HashSet::new(),
            queued: VecDeque::new(),
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

    /// The functions received on this connection, for their handles.
    pub(super) fn imports(&self) -> &Arc<Imports> {
        &self.imports
    }

    /// Names a function of ours; `None` if there are too many.
    pub(super) fn export(&mut self, handler: Handler) -> Option<String> {
        self.exports.add(handler)
    }

    /// Opens a request and returns its id and text, or returns the waiter with the error.
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
            Ok(Message::Notification { method, params }) => self.on_notification(&method, params),
            Err(Refusal { id: Some(id), error }) => Some(Effect::Send(encode_failure(Some(&id), &error))),
            // An answer to this could itself be unreadable to the server: two peers would refuse each other for ever.
            Ok(Message::ErrorWithoutId(error)) | Err(Refusal { id: None, error }) => {
                debug!(%error, "the server sent an invalid message");
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
        let (run, is_line) = match call {
            Ok((handler, payload, is_line)) => (Run { id: id.clone(), handler, payload }, is_line),
            Err(error) => return Some(Effect::Send(encode_failure(Some(&id), &error))),
        };
        match self.inbound.admit(&id) {
            Ok(()) => {}
            Err(InboundRefusal::InFlight) => {
                let error = ErrorObject::new(Kind::InvalidRequest, format!("id {id} is still in flight"));
                return Some(Effect::Send(encode_failure(None, &error)));
            }
            Err(InboundRefusal::Full) => {
                let error = ErrorObject::new(Kind::Busy, "too many calls wait for their handlers");
                return Some(Effect::Send(encode_failure(Some(&id), &error)));
            }
        }
        values(&run.payload).iter().for_each(|value| self.imports.note_received(value));
        if is_line {
            self.running.insert(id);
            return Some(Effect::Print(run));
        }
        self.queued.push_back(run);
        Some(Effect::Called)
    }

    /// The next handler to run, if there is a place for it. A request of ours that waits for its answer lends a place:
    /// a handler that waits for it does nothing, and the call it waits for may be one of those queued here.
    pub(super) fn next_run(&mut self) -> Option<Run> {
        if self.running.len() >= INVOKES_RUNNING_MAX + self.outbound.len() {
            return None;
        }
        let run = self.queued.pop_front()?;
        self.running.insert(run.id.clone());
        Some(run)
    }

    /// Which handler an `invoke` means and whether it is the console, or why none.
    fn find_handler(&self, params: Option<&RawValue>) -> Result<(Handler, Payload, bool), ErrorObject> {
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
        let is_line = matches!(&target, Target::Binding(name) if name == CONSOLE_WRITE);
        Ok((Arc::clone(handler), payload, is_line))
    }

    fn on_response(&mut self, id: &Id, outcome: Result<&RawValue, ErrorObject>) -> Option<Effect<W>> {
        let answer = self.outbound.settle(id);
        if let Some(stray) = answer.stray() {
            debug!(%id, stray, "the server sent an unexpected answer");
        }
        let ResponseMatch::Expected(waiter) = answer else {
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

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) -> Option<Effect<W>> {
        if method == RELEASE_REF
            && let Ok(release) = read_params::<ReleaseParams>(params)
        {
            self.exports.release(&release);
            return None;
        }
        if method == CANCEL_INVOKE
            && let Ok(CancelParams { id }) = read_params(params)
        {
            return self.cancel(Id::from(id));
        }
        debug!(method, "the server sent an unknown notification");
        None
    }

    /// The server does not wait for this call any more. One that has not begun never will.
    fn cancel(&mut self, id: Id) -> Option<Effect<W>> {
        self.inbound.finish(&id);
        self.queued.retain(|run| run.id != id);
        self.running.remove(&id).then_some(Effect::Cancel(id))
    }

    /// A handler is done: the text of its answer, if the server still waits for it.
    pub(super) fn on_handled(&mut self, id: &Id, outcome: Outcome) -> Option<String> {
        self.running.remove(id);
        self.inbound.finish(id).then(|| self.answer(id, outcome))
    }

    fn answer(&mut self, id: &Id, outcome: Outcome) -> String {
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

    /// The notifications for what our handles released.
    pub(super) fn dropped_refs(&self) -> Vec<String> {
        let released = self.imports.take_released();
        released.iter().map(|release| encode_request(None, RELEASE_REF, release)).collect()
    }

    /// The connection has ended: the callers that still wait.
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
