//! One call of a server binding, from the check of its input to the check of its output.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::schema::{Failure, Schema};
use super::{Binding, BindingError, Call, Decision, SessionScope};
use crate::observe;
use crate::observe::audit::Event;
use crate::rpc::{ErrorObject, Kind};

/// Who calls a binding: approval is asked for scripts, not for the client's own hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
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
        caller: Caller,
    ) -> Result<Value, ErrorObject> {
        let started = Instant::now();
        let session = Arc::clone(&call.session);
        let policy = &session.principal.policy;
        let decision = match policy.decide(&self.declaration.name, &self.declaration.effects) {
            // What the client does with its own hand it need not approve.
            Decision::Ask if caller == Caller::Client => Decision::Allow,
            decision => decision,
        };
        let decided = decision.name();
        let outcome = self.perform(input, call, decision).await;
        self.put_down(&session, decided, observe::outcome_name(outcome.as_ref().err()), started);
        outcome
    }

    fn put_down(
        &self,
        session: &SessionScope,
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
            effects: self.declaration.effects.clone(),
            decision,
            outcome,
            duration_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
        });
    }

    /// Policy, input, a free slot, the handler within its time, output.
    async fn perform(&self, input: Value, mut call: Call, decision: Decision) -> Result<Value, ErrorObject> {
        let name = &self.declaration.name;
        match decision {
            Decision::Allow => {}
            Decision::Deny(why) => return Err(ErrorObject::new(Kind::PermissionDenied, why)),
            Decision::Ask => {
                let asked = Instant::now();
                self.ask(&input, &call).await?;
                // The time that a person took to approve is not the handler's.
                call.deadline += asked.elapsed();
            }
        }
        check(self.input.as_ref(), &input)
            .map_err(|failures| invalid(Kind::InvalidInput, name, "input", &failures))?;
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(ErrorObject::new(Kind::Busy, format!("{name}: too many calls at once")));
        };
        let output = self.run(input, call).await?;
        check(self.output.as_ref(), &output)
            .map_err(|failures| invalid(Kind::InvalidOutput, name, "output", &failures))?;
        Ok(output)
    }

    async fn run(&self, input: Value, call: Call) -> Result<Value, ErrorObject> {
        let name = &self.declaration.name;
        let started = Instant::now();
        let (deadline, cancel) = (call.deadline, call.cancel.clone());
        // Kept here so that functions the handler does not keep are given back when it ends, not before.
        let functions = call.functions.clone();
        let mut work = AssertUnwindSafe(self.handler.call(input, call)).catch_unwind();
        let outcome = match futures_util::poll!(&mut work) {
            // Many have their answer at once, and need neither a timer nor somebody who listens.
            Poll::Ready(outcome) => outcome,
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
            Ok(result) => result.map_err(BindingError::into_object),
            Err(_) => {
                tracing::error!(binding = %name, "the handler panicked");
                Err(ErrorObject::new(Kind::BindingError, format!("{name}: the handler failed")))
            }
        }
    }

    async fn ask(&self, input: &Value, call: &Call) -> Result<(), ErrorObject> {
        let name = &self.declaration.name;
        let question = json!({
            "binding": name, "input": input, "effects": self.declaration.effects, "evalId": call.eval_id,
        });
        let refused = |why: &str| Err(ErrorObject::new(Kind::PermissionDenied, format!("{name}: {why}")));
        match call.invoke("approve", question).await {
            Ok(answer) if answer.get("allow") == Some(&Value::Bool(true)) => Ok(()),
            Ok(answer) => refused(answer.get("reason").and_then(Value::as_str).unwrap_or("not approved")),
            Err(error) => refused(&format!("no approval: {}", error.into_object().message)),
        }
    }
}

fn check(schema: Option<&Schema>, value: &Value) -> Result<(), Vec<Failure>> {
    schema.map_or(Ok(()), |schema| schema.check(value))
}

/// The error for a value that breaks its schema; `place` is `input` or `output`.
pub fn invalid(kind: Kind, name: &str, place: &str, failures: &[Failure]) -> ErrorObject {
    let first = failures.first().map(|failure| format!("{}: {}", failure.path, failure.message));
    let errors: Vec<Value> =
        failures.iter().map(|failure| json!({"path": failure.path, "message": failure.message})).collect();
    ErrorObject::new(kind, format!("{name}: {place}{}", first.unwrap_or_default())).with("errors", errors)
}
