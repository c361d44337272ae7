//! Checkpoints: the client marks a moment and takes the session back to it.
//!
//! Both only at rest: no eval runs or waits, and no function of the script is at work. What the outside has of the
//! session stays as it is: the connection, the outcomes of keyed evals, the numbers of references. What belongs to the heap
//! goes back with it: functions that were sent since are unknown, calls that were in flight are rejected.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::state::Recovery;
use super::tables::{Checkpoint, ContextState, Freed};
use super::{ChargedTo, Effect, InvokedBy, Session};
use crate::rpc::{ErrorObject, Kind};

/// A request that came while JavaScript of no eval was on the stack, such as a timer's: it is served when that is over.
/// There are as many as a client may have requests open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WaitingRequest {
    Checkpoint(InvokedBy, Option<String>),
    Rewind(InvokedBy, u64),
    Fork(InvokedBy, Option<u64>),
}

impl Session {
    /// Serves the requests that waited for an empty JavaScript stack.
    pub(super) fn serve_waiting_requests(&mut self) {
        for request in std::mem::take(&mut self.state.waiting_requests) {
            match request {
                WaitingRequest::Checkpoint(by, label) => self.request_checkpoint(by, label),
                WaitingRequest::Rewind(by, number) => self.request_rewind(by, number),
                WaitingRequest::Fork(by, checkpoint) => self.request_fork(by, checkpoint),
            }
        }
    }

    /// The session ends.
    pub(super) fn refuse_waiting_requests(&mut self) {
        for request in std::mem::take(&mut self.state.waiting_requests) {
            let (WaitingRequest::Checkpoint(by, _)
            | WaitingRequest::Rewind(by, _)
            | WaitingRequest::Fork(by, _)) = request;
            self.reply(by, Err(ErrorObject::new(Kind::SessionClosed, "the session was closed")));
        }
    }

    /// The client asks for a checkpoint.
    pub(super) fn request_checkpoint(&mut self, by: InvokedBy, label: Option<String>) {
        if self.state.in_turn == Some(ChargedTo::Background) {
            return self.state.waiting_requests.push(WaitingRequest::Checkpoint(by, label));
        }
        if let Err(error) = self.check_at_rest() {
            return self.reply(by, Err(error));
        }
        self.checkpointing = Some((by, label));
        let number = self.state.checkpoints.next_number();
        self.effects.push(Effect::TakeCheckpoint { number });
    }

    /// The heap was written, with so many bytes, or could not be.
    pub(super) fn finish_checkpoint(&mut self, outcome: Result<u64, ErrorObject>) {
        let Some((by, label)) = self.checkpointing.take() else { return };
        let outcome = outcome.map(|bytes| {
            let number = self.state.checkpoints.next_number();
            let checkpoint = Checkpoint { label, at: self.now, bytes, context: self.context_state() };
            if let Some(oldest) = self.state.checkpoints.add(checkpoint) {
                self.effects.push(Effect::DropCheckpoints(vec![oldest]));
            }
            json!({"checkpoint": number})
        });
        self.reply(by, outcome);
    }

    /// The checkpoints of the session, oldest first.
    pub(super) fn list_checkpoints(&self) -> Value {
        let describe = |(number, checkpoint): (u64, &Checkpoint)| {
            let age = self.now.saturating_since(checkpoint.at).as_millis();
            let age_ms = u64::try_from(age).unwrap_or(u64::MAX);
            let mut described = json!({"checkpoint": number, "bytes": checkpoint.bytes, "ageMs": age_ms});
            if let Some(label) = &checkpoint.label {
                described["label"] = json!(label);
            }
            described
        };
        self.state.checkpoints.iter().map(describe).collect()
    }

    /// The client asks to go back to a checkpoint.
    pub(super) fn request_rewind(&mut self, by: InvokedBy, number: u64) {
        if self.state.in_turn == Some(ChargedTo::Background) {
            return self.state.waiting_requests.push(WaitingRequest::Rewind(by, number));
        }
        if let Err(error) = self.check_checkpoint(number).and_then(|()| self.check_at_rest()) {
            return self.reply(by, Err(error));
        }
        self.rewinding = Some((by, number));
        self.effects.push(Effect::Rewind { number });
    }

    /// The heap is that of the checkpoint, or could not be brought back.
    pub(super) fn finish_rewind(&mut self, outcome: Result<(), ErrorObject>) {
        let Some((by, number)) = self.rewinding.take() else { return };
        let context = self.state.checkpoints.get(number).map(|checkpoint| checkpoint.context.clone());
        let outcome = outcome.and_then(|()| context.ok_or_else(|| unknown(number))).map(|context| {
            self.adopt(context, &|| ErrorObject::new(Kind::Cancelled, "the session was rewound"));
            let dropped = self.state.checkpoints.drop_after(number);
            self.effects.push(Effect::DropCheckpoints(dropped));
            json!({"checkpoint": number})
        });
        self.reply(by, outcome);
    }

    pub(super) fn check_checkpoint(&self, number: u64) -> Result<(), ErrorObject> {
        self.state.checkpoints.get(number).map(drop).ok_or_else(|| unknown(number))
    }

    pub(super) fn check_at_rest(&self) -> Result<(), ErrorObject> {
        let state = &self.state;
        let is_at_rest = state.in_turn.is_none()
            && !state.evals.is_busy()
            && state.invocations.is_empty()
            && matches!(state.recovery, Recovery::Idle);
        if is_at_rest {
            return Ok(());
        }
        Err(ErrorObject::new(
            Kind::Busy,
            "the session is at work: checkpoints and forks need one that is idle",
        ))
    }

    fn context_state(&self) -> ContextState {
        let state = &self.state;
        ContextState {
            exports: state.references.script_exports(),
            roots: state.references.roots(),
            imports: state.references.imported(),
            calls: state.script_calls.iter().map(|(number, call)| (number, call.clone())).collect(),
            rejections: state.rejections.clone(),
            timers: state.timers.clone(),
            has_shadows: state.has_shadows,
        }
    }

    /// Goes on with the heap of a checkpoint. What is held of the present one is gone with it, and calls that were in flight
    /// then are rejected.
    pub(super) fn adopt(&mut self, context: ContextState, error: &dyn Fn() -> ErrorObject) {
        self.abandon_script_calls();
        self.send_dropped_imports();
        self.drop_turns();
        self.state.promises.clear();
        self.state.pending.clear();
        self.adopt_references(&context);
        self.state.rejections = context.rejections;
        self.state.timers = context.timers;
        self.state.has_shadows = context.has_shadows;
        self.state.script_calls.clear();
        for (number, call) in context.calls {
            // Its payload went out long ago.
            self.wait_without_payload(number, call);
            self.reject_call(number, error());
        }
        self.send_held();
        self.introduce_client();
    }

    fn adopt_references(&mut self, context: &ContextState) {
        let kept = self.state.keys.drop_functions();
        let references = &mut self.state.references;
        let mut freed: Vec<Freed> =
            kept.iter().filter_map(|callable| references.release_use(callable)).collect();
        freed.extend(references.rewind(&context.exports));
        let since: Vec<_> = references.imported().difference(&context.imports).cloned().collect();
        // Roots of the heap that is gone; those of the other that nothing stands for any more are freed in it.
        freed.retain(|freed| matches!(freed, Freed::Handler(_)));
        let held = references.roots();
        let roots: Vec<_> = context.roots.difference(&held).copied().collect();
        self.free(freed);
        if !roots.is_empty() {
            self.effects.push(Effect::FreeRoots(roots));
        }
        self.state.dropped_imports.extend(since);
        self.send_dropped_imports();
    }
}

fn unknown(number: u64) -> ErrorObject {
    ErrorObject::new(Kind::UnknownCheckpoint, format!("no checkpoint {number}"))
}
