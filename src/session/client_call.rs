//! Calls to the client, from the check of their input to the check of what the client answers.

use std::time::Duration;

use serde_json::value::RawValue;

use super::boundary::Observation;
use super::tables::{ClientCall, OutboxItem, Waiter, WallClock};
use super::{CallValue, ChargedTo, PendingCall, PendingTarget, Session, Settlement, Turn, ValueSource, Work};
use crate::binding::tags;
use crate::catalog::CatalogEntry;
use crate::catalog::check::{Direction, check_input, check_value};
use crate::protocol::client_messages::ToClient;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::{Payload, Target};
use crate::protocol::names::{APPROVE, CONSOLE_WRITE};
use crate::rpc::{ErrorObject, Kind};
use crate::schema::Schema;

impl Session {
    /// Sends what the script asked for since the last look: its calls to the client, then its console lines.
    pub(super) fn send_pending(&mut self) {
        self.send_calls();
        self.stream_console();
    }

    /// Sends the script's calls to the client.
    pub(super) fn send_calls(&mut self) {
        for PendingCall { call, charged_to, target, depth } in std::mem::take(&mut self.state.pending) {
            let waiter = Waiter::Script { call, charged_to };
            match target {
                PendingTarget::Binding(name, payload) => {
                    self.call_client(waiter, Target::Binding(name), payload, depth);
                }
                PendingTarget::Function(function, payload) => match self.own_reference(&function) {
                    Some(id) => self.call_client(waiter, Target::Reference(id), payload, depth),
                    None => {
                        let message = "the function belongs to an earlier connection";
                        self.refuse_call(waiter, &payload, ErrorObject::new(Kind::UnknownRef, message));
                    }
                },
            }
        }
    }

    /// Calls the client; or waits for it to come back, if it is away and the limits allow that; or waits for a place,
    /// if the client has as many calls as it may have.
    pub(super) fn call_client(&mut self, waiter: Waiter, target: Target, mut payload: Payload, depth: u32) {
        let is_connected = self.state.client.is_some();
        let grace = Duration::from_millis(self.limits.client_grace_ms);
        if !is_connected && (grace.is_zero() || matches!(target, Target::Reference(_))) {
            let error = ErrorObject::new(Kind::PeerGone, "the client is not connected");
            return self.refuse_call(waiter, &payload, error);
        }
        let charged_to = self.payer_of(&waiter);
        if let Err(error) = self.check_call(charged_to, &target, &mut payload) {
            return self.refuse_call(waiter, &payload, error);
        }
        let (wait, pauses) =
            if is_connected { self.time_for_call(charged_to, &target) } else { (grace, false) };
        let is_line = waiter == Waiter::Line;
        let number = self.next_number();
        let outbox = &mut self.state.client_calls.outbox;
        let held_bytes = match is_connected && !is_line && !outbox.has_room_for_call() {
            true => match outbox.hold_call(number, &payload) {
                Ok(bytes) => bytes,
                Err(error) => return self.refuse_call(waiter, &payload, error),
            },
            false => 0,
        };
        let pauses = charged_to.filter(|_| pauses);
        let now = self.now;
        if let Some(clock) = pauses.and_then(|charged_to| self.clock_of(charged_to)) {
            clock.pause(now);
        }
        let (unsent, event) = if !is_connected || held_bytes > 0 {
            (Some(payload), None)
        } else {
            (None, Some(ToClient::Call { call: number, target: target.clone(), payload }))
        };
        let call = ClientCall { waiter, target, unsent, held_bytes, deadline: now + wait, depth, pauses };
        self.state.client_calls.insert(number, call);
        if let Some(event) = event {
            self.state.client_calls.outbox.note_sent(is_line);
            self.send_event(event);
        }
    }

    /// Who pays for a call.
    pub(super) fn payer_of(&self, waiter: &Waiter) -> Option<ChargedTo> {
        match waiter {
            Waiter::Script { charged_to, .. } => Some(*charged_to),
            Waiter::Handler { script_call, .. } => self.state.handler_calls.charged_to((*script_call)?),
            Waiter::Line | Waiter::Announcement => None,
        }
    }

    fn clock_of(&mut self, charged_to: ChargedTo) -> Option<&mut WallClock> {
        match charged_to {
            ChargedTo::Eval(number) => {
                let running = self.state.evals.running.as_mut();
                running.filter(|running| running.number == number).map(|running| &mut running.clock)
            }
            ChargedTo::Invocation(number) => {
                self.state.invocations.get_mut(number).map(|invocation| &mut invocation.clock)
            }
            ChargedTo::Background => None,
        }
    }

    fn client_binding(&self, name: &str) -> Option<&CatalogEntry> {
        self.state.client.as_ref()?.bindings.get(name).map(AsRef::as_ref)
    }

    /// How long a call may take, and whether that is a limit of its own, during which the clock of its eval is paused.
    /// An approval and a binding that declares its time have one; other calls may take as long as the eval if the client
    /// set its time.
    fn time_for_call(&mut self, charged_to: Option<ChargedTo>, target: &Target) -> (Duration, bool) {
        let longest = Duration::from_millis(self.limits.client_call_ms_max);
        let declared = match target {
            Target::Binding(name) => self.client_binding(name).and_then(|binding| binding.timeout),
            Target::Reference(_) => None,
        };
        match (target, declared) {
            (Target::Binding(name), declared) if name == APPROVE => {
                let longest = Duration::from_millis(self.limits.approve_ms_max);
                (declared.map_or(longest, |declared| declared.min(longest)), true)
            }
            (_, Some(declared)) => (declared.min(longest), true),
            (_, None) => {
                let default = Duration::from_millis(self.limits.binding_ms_max);
                let now = self.now;
                let left = charged_to.and_then(|payer| self.clock_of(payer)?.client_limit_left(now));
                (left.map_or(default, |left| left.min(longest).max(default)), false)
            }
        }
    }

    /// Checks a call before it is sent, if the client is connected: otherwise it is checked when it comes back.
    fn check_call(
        &mut self,
        charged_to: Option<ChargedTo>,
        target: &Target,
        payload: &mut Payload,
    ) -> Result<(), ErrorObject> {
        if self.state.client.is_none() {
            return Ok(());
        }
        let (checked, has_schema) = match (target, payload) {
            (Target::Binding(name), Payload::Input(input)) => {
                let Some(binding) = self.client_binding(name) else {
                    let message = format!("the client has no binding {name}");
                    return Err(ErrorObject::new(Kind::UnknownBinding, message));
                };
                let schema = binding.input.as_ref();
                (check_input(&binding.declaration, schema, input), schema.is_some())
            }
            (Target::Reference(id), Payload::Input(input)) => {
                let schemas = self.state.connection().and_then(|connection| {
                    let function = FnRef::Client { connection, id: id.clone() };
                    self.state.references.import_schemas(&function)
                });
                let schema = schemas.as_ref().and_then(|schemas| schemas.input.as_ref());
                (check_value(Direction::Input, id, schema, input), schema.is_some())
            }
            (Target::Binding(_) | Target::Reference(_), Payload::Args(_)) => return Ok(()),
        };
        if has_schema {
            self.checked_for = Some(charged_to);
        }
        checked
    }

    /// The client came back: what waited for it is sent, if it still has the binding.
    pub(super) fn send_waiting_calls(&mut self) {
        for number in self.state.client_calls.numbers(|call| call.unsent.is_some()) {
            if let Some(ClientCall { waiter, target, unsent: Some(payload), depth, .. }) =
                self.remove_client_call(number)
            {
                self.call_client(waiter, target, payload, depth);
            }
        }
    }

    /// Sends what was held back, as far as there are places.
    pub(super) fn send_held(&mut self) {
        while let Some(number) = self.state.client_calls.outbox.next_call() {
            if let Some((target, payload)) = self.state.client_calls.take_held(number) {
                self.send_event(ToClient::Call { call: number, target, payload });
            }
        }
        let batches = self.state.batches_console();
        while let Some(item) = self.state.client_calls.outbox.next_item(batches) {
            match item {
                OutboxItem::Line(input) => {
                    let target = Target::Binding(CONSOLE_WRITE.to_owned());
                    self.call_client(Waiter::Line, target, Payload::Input(input), 0);
                }
                OutboxItem::Answer(requester, answer) => self.answer(requester, answer),
            }
        }
    }

    /// Takes a call out of every table; its place is free, and the clock that it paused goes on.
    pub(super) fn remove_client_call(&mut self, number: u64) -> Option<ClientCall> {
        let call = self.state.client_calls.remove(number)?;
        let now = self.now;
        if let Some(clock) = call.pauses.and_then(|charged_to| self.clock_of(charged_to)) {
            clock.resume(now);
        }
        Some(call)
    }

    /// The client answered.
    pub(super) fn accept_answer(
        &mut self,
        number: u64,
        outcome: Result<Box<RawValue>, ErrorObject>,
        charge: u64,
    ) {
        let Some(call) = self.remove_client_call(number) else { return self.discharge(charge) };
        let outcome = outcome.and_then(|text| {
            let charged_to = self.payer_of(&call.waiter);
            self.check_answer(charged_to, &call.target, &text)?;
            Ok(text)
        });
        self.deliver(call.waiter, outcome, charge);
        self.send_held();
    }

    /// Checks an answer against its schema, if it has one: only then it becomes a tree, and only for that long. Without
    /// one, malformed tags are found where the value is built.
    fn check_answer(
        &mut self,
        charged_to: Option<ChargedTo>,
        target: &Target,
        text: &RawValue,
    ) -> Result<(), ErrorObject> {
        let (Target::Binding(name) | Target::Reference(name)) = target;
        let check = |schema: &Schema| {
            let value = tags::check_answer(self.read_tree(text, Kind::InvalidOutput)?)?;
            check_value(Direction::Output, name, Some(schema), &value)
        };
        let checked = match target {
            Target::Binding(name) => {
                self.client_binding(name).and_then(|binding| binding.output.as_ref()).map(check)
            }
            Target::Reference(id) => {
                let function =
                    FnRef::Client { connection: self.state.connection().unwrap_or_default(), id: id.clone() };
                let schemas = self.state.references.import_schemas(&function);
                schemas.as_ref().and_then(|schemas| schemas.output.as_ref()).map(check)
            }
        };
        if checked.is_some() {
            self.checked_for = Some(charged_to);
        }
        checked.unwrap_or(Ok(()))
    }

    /// Passes an outcome to what waits for it.
    fn deliver(&mut self, waiter: Waiter, outcome: Result<Box<RawValue>, ErrorObject>, charge: u64) {
        self.observe(Observation::ClientCalled { error: outcome.as_ref().err().cloned() });
        match waiter {
            Waiter::Script { call, charged_to } => {
                let outcome = outcome.map(CallValue::Text);
                let source = ValueSource::Client(self.state.connection().unwrap_or_default());
                self.settle_soon(charged_to, Settlement { call, outcome, source, charge });
            }
            Waiter::Handler { request, .. } => {
                let connection = self.state.connection().unwrap_or_default();
                let value = outcome.and_then(|text| self.read_tree(&text, Kind::InvalidOutput));
                let outcome = value.and_then(tags::check_answer).map(|mut value| {
                    // Functions of the client get the session's own names before a handler sees them.
                    name_client_functions(&mut value, connection);
                    value
                });
                self.send(super::boundary::FromSession::HandlerAnswered { request, outcome });
                self.discharge(charge);
            }
            Waiter::Line => self.discharge(charge),
            Waiter::Announcement => {
                self.discharge(charge);
                self.finish_announcement();
            }
        }
    }

    /// A call that is not even sent fails.
    fn refuse_call(&mut self, waiter: Waiter, payload: &Payload, error: ErrorObject) {
        if matches!(waiter, Waiter::Script { .. }) {
            self.take_back_functions(payload);
        }
        self.fail_call(waiter, error);
    }

    /// A call that cannot be made, or is given up, fails.
    pub(super) fn fail_call(&mut self, waiter: Waiter, error: ErrorObject) {
        self.deliver(waiter, Err(error), 0);
    }

    /// Settles a call of the script in the next turn of the eval or invocation that pays for it.
    pub(super) fn settle_soon(&mut self, charged_to: ChargedTo, settlement: Settlement) {
        let charged_to = self.current_payer(charged_to);
        let depth = self.depth_of(charged_to);
        // Answers that came together are settled in one turn.
        if let Some(Turn { charged_to: last, work: Work::Settle(settlements), .. }) =
            self.state.ready.back_mut()
            && *last == charged_to
        {
            settlements.push(settlement);
            return;
        }
        self.state.ready.push_back(Turn { charged_to, depth, work: Work::Settle(vec![settlement]) });
    }
}

/// Gives the functions in a value of the client the names that the session has for them.
pub(super) fn name_client_functions(value: &mut serde_json::Value, connection: u64) {
    fn_values::rename(value, |id| Some(FnRef::Client { connection, id: id.to_owned() }.to_string()));
}
