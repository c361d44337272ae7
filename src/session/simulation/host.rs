//! The host: handlers at work and their requests, charged bytes, places in the queue of the principal.
//!
//! It keeps its own books and panics when the session's messages do not fit them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use crate::catalog::Catalog;
use crate::protocol::client_messages::Closing;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::methods::Payload;
use crate::quota::{QuotaExceeded, Resource};
use crate::rpc::{ErrorObject, Kind};
use crate::session::boundary::{
    Admission, FromSession, HandlerCall, HandlerInput, HandlerTarget, InvokeTarget, ToSession,
};
use crate::session::tests::support::catalog;

/// A handler at work.
#[derive(Debug)]
struct Handler {
    call: HandlerCall,
    /// Requests that it waits for.
    requests: BTreeSet<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Host {
    last_charge: u64,
    charges: BTreeSet<u64>,
    slots: BTreeSet<u64>,
    handlers: BTreeMap<u64, Handler>,
    /// The highest number that the session gave a handler.
    last_number: u64,
    last_request: u64,
    /// Requests of handlers, and whether a cancelled handler made them.
    requests: BTreeMap<u64, bool>,
    /// Requests of cancelled handlers that the session is to hear of.
    dropped_requests: Vec<u64>,
    /// Functions of the script that handlers hold.
    held: Vec<FnRef>,
    last_function: u64,
    /// Functions that handlers exported and that the session has not released.
    functions: BTreeSet<u64>,
    last_version: u64,
    /// Requests for forks that are not answered.
    pub(super) forks: Vec<u64>,
    pub(super) ended: Option<Closing>,
}

impl Host {
    /// That of a fork, which holds some functions of handlers and has nothing else open.
    pub(super) fn fork(&self, is_held: impl Fn(u64) -> bool) -> Self {
        Self {
            last_charge: self.last_charge,
            last_number: self.last_number,
            last_request: self.last_request,
            last_function: self.last_function,
            functions: self.functions.iter().copied().filter(|number| is_held(*number)).collect(),
            last_version: self.last_version,
            ..Self::default()
        }
    }

    /// Charges a message.
    pub(super) fn charge(&mut self, has_slot: bool) -> u64 {
        self.last_charge += 1;
        self.charges.insert(self.last_charge);
        if has_slot {
            self.slots.insert(self.last_charge);
        }
        self.last_charge
    }

    /// Numbers of the session are never used twice.
    pub(super) fn note_number(&mut self, number: u64) {
        assert!(number > self.last_number, "the number {number} was used before");
        self.last_number = number;
    }

    /// A handler begins to work.
    pub(super) fn begin(&mut self, call: HandlerCall) {
        self.note_number(call.number);
        if let HandlerInput::Value { functions, .. } = &call.input {
            self.held.extend(functions.iter().cloned());
        }
        if let HandlerTarget::Function(number) = call.target {
            assert!(self.functions.contains(&number), "the function {number} was released");
        }
        self.handlers.insert(call.number, Handler { call, requests: BTreeSet::new() });
    }

    /// Books a message of the session. What is for clients is booked elsewhere.
    pub(super) fn receive(&mut self, message: FromSession) {
        match message {
            FromSession::CallHandler(call) => self.begin(call),
            FromSession::CancelHandler { number } => {
                let handler = self.handlers.remove(&number).expect("a handler at work is cancelled");
                for request in handler.requests {
                    self.requests.insert(request, true);
                    self.dropped_requests.push(request);
                }
            }
            FromSession::HandlerAnswered { request, .. } => {
                assert!(self.requests.remove(&request).is_some(), "the request {request} is answered twice");
                self.handlers.values_mut().for_each(|handler| {
                    handler.requests.remove(&request);
                });
            }
            FromSession::ReleaseFunctions(numbers) => {
                for number in numbers {
                    assert!(self.functions.remove(&number), "the function {number} is released twice");
                }
            }
            FromSession::Discharge { charge, is_open: false } => {
                assert!(self.charges.remove(&charge), "the charge {charge} is discharged twice");
            }
            FromSession::Discharge { charge, is_open: true } => {
                assert!(self.charges.contains(&charge), "the text of {charge} is dropped too late");
            }
            FromSession::Dequeued { charge } => {
                assert!(self.slots.remove(&charge), "the place of {charge} is free twice");
            }
            FromSession::Attached { .. }
            | FromSession::Client { .. }
            | FromSession::Suspended { .. }
            | FromSession::Ended { .. } => unreachable!("for clients"),
            FromSession::Used { .. } | FromSession::Observed(_) | FromSession::Info { .. } => {}
        }
    }

    /// Nothing is open any more: every charge is discharged, every handler and request is over.
    pub(super) fn check_balance(&self) {
        assert!(self.charges.is_empty(), "not discharged: {:?}", self.charges);
        assert!(self.slots.is_empty(), "places not free: {:?}", self.slots);
        assert!(self.handlers.is_empty(), "handlers at work: {:?}", self.handlers.keys());
        let open: Vec<_> = self.requests.iter().filter(|(_, is_cancelled)| !**is_cancelled).collect();
        assert!(open.is_empty(), "requests not answered: {open:?}");
    }

    /// The server's bindings at their latest version.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        // The third one takes a name that clients declare.
        let more = ["fresh", "kv.set", "tool"][usize::try_from(self.last_version % 3).unwrap_or_default()];
        let names: &[&str] =
            if self.last_version == 0 { &["echo", "kv.get"] } else { &["echo", "kv.get", more] };
        catalog(self.last_version + 1, names)
    }

    fn new_function(&mut self) -> Value {
        self.last_function += 1;
        self.functions.insert(self.last_function);
        json!({"$fn": FnRef::Handler(self.last_function).to_string()})
    }
}

impl World {
    /// What the quotas say of a message.
    pub(super) fn admission(&mut self, is_eval: bool) -> Admission {
        let mut exceeded = |resource| {
            let retry_after = Duration::from_millis(self.rng.u64(1..500));
            (self.rng.u8(..40) == 0).then_some(QuotaExceeded { resource, retry_after })
        };
        let (cpu, queue) = (exceeded(Resource::Cpu), exceeded(Resource::QueuedEvals));
        Admission { cpu, queue, has_slot: is_eval && self.rng.bool() }
    }

    /// Something that a host does.
    pub(super) fn act_as_host(&mut self) {
        if let Some(request) = self.host.dropped_requests.pop() {
            return self.send(ToSession::HandlerCancel { request });
        }
        if self.rng.bool() && self.answer_fork() {
            return;
        }
        if self.has_busy_handlers && self.rng.bool() {
            return self.invoke_for_handler();
        }
        match self.rng.u8(..32) {
            0..=11 => {
                if let Some(number) = self.any_handler() {
                    self.finish_handler(number);
                }
            }
            12..=18 => self.invoke_for_handler(),
            19..=20 => self.cancel_request(),
            21..=22 => self.release_for_handler(),
            23..=24 => self.change_catalog(),
            25 => self.report_quota(),
            26..=27 => {
                self.send(ToSession::Inspect { request: 1 });
            }
            28..=29 => {
                // The answer of a handler that was cancelled, or never existed.
                let number = self.rng.u64(1..=self.host.last_number + 1);
                if !self.host.handlers.contains_key(&number) {
                    self.send(ToSession::HandlerDone { number, outcome: Ok(Value::Null) });
                }
            }
            _ => {
                let function = FnRef::Script(self.rng.u64(..20));
                self.invoke(InvokeTarget::Function(function), None);
            }
        }
    }

    fn any_handler(&mut self) -> Option<u64> {
        let numbers: Vec<u64> = self.host.handlers.keys().copied().collect();
        self.rng.choice(numbers)
    }

    /// A handler is done; its requests are withdrawn.
    fn finish_handler(&mut self, number: u64) {
        let Some(handler) = self.host.handlers.remove(&number) else { return };
        for request in handler.requests {
            self.withdraw(request);
        }
        let outcome = match self.rng.u8(..6) {
            0 => Err(ErrorObject::new(Kind::BindingError, "failed")),
            1 | 2 => Ok(self.host.new_function()),
            _ => Ok(json!({"done": number})),
        };
        self.send(ToSession::HandlerDone { number, outcome });
    }

    fn withdraw(&mut self, request: u64) {
        self.host.requests.insert(request, true);
        self.send(ToSession::HandlerCancel { request });
    }

    fn invoke_for_handler(&mut self) {
        let Some(number) = self.any_handler() else { return };
        let Some(handler) = self.host.handlers.get(&number) else { return };
        let depth = handler.call.depth + 1;
        let script_call = handler.call.script_call;
        let function = self.rng.choice(self.host.held.clone());
        let target = match (self.rng.u8(..8), function) {
            (0 | 6 | 7, _) => InvokeTarget::Binding("kv.get".to_owned()),
            (1, _) => InvokeTarget::Binding("approve".to_owned()),
            (2, _) | (_, None) => InvokeTarget::Binding("tool".to_owned()),
            (_, Some(function)) => InvokeTarget::Function(function),
        };
        self.invoke_at(target, script_call, depth, Some(number));
    }

    fn invoke(&mut self, target: InvokeTarget, script_call: Option<u64>) {
        self.invoke_at(target, script_call, 1, None);
    }

    fn invoke_at(
        &mut self,
        target: InvokeTarget,
        script_call: Option<u64>,
        depth: u32,
        handler: Option<u64>,
    ) {
        self.host.last_request += 1;
        let request = self.host.last_request;
        self.host.requests.insert(request, false);
        if let Some(handler) = handler.and_then(|number| self.host.handlers.get_mut(&number)) {
            handler.requests.insert(request);
        }
        let payload = Payload::Input(json!(1));
        self.send(ToSession::HandlerInvoke { request, target, payload, depth, script_call });
    }

    fn cancel_request(&mut self) {
        let open = self.host.requests.iter().filter(|(_, is_cancelled)| !**is_cancelled);
        let open: Vec<u64> = open.map(|(request, _)| *request).collect();
        if let Some(request) = self.rng.choice(open) {
            self.host.handlers.values_mut().for_each(|handler| {
                handler.requests.remove(&request);
            });
            self.withdraw(request);
        }
    }

    /// A handler drops a function that it held.
    pub(super) fn release_for_handler(&mut self) {
        if self.host.held.is_empty() {
            return;
        }
        let at = self.rng.usize(..self.host.held.len());
        let function = self.host.held.swap_remove(at);
        self.send(ToSession::HandlerRelease { function, count: 1 });
    }

    fn change_catalog(&mut self) {
        self.host.last_version += 1;
        let catalog = self.host.catalog();
        self.send(ToSession::Catalog(catalog));
    }

    fn report_quota(&mut self) {
        let retry_after = Duration::from_millis(self.rng.u64(1..2_000));
        let exceeded = QuotaExceeded { resource: Resource::Cpu, retry_after };
        let is_overdrawn = self.rng.bool();
        self.send(ToSession::CpuQuota { exceeded, is_overdrawn });
    }

    /// Lets every handler finish that waits for nothing; returns whether there was one.
    pub(super) fn finish_handlers(&mut self) -> bool {
        let idle = self.host.handlers.iter().filter(|(_, handler)| handler.requests.is_empty());
        let idle: Vec<u64> = idle.map(|(number, _)| *number).collect();
        idle.iter().for_each(|number| self.finish_handler(*number));
        self.answer_fork() || !idle.is_empty()
    }
}
