//! The principal behind a request to a mount: the rules of policy and audit that hold for bindings hold there too.

use std::sync::Arc;
use std::time::Instant;

use crate::binding::{Decision, Principal};
use crate::observe::audit::{Audit, Event};

/// The principal behind a request, and the log that its actions go to. Cheap to clone.
///
/// A WebSocket endpoint gets it in [`IncomingConnection`](super::IncomingConnection); a plain HTTP route finds it in the request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    /// The principal of its token.
    pub principal: Arc<Principal>,
    /// Records calls.
    pub audit: Audit,
}

impl Requester {
    /// Decides whether the principal may do what `binding` does, and starts the record of it. A denial is recorded
    /// here. What needs approval is allowed, as for a client that calls the binding itself.
    pub(crate) fn permit(
        &self,
        binding: &'static str,
        effects: &[&str],
        session: &str,
    ) -> Result<PendingRecord, String> {
        let effects: Vec<String> = effects.iter().map(|effect| (*effect).to_owned()).collect();
        let decision = self.principal.policy.decide(binding, &effects);
        let record = PendingRecord {
            requester: self.clone(),
            session: session.to_owned(),
            binding,
            effects,
            started_at: Instant::now(),
        };
        match decision {
            Decision::Allow | Decision::Ask => Ok(record),
            Decision::Deny(why) => {
                record.write("deny", "PermissionDenied");
                Err(why)
            }
        }
    }
}

/// An action that was permitted and whose outcome is not known yet.
#[derive(Debug)]
pub(crate) struct PendingRecord {
    requester: Requester,
    session: String,
    binding: &'static str,
    effects: Vec<String>,
    started_at: Instant,
}

impl PendingRecord {
    /// Records the action; `outcome` is `ok` or the kind of the error.
    pub(crate) fn finish(self, outcome: &'static str) {
        self.write("allow", outcome);
    }

    fn write(self, decision: &'static str, outcome: &'static str) {
        let Self { requester, session, binding, effects, started_at } = self;
        let took = started_at.elapsed();
        requester.audit.record(|| Event::Call {
            principal: requester.principal.name.clone(),
            session,
            binding: binding.to_owned(),
            effects,
            decision,
            outcome,
            duration_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
        });
    }
}
