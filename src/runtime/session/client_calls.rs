//! Calls to the client, from the check of their input to the check of what the client answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::super::guest::{Asked, CallValue, Origin, Owner, Reach};
use super::calls::{ServerCall, scope_functions};
use super::clock::WallClock;
use super::invokes::HandlerReply;
use super::{Inbox, Session};
use crate::binding::tags;
use crate::budget::Charge;
use crate::catalog::check::{Direction, check_value};
use crate::protocol::boundary::SessionEvent;
use crate::protocol::methods::{Payload, Target};
use crate::protocol::names::APPROVE;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::FunctionSchemas;

/// Who waits for an answer of the client.
pub(crate) enum Waiter {
    /// The script, for its call of that number.
    Script { call: u64, owner: Owner },
    /// A handler.
    Handler(HandlerReply),
    /// Nobody: a console line.
    Nobody,
    /// The session, which tells the client that bindings changed.
    Announcement,
}

/// A call to the client.
pub(crate) struct ClientCall {
    waiter: Waiter,
    target: Target,
    /// With what, as long as it waits for the client to come back or for a place; what has been sent is not sent again.
    unsent: Option<Payload>,
    /// The bytes of a payload that waits for a place.
    held_bytes: usize,
    deadline: Instant,
    pub(crate) depth: u32,
    /// Whose clock stands still until the answer.
    stops_clock_of: Option<Owner>,
}

impl Session {
    pub(crate) async fn call_client_for_script(&mut self, asked: Asked, depth: u32) {
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

    /// Calls the client; or waits for it to come back, if it is away and the limits allow that; or waits for a place,
    /// if the client has as many calls as it may have.
    pub(crate) async fn call_client(&mut self, waiter: Waiter, target: Target, payload: Payload, depth: u32) {
        let grace = Duration::from_millis(self.parts.limits.client_grace_ms);
        if self.live.is_none() && (grace.is_zero() || matches!(target, Target::Reference(_))) {
            let error = ErrorObject::new(Kind::PeerGone, "the client is not connected");
            return self.fail_call(waiter, error);
        }
        let started = Instant::now();
        let owner = self.owner_of(&waiter);
        let refused = self.refuse_call(&target, &payload);
        let now = Instant::now();
        self.charge_check(owner, now.saturating_duration_since(started));
        if let Some(error) = refused {
            return self.fail_call(waiter, error);
        }
        let (wait, stops_clock) =
            if self.live.is_some() { self.time_for_call(owner, &target, now) } else { (grace, false) };
        let is_line = matches!(waiter, Waiter::Nobody);
        let number = self.number();
        let held_bytes = match self.live.is_some() && !is_line && !self.outbox.has_room_for_call() {
            true => match self.outbox.hold_call(number, &payload) {
                Ok(bytes) => bytes,
                Err(error) => return self.fail_call(waiter, error),
            },
            false => 0,
        };
        let deadline = now + wait;
        self.call_deadlines.insert((deadline, number));
        let waiter = self.watch_handler(waiter, number);
        let stops_clock_of = owner.filter(|_| stops_clock);
        if let Some(clock) = stops_clock_of.and_then(|owner| self.clock_of(owner)) {
            clock.stop(now);
        }
        let (unsent, event) = if self.live.is_none() || held_bytes > 0 {
            (Some(payload), None)
        } else {
            (None, Some(SessionEvent::Call { call: number, target: target.clone(), payload }))
        };
        let call = ClientCall { waiter, target, unsent, held_bytes, deadline, depth, stops_clock_of };
        self.client_calls.insert(number, call);
        if let Some(event) = event {
            self.outbox.note_sent(is_line);
            self.emit(event).await;
        }
    }

    /// For whom a call is made.
    fn owner_of(&self, waiter: &Waiter) -> Option<Owner> {
        match waiter {
            Waiter::Script { owner, .. } => Some(*owner),
            Waiter::Handler(HandlerReply { script_call: Some(call), .. }) => {
                self.server_calls.get(call).map(ServerCall::owner)
            }
            Waiter::Handler(_) | Waiter::Nobody | Waiter::Announcement => None,
        }
    }

    fn clock_of(&mut self, owner: Owner) -> Option<&mut WallClock> {
        match owner {
            Owner::Eval(number) => {
                let running = self.evals.running.as_mut();
                running.filter(|running| running.number == number).map(|running| &mut running.clock)
            }
            Owner::Invocation(number) => self.invocations.get_mut(&number).map(|call| &mut call.clock),
            Owner::Nobody => None,
        }
    }

    /// How long a call may take, and whether that is a limit of its own, during which the clock of its eval stands
    /// still. An approval and a binding that declares its time have one; other calls may take as long as the eval if
    /// the client set its time.
    fn time_for_call(&mut self, owner: Option<Owner>, target: &Target, now: Instant) -> (Duration, bool) {
        let limits = Arc::clone(&self.parts.limits);
        let longest = Duration::from_millis(limits.client_call_ms_max);
        let declared = match (target, &self.live) {
            (Target::Binding(name), Some(live)) => live.catalog.get(name).and_then(|binding| binding.timeout),
            (Target::Binding(_) | Target::Reference(_), _) => None,
        };
        match (target, declared) {
            (Target::Binding(name), declared) if name == APPROVE => {
                let longest = Duration::from_millis(limits.approve_ms_max);
                (declared.map_or(longest, |declared| declared.min(longest)), true)
            }
            (_, Some(declared)) => (declared.min(longest), true),
            (_, None) => {
                let otherwise = Duration::from_millis(limits.binding_ms_max);
                let asked = owner.and_then(|owner| self.clock_of(owner)?.asked_left(now));
                (asked.map_or(otherwise, |asked| asked.min(longest).max(otherwise)), false)
            }
        }
    }

    /// Gives the call of a handler up as soon as the handler stops waiting for it.
    fn watch_handler(&self, waiter: Waiter, number: u64) -> Waiter {
        let Waiter::Handler(HandlerReply { mut reply_tx, script_call }) = waiter else {
            return waiter;
        };
        let (answer_tx, answer_rx) = oneshot::channel();
        let inbox_tx = self.inbox_tx.clone();
        tokio::task::spawn_local(async move {
            tokio::select! {
                biased;
                answer = answer_rx => match answer {
                    Ok(outcome) => drop(reply_tx.send(outcome)),
                    // Given up: the handler sees that no answer can come.
                    Err(_) => drop(reply_tx),
                },
                // A session that is gone has given everything up.
                () = reply_tx.closed() => drop(inbox_tx.send(Inbox::CallWithdrawn(number)).await),
            }
        });
        Waiter::Handler(HandlerReply { reply_tx: answer_tx, script_call })
    }

    /// What is wrong with a call before it is sent.
    fn refuse_call(&self, target: &Target, payload: &Payload) -> Option<ErrorObject> {
        let live = self.live.as_ref()?;
        let Payload::Input(input) = payload else { return None };
        let check = |name, schema| check_value(Direction::Input, name, schema, input).err();
        match target {
            Target::Binding(name) => match live.catalog.get(name) {
                Some(entry) => check(name, entry.input.as_ref()),
                None => {
                    let message = format!("the client has no binding {name}");
                    Some(ErrorObject::new(Kind::UnknownBinding, message))
                }
            },
            Target::Reference(id) => check(id, self.schemas_of(id)?.input.as_ref()),
        }
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
            if let Some(ClientCall { waiter, target, unsent: Some(payload), depth, .. }) =
                self.remove_client_call(number)
            {
                self.call_client(waiter, target, payload, depth).await;
            }
        }
    }

    /// Sends a call that was held back; `false` when it is over already.
    pub(crate) async fn send_held_call(&mut self, number: u64) -> bool {
        let Some(call) = self.client_calls.get_mut(&number) else { return false };
        let Some(payload) = call.unsent.take() else { return false };
        self.outbox.forget_held(std::mem::take(&mut call.held_bytes));
        self.outbox.note_sent(false);
        let target = call.target.clone();
        self.emit(SessionEvent::Call { call: number, target, payload }).await;
        true
    }

    /// Takes a call out of every table; its place is free.
    fn remove_client_call(&mut self, number: u64) -> Option<ClientCall> {
        let call = self.client_calls.remove(&number)?;
        self.call_deadlines.remove(&(call.deadline, number));
        match call.unsent {
            None => self.outbox.note_over(matches!(call.waiter, Waiter::Nobody)),
            Some(_) => self.outbox.forget_held(call.held_bytes),
        }
        if let Some(clock) = call.stops_clock_of.and_then(|owner| self.clock_of(owner)) {
            clock.resume(Instant::now());
        }
        Some(call)
    }

    /// The client answered.
    pub(crate) async fn accept_answer(
        &mut self,
        number: u64,
        outcome: Result<Box<RawValue>, ErrorObject>,
        charge: Charge,
    ) {
        let Some(call) = self.remove_client_call(number) else {
            return;
        };
        let (started, owner) = (Instant::now(), self.owner_of(&call.waiter));
        let outcome = outcome.and_then(|text| {
            self.check_output(&call.target, &text)?;
            Ok(text)
        });
        self.charge_check(owner, started.elapsed());
        self.deliver(call.waiter, outcome, charge);
        self.send_held().await;
    }

    /// Checking a value takes time outside of any turn; it counts as the time of the script that the value is for.
    pub(crate) fn charge_check(&mut self, owner: Option<Owner>, used: Duration) {
        self.cpu_total += used;
        self.parts.scope.principal.account.charge_cpu(used, Instant::now);
        match owner.map(|owner| self.current_owner(owner)) {
            Some(Owner::Eval(_)) => {
                if let Some(running) = &mut self.evals.running {
                    running.cpu += used;
                }
            }
            Some(Owner::Invocation(number)) => {
                if let Some(call) = self.invocations.get_mut(&number) {
                    call.cpu += used;
                }
            }
            Some(Owner::Nobody) => self.background.charge(used),
            None => {}
        }
    }

    /// Checks an answer against its schema, if it has one: only then it becomes a tree, and only for that long. Without one,
    /// malformed tags are found where the value is built.
    fn check_output(&self, target: &Target, text: &RawValue) -> Result<(), ErrorObject> {
        let of_function;
        let (name, schema) = match target {
            Target::Binding(name) => {
                let entry = self.live.as_ref().and_then(|live| live.catalog.get(name));
                (name, entry.and_then(|entry| entry.output.as_ref()))
            }
            Target::Reference(id) => {
                of_function = self.schemas_of(id);
                (id, of_function.as_ref().and_then(|schemas| schemas.output.as_ref()))
            }
        };
        if schema.is_none() {
            return Ok(());
        }
        let value = tags::check_answer(self.read_tree(text, Kind::InvalidOutput)?)?;
        check_value(Direction::Output, name, schema, &value)
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
            Waiter::Handler(HandlerReply { reply_tx, .. }) => {
                let number = self.live.as_ref().map_or(0, |live| live.number);
                let value = outcome.and_then(|text| self.read_tree(&text, Kind::InvalidOutput));
                let value = value.and_then(tags::check_answer);
                // Functions of the client get the session's own keys before a handler sees them.
                let _ = reply_tx.send(value.map(|value| scope_functions(value, number)));
            }
            Waiter::Nobody => {}
            Waiter::Announcement => self.finish_announcement(),
        }
    }

    /// A call that cannot be made, or is given up, fails.
    pub(crate) fn fail_call(&mut self, waiter: Waiter, error: ErrorObject) {
        self.deliver(waiter, Err(error), Charge::none());
    }

    /// Gives up on calls whose time is over.
    pub(crate) async fn expire_calls(&mut self, now: Instant) {
        let mut is_any_over = false;
        while let Some((deadline, number)) = self.call_deadlines.first().copied()
            && deadline <= now
        {
            self.call_deadlines.pop_first();
            let Some(call) = self.remove_client_call(number) else {
                continue;
            };
            is_any_over = true;
            let error = if call.unsent.is_none() {
                self.emit(SessionEvent::GiveUp { call: number }).await;
                ErrorObject::new(Kind::Timeout, "the client did not answer in time")
            } else if self.live.is_some() {
                ErrorObject::new(Kind::Timeout, "the client did not answer earlier calls in time")
            } else {
                ErrorObject::new(Kind::PeerGone, "the client did not come back in time")
            };
            self.fail_call(call.waiter, error);
        }
        if is_any_over {
            self.send_held().await;
        }
    }

    /// The connection is gone: calls to it fail.
    pub(crate) fn fail_client_calls(&mut self) {
        self.outbox.clear();
        let numbers: Vec<u64> = self.client_calls.keys().copied().collect();
        for number in numbers {
            if let Some(call) = self.remove_client_call(number) {
                let error = ErrorObject::new(Kind::PeerGone, "the connection is gone");
                self.fail_call(call.waiter, error);
            }
        }
    }

    /// Ends every call to a client that is still there; scripts and handlers get `error`. Console lines and announcements
    /// stay: no script or handler made them.
    pub(crate) async fn give_up_client_calls(&mut self, error: &ErrorObject) {
        let is_own = |call: &ClientCall| matches!(call.waiter, Waiter::Nobody | Waiter::Announcement);
        let calls = self.client_calls.iter().filter(|(_, call)| !is_own(call));
        let numbers: Vec<u64> = calls.map(|(number, _)| *number).collect();
        for number in numbers {
            if let Some(call) = self.withdraw_call(number).await {
                self.fail_call(call.waiter, error.clone());
            }
        }
    }

    /// The answer of this call is not awaited any more.
    pub(crate) async fn give_up_call(&mut self, number: u64) {
        drop(self.withdraw_call(number).await);
        self.send_held().await;
    }

    async fn withdraw_call(&mut self, number: u64) -> Option<ClientCall> {
        let call = self.remove_client_call(number)?;
        if call.unsent.is_none() {
            self.emit(SessionEvent::GiveUp { call: number }).await;
        }
        Some(call)
    }

    /// Ends the calls of an eval or invocation that is stopped, and those that handlers make for it.
    pub(crate) async fn abandon_calls_of(&mut self, owner: Owner) {
        let client = self.client_calls.iter().filter(|(_, call)| self.owner_of(&call.waiter) == Some(owner));
        let client: Vec<u64> = client.map(|(number, _)| *number).collect();
        for number in self.cancel_server_calls_of(owner) {
            drop(self.engine.guest.calls.borrow_mut().take(number));
        }
        for number in client {
            if let Some(ClientCall { waiter: Waiter::Script { call, .. }, .. }) =
                self.withdraw_call(number).await
            {
                drop(self.engine.guest.calls.borrow_mut().take(call));
            }
        }
        self.send_held().await;
    }

    /// The context ends, and with it every call that its scripts wait for.
    pub(crate) async fn abandon_script_calls(&mut self) {
        for call in std::mem::take(&mut self.server_calls).into_values() {
            call.cancel();
        }
        let is_of_script = |call: &ClientCall| matches!(call.waiter, Waiter::Script { .. });
        let calls = self.client_calls.iter().filter(|(_, call)| is_of_script(call));
        let numbers: Vec<u64> = calls.map(|(number, _)| *number).collect();
        for number in numbers {
            drop(self.withdraw_call(number).await);
        }
    }
}
