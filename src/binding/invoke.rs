//! One call of a server binding, from the check of its input to the check of its output.
//!
//! Many handlers are ready immediately. Such a call is done without a task, a timer or a future of its own
//! ([`HandlerEntry::begin`]); what has to wait goes on as a future.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, CatchUnwind};
use serde_json::{Value, json};

use super::slots::CallSlot;
use super::{BindingError, Call, Decision, FunctionRef, HandlerEntry, HandlerFuture, SessionScope};
use crate::catalog::check::{Direction, check_input, check_value};
use crate::observe;
use crate::observe::audit::Event;
use crate::rpc::{ErrorObject, Kind};

/// Who calls a binding. Calls of scripts may need approval; a client need not approve its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallContext {
    /// A script or a handler on its behalf.
    Script,
    /// The client, directly.
    Client,
}

/// A call that has begun.
pub(crate) enum BegunCall {
    /// It is over.
    Done(Result<Value, ErrorObject>),
    /// It has to wait.
    Running(BoxFuture<'static, Result<Value, ErrorObject>>),
}

/// What is recorded of a call when it is over.
struct CallRecord {
    session: Arc<SessionScope>,
    started: Instant,
    decision: &'static str,
    /// The effects, where the input adds some to the declared ones.
    effects: Option<Vec<String>>,
}

/// A handler at work; a panic in it ends nothing else.
type Work = CatchUnwind<AssertUnwindSafe<HandlerFuture>>;

impl HandlerEntry {
    /// Runs one call to its end, and records it in the metrics and the audit log.
    pub(crate) async fn invoke(
        self: Arc<Self>,
        input: Value,
        call: Call,
        caller: CallContext,
    ) -> Result<Value, ErrorObject> {
        match self.begin(input, call, caller) {
            BegunCall::Done(outcome) => outcome,
            BegunCall::Running(running) => running.await,
        }
    }

    /// Begins a call: policy, the check of its input, and the handler as far as it gets without waiting.
    pub(crate) fn begin(self: Arc<Self>, input: Value, call: Call, caller: CallContext) -> BegunCall {
        let effects = self.extended_effects(&input);
        let declared = effects.as_deref().unwrap_or(&self.entry.declaration.effects);
        let decision = match call.session.principal.policy.decide(self.entry.name(), declared) {
            // A client need not approve its own calls.
            Decision::Ask if caller == CallContext::Client => Decision::Allow,
            decision => decision,
        };
        let record = CallRecord {
            session: Arc::clone(&call.session),
            started: Instant::now(),
            decision: decision.name(),
            effects,
        };
        match decision {
            // The first part of a script's call runs inside its turn, which is charged as a whole.
            Decision::Allow => self.start(input, call, record, caller == CallContext::Script),
            Decision::Deny(why) => {
                let denied = Err(ErrorObject::new(Kind::PermissionDenied, why));
                BegunCall::Done(self.finish(record, denied))
            }
            Decision::Ask => BegunCall::Running(Box::pin(self.start_if_approved(input, call, record))),
        }
    }

    /// Input, a free slot, the handler until it waits, output.
    fn start(
        self: Arc<Self>,
        mut input: Value,
        call: Call,
        record: CallRecord,
        is_in_turn: bool,
    ) -> BegunCall {
        let checked = self.timed(&record, is_in_turn || self.entry.input.is_none(), || {
            check_input(&self.entry.declaration, self.entry.input.as_ref(), &mut input)
        });
        let slot = match checked.and_then(|()| self.take_slot()) {
            Ok(slot) => slot,
            Err(error) => return BegunCall::Done(self.finish(record, Err(error))),
        };
        let (deadline, cancel) = (call.deadline, call.cancel.clone());
        // Held here so that functions which the handler does not keep are released when it ends, not before.
        let functions = call.functions.clone();
        let mut work: Work = AssertUnwindSafe(self.handler.call(input, call)).catch_unwind();
        match work.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => {
                drop((functions, slot));
                let outcome = self.read_outcome(outcome, &record, is_in_turn);
                BegunCall::Done(self.finish(record, outcome))
            }
            // The next poll brings a waker.
            Poll::Pending => BegunCall::Running(Box::pin(async move {
                let waited = tokio::select! {
                    biased;
                    outcome = work => Ok(outcome),
                    () = cancel.cancelled() => {
                        Err(ErrorObject::new(Kind::Cancelled, format!("{} was cancelled", self.entry.name())))
                    }
                    () = tokio::time::sleep_until(deadline.into()) => Err(self.timed_out(&record)),
                };
                drop::<(Vec<FunctionRef>, CallSlot)>((functions, slot));
                let outcome = waited.and_then(|outcome| self.read_outcome(outcome, &record, false));
                self.finish(record, outcome)
            })),
        }
    }

    /// Asks the client for approval, then goes on as any call does.
    async fn start_if_approved(
        self: Arc<Self>,
        input: Value,
        mut call: Call,
        record: CallRecord,
    ) -> Result<Value, ErrorObject> {
        let asked = Instant::now();
        if let Err(error) = self.ask(&input, &call, &record).await {
            return self.finish(record, Err(error));
        }
        // The time that a person took to approve is not the handler's.
        call.deadline += asked.elapsed();
        match self.start(input, call, record, false) {
            BegunCall::Done(outcome) => outcome,
            BegunCall::Running(running) => running.await,
        }
    }

    /// The declared effects with those that this input adds; `None` where it adds none, as with most bindings.
    fn extended_effects(&self, input: &Value) -> Option<Vec<String>> {
        let declared = &self.entry.declaration.effects;
        let is_declared = |effect: &str| declared.iter().any(|known| known == effect);
        let added = self.handler.added_effects(input);
        if added.iter().all(|effect| is_declared(effect)) {
            return None;
        }
        let missing = added.iter().filter(|effect| !is_declared(effect)).map(|effect| (*effect).to_owned());
        Some(declared.iter().cloned().chain(missing).collect())
    }

    fn take_slot(&self) -> Result<CallSlot, ErrorObject> {
        self.slots.try_take().ok_or_else(|| {
            let message = format!("{}: too many concurrent calls", self.entry.name());
            ErrorObject::new(Kind::Busy, message)
        })
    }

    fn read_outcome(
        &self,
        outcome: std::thread::Result<Result<Value, BindingError>>,
        record: &CallRecord,
        is_in_turn: bool,
    ) -> Result<Value, ErrorObject> {
        let name = self.entry.name();
        let Ok(result) = outcome else {
            tracing::error!(binding = %name, "the handler panicked");
            return Err(ErrorObject::new(Kind::BindingError, format!("{name}: the handler failed")));
        };
        let output = result.map_err(BindingError::into_object)?;
        let schema = self.entry.output.as_ref();
        self.timed(record, is_in_turn || schema.is_none(), || {
            check_value(Direction::Output, self.entry.name(), schema, &output)
        })?;
        Ok(output)
    }

    fn timed_out(&self, record: &CallRecord) -> ErrorObject {
        let waited = record.started.elapsed().as_millis();
        ErrorObject::new(Kind::Timeout, format!("{} took longer than {waited} ms", self.entry.name()))
    }

    /// Records a call that is over.
    fn finish(&self, record: CallRecord, outcome: Result<Value, ErrorObject>) -> Result<Value, ErrorObject> {
        let CallRecord { session, started, decision, effects } = record;
        let took = started.elapsed();
        let name = observe::outcome_name(outcome.as_ref().err());
        self.meter.record_call(self.entry.name(), name, took);
        session.audit.record(|| Event::Call {
            principal: session.principal.name.clone(),
            session: session.id.clone(),
            binding: self.entry.name().to_owned(),
            effects: effects.unwrap_or_else(|| self.entry.declaration.effects.clone()),
            decision,
            outcome: name,
            duration_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
        });
        outcome
    }

    async fn ask(&self, input: &Value, call: &Call, record: &CallRecord) -> Result<(), ErrorObject> {
        let name = self.entry.name();
        let effects = record.effects.as_deref().unwrap_or(&self.entry.declaration.effects);
        let question = json!({
            "binding": name, "input": input, "effects": effects, "evalId": call.eval_id,
        });
        let refused = |why: &str| Err(ErrorObject::new(Kind::PermissionDenied, format!("{name}: {why}")));
        match call.invoke("approve", question).await {
            Ok(answer) if answer.get("allow") == Some(&Value::Bool(true)) => Ok(()),
            Ok(answer) => refused(answer.get("reason").and_then(Value::as_str).unwrap_or("not approved")),
            Err(error) => refused(&format!("no approval: {}", error.into_object().message)),
        }
    }

    /// Runs a check of a value; outside of a turn of the script, the time is charged to the principal here.
    fn timed(
        &self,
        record: &CallRecord,
        is_charged: bool,
        check: impl FnOnce() -> Result<(), ErrorObject>,
    ) -> Result<(), ErrorObject> {
        if is_charged {
            return check();
        }
        let started = Instant::now();
        let checked = check();
        record.session.principal.account.charge_cpu(started.elapsed(), Instant::now);
        checked
    }
}
