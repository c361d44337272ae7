//! Calls that the session waits for: handlers at work for a script, and calls to the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::super::guest::{Asked, CallAnswer, CallValue, Callable, Holder, Origin, Owner, Reach};
use super::dispatch::Pending;
use super::turn::Action;
use super::{Inbox, Ready, Session};
use crate::binding::schema::Schema;
use crate::binding::{FunctionSchemas, invalid, places};
use crate::budget::Charge;
use crate::rpc::{ErrorObject, Kind};
use crate::scomp::link::SessionEvent;
use crate::scomp::methods::{Payload, Target};
use crate::scomp::shape::Shape;

/// A handler at work for a script.
pub(crate) struct ServerCall {
    owner: Owner,
    cancel: CancellationToken,
}

impl ServerCall {
    /// Tells the handler that nobody waits.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}

/// Who waits for an answer of the client.
pub(crate) enum Waiter {
    /// The script, for its call of that number.
    Script { call: u64, owner: Owner },
    /// A handler.
    Handler(oneshot::Sender<Result<Value, ErrorObject>>),
    /// Nobody: a console line.
    Nobody,
}

/// A call to the client.
pub(crate) struct ClientCall {
    waiter: Waiter,
    target: Target,
    /// With what, as long as it waits for the client to come back; what has been sent is not sent again.
    unsent: Option<Payload>,
    deadline: Instant,
    pub(crate) depth: u32,
}

impl Session {
    /// Starts what the script asked for since the last look.
    pub(crate) async fn start_pending(&mut self) {
        let pending = self.dispatcher.pending.take();
        for pending in pending {
            match pending {
                Pending::Server { call, owner, work, cancel } => {
                    self.server_calls.insert(call, ServerCall { owner, cancel });
                    let inbox_tx = self.inbox_tx.clone();
                    let deliver = async move {
                        let outcome = work.await;
                        // A session that is gone does not want to know.
                        let _ = inbox_tx.send(Inbox::CallDone(call, outcome)).await;
                    };
                    tokio::task::spawn_local(deliver.instrument(span_of(owner)));
                }
                Pending::Client { asked, depth } => self.call_client_for_script(asked, depth).await,
            }
        }
    }

    async fn call_client_for_script(&mut self, asked: Asked, depth: u32) {
        let waiter = Waiter::Script { call: asked.call, owner: asked.owner };
        let target = match asked.reach {
            Reach::Client(name) => Target::Binding(name),
            Reach::Server(_) => {
                let error = ErrorObject::new(Kind::Internal, "a call of the server's own went to the client");
                return self.fail_call(waiter, error);
            }
            Reach::Import(key) => match self.own_reference(&key) {
                Some(id) => Target::Reference(id),
                None => {
                    let error =
                        ErrorObject::new(Kind::UnknownRef, "the function belongs to an earlier connection");
                    return self.fail_call(waiter, error);
                }
            },
        };
        self.call_client(waiter, target, asked.payload, depth).await;
    }

    /// The reference on the wire of a function of the present client.
    pub(crate) fn own_reference(&self, key: &str) -> Option<String> {
        let (number, id) = key.split_once(':')?;
        let live = self.live.as_ref()?;
        (number.parse() == Ok(live.number)).then(|| id.to_owned())
    }

    /// Calls the client, or waits for it to come back if it is away and the limits allow that.
    pub(crate) async fn call_client(&mut self, waiter: Waiter, target: Target, payload: Payload, depth: u32) {
        let grace = Duration::from_millis(self.parts.limits.client_grace_ms);
        if self.live.is_none() && (grace.is_zero() || matches!(target, Target::Reference(_))) {
            let error = ErrorObject::new(Kind::PeerGone, "the client is not connected");
            return self.fail_call(waiter, error);
        }
        if let Some(error) = self.refuse_call(&target, &payload) {
            return self.fail_call(waiter, error);
        }
        let wait = if self.live.is_some() {
            self.parts.limits.binding_ms_max
        } else {
            self.parts.limits.client_grace_ms
        };
        let number = self.number();
        let deadline = Instant::now() + Duration::from_millis(wait);
        self.call_deadlines.insert((deadline, number));
        if self.live.is_none() {
            let call = ClientCall { waiter, target, unsent: Some(payload), deadline, depth };
            self.client_calls.insert(number, call);
            return;
        }
        let event = SessionEvent::Call { call: number, target: target.clone(), payload };
        self.client_calls.insert(number, ClientCall { waiter, target, unsent: None, deadline, depth });
        self.emit(event).await;
    }

    /// What is wrong with a call before it is sent.
    fn refuse_call(&self, target: &Target, payload: &Payload) -> Option<ErrorObject> {
        let live = self.live.as_ref()?;
        let (name, checked) = match (target, payload) {
            (Target::Binding(name), Payload::Input(input)) => {
                let Some(binding) = live.bindings.get(name) else {
                    let message = format!("the client has no binding {name}");
                    return Some(ErrorObject::new(Kind::UnknownBinding, message));
                };
                (name, binding.input.as_ref()?.check(input))
            }
            (Target::Reference(id), Payload::Input(input)) => {
                (id, self.schemas_of(id)?.input.as_ref()?.check(input))
            }
            (Target::Binding(_) | Target::Reference(_), Payload::Args(_)) => return None,
        };
        checked.err().map(|failures| invalid(Kind::InvalidInput, name, "input", &failures))
    }

    fn schemas_of(&self, reference: &str) -> Option<Arc<FunctionSchemas>> {
        let key = format!("{}:{reference}", self.live.as_ref()?.number);
        self.engine.guest.import_schemas.borrow().get(&key).cloned()
    }

    /// The client came back: what waited for it is sent, if it still has the binding.
    pub(crate) async fn send_waiting_calls(&mut self) {
        let unsent = self.client_calls.iter().filter(|(_, call)| call.unsent.is_some());
        let waiting: Vec<u64> = unsent.map(|(number, _)| *number).collect();
        for number in waiting {
            let Some(ClientCall { waiter, target, unsent: Some(payload), deadline, depth }) =
                self.client_calls.remove(&number)
            else {
                continue;
            };
            self.call_deadlines.remove(&(deadline, number));
            self.call_client(waiter, target, payload, depth).await;
        }
    }

    /// The client answered.
    pub(crate) fn accept_answer(
        &mut self,
        number: u64,
        outcome: Result<Box<RawValue>, ErrorObject>,
        charge: Charge,
    ) {
        let Some(call) = self.client_calls.remove(&number) else {
            return;
        };
        self.call_deadlines.remove(&(call.deadline, number));
        let outcome = outcome.and_then(|text| {
            self.check_output(&call.target, &text)?;
            Ok(text)
        });
        self.deliver(call.waiter, outcome, charge);
    }

    /// Checks an answer against its schema, if it has one: only then it becomes a tree, and only for that long.
    fn check_output(&self, target: &Target, text: &RawValue) -> Result<(), ErrorObject> {
        let check = |schema: &Schema| {
            let value = self.read_tree(text, Kind::InvalidOutput)?;
            let name = match target {
                Target::Binding(name) | Target::Reference(name) => name,
            };
            let checked = schema.check(&value);
            checked.map_err(|failures| invalid(Kind::InvalidOutput, name, "output", &failures))
        };
        match target {
            Target::Binding(name) => {
                let binding = self.live.as_ref().and_then(|live| live.bindings.get(name));
                binding.and_then(|binding| binding.output.as_ref()).map_or(Ok(()), check)
            }
            Target::Reference(id) => {
                let schemas = self.schemas_of(id);
                schemas.as_ref().and_then(|schemas| schemas.output.as_ref()).map_or(Ok(()), check)
            }
        }
    }

    /// Makes a value of a text of the client, if it is not larger than a session may be.
    pub(crate) fn read_tree(&self, text: &RawValue, kind: Kind) -> Result<Value, ErrorObject> {
        let max = self.parts.limits.memory_bytes_max;
        if Shape::of(text.get()).tree_bytes > max {
            return Err(ErrorObject::new(kind, format!("the value takes more than {max} bytes in memory")));
        }
        serde_json::from_str(text.get()).map_err(|error| ErrorObject::new(kind, error.to_string()))
    }

    /// Gives an outcome to the script or the handler that waits for it.
    pub(crate) fn deliver(
        &mut self,
        waiter: Waiter,
        outcome: Result<Box<RawValue>, ErrorObject>,
        charge: Charge,
    ) {
        crate::observe::client_called(outcome.as_ref().err());
        match waiter {
            Waiter::Script { call, owner } => {
                self.settle_soon(call, owner, (outcome.map(CallValue::Text), Origin::Client), charge);
            }
            Waiter::Handler(reply_tx) => {
                let number = self.live.as_ref().map_or(0, |live| live.number);
                let value = outcome.and_then(|text| self.read_tree(&text, Kind::InvalidOutput));
                // Functions of the client get the session's own keys before a handler sees them.
                let _ = reply_tx.send(value.map(|value| scope_functions(value, number)));
            }
            Waiter::Nobody => {}
        }
    }

    /// A call that cannot be made fails.
    pub(crate) fn fail_call(&mut self, waiter: Waiter, error: ErrorObject) {
        self.deliver(waiter, Err(error), Charge::none());
    }

    fn settle_soon(&mut self, call: u64, owner: Owner, answer: CallAnswer, charge: Charge) {
        let owner = self.current_owner(owner);
        let depth = self.depth_of(owner);
        // Answers that came together are settled in one turn.
        if let Some(Ready { owner: last, action: Action::Settle(answers), .. }) = self.ready.back_mut()
            && *last == owner
        {
            answers.push((call, answer, charge));
            return;
        }
        self.ready.push_back(Ready { owner, depth, action: Action::Settle(vec![(call, answer, charge)]) });
    }

    /// A handler that worked for a script is done.
    pub(crate) fn finish_server_call(&mut self, call: u64, outcome: Result<Value, ErrorObject>) {
        if let Some(ServerCall { owner, .. }) = self.server_calls.remove(&call) {
            let answer = (outcome.map(CallValue::Tree), Origin::Host);
            self.settle_soon(call, owner, answer, Charge::none());
        }
    }

    /// Gives up on calls whose time is over.
    pub(crate) async fn expire_calls(&mut self, now: Instant) {
        while let Some((deadline, number)) = self.call_deadlines.first().copied()
            && deadline <= now
        {
            self.call_deadlines.pop_first();
            let Some(call) = self.client_calls.remove(&number) else {
                continue;
            };
            let error = if call.unsent.is_none() {
                self.emit(SessionEvent::GiveUp { call: number }).await;
                ErrorObject::new(Kind::Timeout, "the client did not answer in time")
            } else {
                ErrorObject::new(Kind::PeerGone, "the client did not come back in time")
            };
            self.fail_call(call.waiter, error);
        }
    }

    /// The connection is gone: calls to it fail, unless they may wait for the next.
    pub(crate) fn fail_client_calls(&mut self) {
        let numbers: Vec<u64> = self.client_calls.keys().copied().collect();
        for number in numbers {
            let Some(call) = self.client_calls.remove(&number) else {
                continue;
            };
            self.call_deadlines.remove(&(call.deadline, number));
            let error = ErrorObject::new(Kind::PeerGone, "the connection is gone");
            self.fail_call(call.waiter, error);
        }
    }

    /// Ends the calls of an eval or invocation that is stopped: nobody waits for them any more.
    pub(crate) async fn abandon_calls_of(&mut self, owner: Owner) {
        let server: Vec<u64> = self
            .server_calls
            .iter()
            .filter(|(_, call)| call.owner == owner)
            .map(|(number, _)| *number)
            .collect();
        for number in server {
            if let Some(call) = self.server_calls.remove(&number) {
                call.cancel.cancel();
                drop(self.engine.guest.calls.borrow_mut().take(number));
            }
        }
        let is_owned =
            |call: &ClientCall| matches!(call.waiter, Waiter::Script { owner: of, .. } if of == owner);
        let client: Vec<u64> =
            self.client_calls.iter().filter(|(_, call)| is_owned(call)).map(|(number, _)| *number).collect();
        for number in client {
            let Some(call) = self.client_calls.remove(&number) else {
                continue;
            };
            self.call_deadlines.remove(&(call.deadline, number));
            if let Waiter::Script { call, .. } = call.waiter {
                drop(self.engine.guest.calls.borrow_mut().take(call));
            }
            self.emit(SessionEvent::GiveUp { call: number }).await;
        }
    }

    /// Passes on what was let go: functions that handlers no longer hold, functions that the script dropped.
    pub(crate) async fn take_releases(&mut self) {
        let mut forgotten = Vec::new();
        for id in self.dispatcher.link.releases.take() {
            if let Some(number) = id.strip_prefix("host:").and_then(|number| number.parse().ok()) {
                forgotten.extend(self.engine.guest.functions.borrow_mut().give_back(Holder::Host, number, 1));
            } else if let Some(reference) = self.own_reference(&id) {
                self.emit(SessionEvent::Release { reference, count: 1 }).await;
            }
        }
        self.forget(forgotten);
        let dropped = self.engine.guest.dropped.take();
        for (key, count) in dropped {
            if let Some(number) = key.strip_prefix("native:").and_then(|number| number.parse().ok()) {
                self.dispatcher.natives.remove(number);
            } else if let Some(reference) = self.own_reference(&key) {
                self.emit(SessionEvent::Release { reference, count }).await;
            }
        }
    }

    /// Lets functions of the script go, when its stack is empty.
    pub(crate) fn forget(&mut self, functions: Vec<Callable>) {
        for callable in &functions {
            if let Callable::Native(number) = callable {
                self.dispatcher.natives.remove(*number);
            }
        }
        if !functions.is_empty() {
            self.ready.push_back(Ready { owner: Owner::Nobody, depth: 0, action: Action::Forget(functions) });
        }
    }

    /// Sends console lines to a client that wants them as they come.
    pub(crate) async fn stream_console(&mut self) {
        let lines = self.engine.guest.console.borrow_mut().take_unsent();
        for line in lines {
            let mut input = json!(line);
            input["evalId"] = self.dispatcher.eval_id.borrow().clone().unwrap_or_default();
            let target = Target::Binding("console.write".to_owned());
            self.call_client(Waiter::Nobody, target, Payload::Input(input), 0).await;
        }
    }
}

/// Renames the functions in a value of the client to the session's keys.
pub(crate) fn scope_functions(mut value: Value, connection: u64) -> Value {
    places::replace(&mut value, &mut |place| {
        let mut scoped = place.clone();
        scoped["$fn"] = Value::from(format!("{connection}:{}", places::id_at(place)?));
        Some(scoped)
    });
    value
}

/// What a handler logs is logged for the session, and for the eval that it works for.
fn span_of(owner: Owner) -> Span {
    match owner {
        Owner::Eval(number) => tracing::info_span!("eval", number),
        Owner::Invocation(_) | Owner::Nobody => Span::current(),
    }
}
