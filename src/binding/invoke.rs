//! One call of a server binding, from the check of its input to the check of its output.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::{Binding, BindingError, Call, Decision, SessionScope};
use crate::observe;
use crate::observe::audit::Event;
use crate::rpc::{ErrorObject, Kind};
use crate::schema::{CheckError, Schema};

/// Who calls a binding: approval is asked for scripts, not for the client's own hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallContext {
    /// A script or a handler on its behalf.
    Script,
    /// The client, directly.
    Client,
}

impl Binding {
    /// Runs one call to its end, and puts it down.
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
        let decision = match policy.decide(&self.declaration.name, &effects) {
            // What the client does with its own hand it need not approve.
            Decision::Ask if caller == CallContext::Client => Decision::Allow,
            decision => decision,
        };
        let decided = decision.name();
        let outcome = self.perform(input, call, caller, decision, &effects).await;
        let name = observe::outcome_name(outcome.as_ref().err());
        self.put_down(&session, &effects, decided, name, started);
        outcome
    }

    /// The declared effects, and those that this input adds. Few bindings add any, so nothing is copied for the rest.
    fn effects_of(&self, input: &Value) -> Cow<'_, [String]> {
        let declared = &self.declaration.effects;
        let added = self.handler.added_effects(input);
        if added.iter().all(|effect| declared.iter().any(|known| known == effect)) {
            return Cow::Borrowed(declared);
        }
        let missing = added.iter().filter(|effect| !declared.iter().any(|known| known == **effect));
        Cow::Owned(declared.iter().cloned().chain(missing.map(|effect| (*effect).to_owned())).collect())
    }

    fn put_down(
        &self,
        session: &SessionScope,
        effects: &[String],
        decision: &'static str,
        outcome: &'static str,
        started: Instant,
    ) {
        let took = started.elapsed();
        observe::binding_called(&self.declaration.name, outcome, took);
        session.audit.record(|| Event::Call {
            principal: session.principal.name.clone(),
            session: session.id.clone(),
            binding: self.declaration.name.clone(),
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
        let name = &self.declaration.name;
        let session = Arc::clone(&call.session);
        // The first part of a script's call runs inside its turn, which is charged as a whole.
        let mut is_in_turn = caller == CallContext::Script && decision == Decision::Allow;
        self.permit(&input, &mut call, decision, effects).await?;
        check(self.input.as_ref(), &input, &session, is_in_turn)
            .map_err(|error| invalid(Kind::InvalidInput, name, "input", &error))?;
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(ErrorObject::new(Kind::Busy, format!("{name}: too many calls at once")));
        };
        let (output, has_waited) = self.run(input, call).await?;
        is_in_turn &= !has_waited;
        check(self.output.as_ref(), &output, &session, is_in_turn)
            .map_err(|error| invalid(Kind::InvalidOutput, name, "output", &error))?;
        Ok(output)
    }

    /// What the handler returns, and whether it had to be waited for.
    async fn run(&self, input: Value, call: Call) -> Result<(Value, bool), ErrorObject> {
        let name = &self.declaration.name;
        let started = Instant::now();
        let (deadline, cancel) = (call.deadline, call.cancel.clone());
        // Kept here so that functions the handler does not keep are given back when it ends, not before.
        let functions = call.functions.clone();
        let mut work = AssertUnwindSafe(self.handler.call(input, call)).catch_unwind();
        let mut has_waited = true;
        let outcome = match futures_util::poll!(&mut work) {
            // Many have their answer at once, and need neither a timer nor somebody who listens.
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
        let name = &self.declaration.name;
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
    schema: Option<&Schema>,
    value: &Value,
    session: &SessionScope,
    is_in_turn: bool,
) -> Result<(), CheckError> {
    let Some(schema) = schema else {
        return Ok(());
    };
    if is_in_turn {
        return schema.check(value);
    }
    let started = Instant::now();
    let checked = schema.check(value);
    session.principal.account.charge_cpu(started.elapsed(), Instant::now);
    checked
}

/// The error for a value that breaks its schema, which is of that kind, or that is too costly to check; `place` is
/// `input` or `output`.
pub fn invalid(kind: Kind, name: &str, place: &str, error: &CheckError) -> ErrorObject {
    let failures = match error {
        CheckError::Invalid(failures) => failures,
        CheckError::TooCostly => {
            let message = format!("{name}: {place}: the value is too large to check against its schema");
            return ErrorObject::new(Kind::ValidationLimit, message);
        }
    };
    let first = failures.first().map(|failure| format!("{}: {}", failure.path, failure.message));
    let errors: Vec<Value> =
        failures.iter().map(|failure| json!({"path": failure.path, "message": failure.message})).collect();
    ErrorObject::new(kind, format!("{name}: {place}{}", first.unwrap_or_default())).with("errors", errors)
}
