//! One call of a server binding, from the check of its input to the check of its output.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::{BindingError, Call, Decision, HandlerEntry, SessionScope};
use crate::catalog::CatalogEntry;
use crate::catalog::check::{Direction, check_value};
use crate::observe;
use crate::observe::audit::Event;
use crate::rpc::{ErrorObject, Kind};

/// Who calls a binding. Calls of scripts may need approval; a client need not approve its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallContext {
    /// A script or a handler on its behalf.
    Script,
    /// The client, directly.
    Client,
}

impl HandlerEntry {
    /// Runs one call to its end, and records it in the metrics and the audit log.
    pub async fn invoke(
        self: Arc<Self>,
        input: Value,
        call: Call,
        caller: CallContext,
    ) -> Result<Value, ErrorObject> {
        let started = Instant::now();
        let session = Arc::clone(&call.session);
        let policy = &session.principal.policy;
        let effects = self.effects_of(&input);
        let decision = match policy.decide(&self.entry.declaration.name, &effects) {
            // A client need not approve its own calls.
            Decision::Ask if caller == CallContext::Client => Decision::Allow,
            decision => decision,
        };
        let decided = decision.name();
        let outcome = self.perform(input, call, caller, decision, &effects).await;
        let name = observe::outcome_name(outcome.as_ref().err());
        self.record_call(&session, &effects, decided, name, started);
        outcome
    }

    /// The declared effects and those that this input adds. Few bindings add any, so the others copy nothing.
    fn effects_of(&self, input: &Value) -> Cow<'_, [String]> {
        let declared = &self.entry.declaration.effects;
        let added = self.handler.added_effects(input);
        if added.iter().all(|effect| declared.iter().any(|known| known == effect)) {
            return Cow::Borrowed(declared);
        }
        let missing = added.iter().filter(|effect| !declared.iter().any(|known| known == **effect));
        Cow::Owned(declared.iter().cloned().chain(missing.map(|effect| (*effect).to_owned())).collect())
    }

    fn record_call(
        &self,
        session: &SessionScope,
        effects: &[String],
        decision: &'static str,
        outcome: &'static str,
        started: Instant,
    ) {
        let took = started.elapsed();
        observe::record_binding_call(&self.entry.declaration.name, outcome, took);
        session.audit.record(|| Event::Call {
            principal: session.principal.name.clone(),
            session: session.id.clone(),
            binding: self.entry.declaration.name.clone(),
            effects: effects.to_vec(),
            decision,
            outcome,
            duration_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
        });
    }

    /// Policy, input, a free slot, the handler within its time, output.
    async fn perform(
        &self,
        input: Value,
        mut call: Call,
        caller: CallContext,
        decision: Decision,
        effects: &[String],
    ) -> Result<Value, ErrorObject> {
        let name = &self.entry.declaration.name;
        let session = Arc::clone(&call.session);
        // The first part of a script's call runs inside its turn, which is charged as a whole.
        let mut is_in_turn = caller == CallContext::Script && decision == Decision::Allow;
        self.permit(&input, &mut call, decision, effects).await?;
        check(Direction::Input, &self.entry, &input, &session, is_in_turn)?;
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(ErrorObject::new(Kind::Busy, format!("{name}: too many concurrent calls")));
        };
        let (output, has_waited) = self.run(input, call).await?;
        is_in_turn &= !has_waited;
        check(Direction::Output, &self.entry, &output, &session, is_in_turn)?;
        Ok(output)
    }

    /// Runs the handler. Returns its output, and whether it had to be waited for.
    async fn run(&self, input: Value, call: Call) -> Result<(Value, bool), ErrorObject> {
        let name = &self.entry.declaration.name;
        let started = Instant::now();
        let (deadline, cancel) = (call.deadline, call.cancel.clone());
        // Held here so that functions which the handler does not keep are released when it ends, not before.
        let functions = call.functions.clone();
        let mut work = AssertUnwindSafe(self.handler.call(input, call)).catch_unwind();
        let mut has_waited = true;
        let outcome = match futures_util::poll!(&mut work) {
            // Many handlers are ready immediately, and need neither a timer nor a wait for cancellation.
            Poll::Ready(outcome) => {
                has_waited = false;
                outcome
            }
            Poll::Pending => tokio::select! {
                biased;
                outcome = work => outcome,
                () = cancel.cancelled() => {
                    return Err(ErrorObject::new(Kind::Cancelled, format!("{name} was cancelled")));
                }
                () = tokio::time::sleep_until(deadline.into()) => {
                    let waited = started.elapsed().as_millis();
                    return Err(ErrorObject::new(Kind::Timeout, format!("{name} took longer than {waited} ms")));
                }
            },
        };
        drop(functions);
        match outcome {
            Ok(result) => result.map(|value| (value, has_waited)).map_err(BindingError::into_object),
            Err(_) => {
                tracing::error!(binding = %name, "the handler panicked");
                Err(ErrorObject::new(Kind::BindingError, format!("{name}: the handler failed")))
            }
        }
    }

    async fn permit(
        &self,
        input: &Value,
        call: &mut Call,
        decision: Decision,
        effects: &[String],
    ) -> Result<(), ErrorObject> {
        match decision {
            Decision::Allow => Ok(()),
            Decision::Deny(why) => Err(ErrorObject::new(Kind::PermissionDenied, why)),
            Decision::Ask => {
                let asked = Instant::now();
                self.ask(input, call, effects).await?;
                // The time that a person took to approve is not the handler's.
                call.deadline += asked.elapsed();
                Ok(())
            }
        }
    }

    async fn ask(&self, input: &Value, call: &Call, effects: &[String]) -> Result<(), ErrorObject> {
        let name = &self.entry.declaration.name;
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
}

/// Checks a value; outside of a turn of the script, the time is charged to the principal here.
fn check(
    direction: Direction,
    entry: &CatalogEntry,
    value: &Value,
    session: &SessionScope,
    is_in_turn: bool,
) -> Result<(), ErrorObject> {
    let schema = match direction {
        Direction::Input => entry.input.as_ref(),
        Direction::Output => entry.output.as_ref(),
    };
    if is_in_turn || schema.is_none() {
        return check_value(direction, entry.name(), schema, value);
    }
    let started = Instant::now();
    let checked = check_value(direction, entry.name(), schema, value);
    session.principal.account.charge_cpu(started.elapsed(), Instant::now);
    checked
}
