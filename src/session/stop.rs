//! Ending evals and invocations for a reason of the session's own.

use super::tables::HandlerWork;
use super::{ChargedTo, Effect, RootId, Session, Settled, Stop, Time};
use crate::rpc::{ErrorObject, Kind};

/// The message for a heap that could not be read back.
const LOST: &str = "the session's heap could not be read back; it started over with a fresh context";

impl Session {
    /// Ends the running eval. Only with an empty JavaScript stack.
    pub(super) fn stop_eval(&mut self, reason: Stop) {
        let Some(running) = &self.state.evals.running else { return };
        let charged_to = ChargedTo::Eval(running.number);
        let message = match reason {
            Stop::Cpu => format!("the script used more than {} ms of CPU time", self.limits.cpu_ms_max),
            Stop::Memory => {
                let (whose, max) = match self.context.refused_by_total {
                    Some(total) => ("all sessions", total),
                    None => ("the session", self.limits.memory_bytes_max),
                };
                format!("InternalError: out of memory: {whose} used more than {max} bytes")
            }
            Stop::Quota => "the CPU quota is overdrawn".to_owned(),
            Stop::Wall => {
                let max = running.clock.exceeded(self.now);
                format!("the script took longer than {} ms", max.as_millis())
            }
            Stop::Cancelled => "the eval was cancelled".to_owned(),
            Stop::Closed => "the session was closed".to_owned(),
            Stop::Internal => "internal error".to_owned(),
            Stop::Lost => LOST.to_owned(),
        };
        let error = self.with_place(self.stop_error(reason, message));
        self.abandon_calls_of(charged_to);
        // What it left rejected ended with it.
        self.drop_rejections();
        self.finish_eval(Err(error), &[]);
    }

    /// The error of the running eval with the place where it was: that of its last turn if it was ended in it, that of
    /// the oldest call it waits for, or that of its only `await`.
    pub(super) fn with_place(&self, error: ErrorObject) -> ErrorObject {
        let Some(running) = &self.state.evals.running else { return error };
        if let Some(stack) = &running.stopped_at {
            return error.with("stack", stack.as_str());
        }
        let calls = self.state.script_calls.iter().map(|(_, call)| call.stack.as_str());
        if let Some(stack) =
            calls.map(|stack| self.state.source_maps.map(stack)).find(|stack| !stack.is_empty())
        {
            return error.with("stack", stack);
        }
        let source = &running.source;
        match self.find_awaits.map(|find| find(&source.code)).unwrap_or_default().as_slice() {
            [] => error,
            [(line, column)] => error.with("stack", format!("    at {}:{line}:{column}", source.name)),
            [(line, _), .., (last, _)] => {
                let message = format!("{}: at an await between lines {line} and {last}", error.message);
                ErrorObject { message, ..error }
            }
        }
    }

    fn drop_rejections(&mut self) {
        let rejections = std::mem::take(&mut self.state.rejections);
        let roots: Vec<RootId> = rejections.iter().flat_map(|known| [known.promise, known.reason]).collect();
        if !roots.is_empty() {
            self.effects.push(Effect::FreeRoots(roots));
        }
    }

    /// Ends the running eval now, or as soon as the JavaScript stack is empty.
    pub(super) fn stop_eval_soon(&mut self, reason: Stop) {
        let Some(running) = &mut self.state.evals.running else { return };
        running.stop_requested = Some(reason);
        match self.state.in_turn {
            None => self.stop_eval(reason),
            Some(charged_to) if charged_to == ChargedTo::Eval(running.number) => {
                self.effects.push(Effect::StopTurn(reason));
            }
            Some(_) => {}
        }
    }

    /// Ends a call into the script.
    pub(super) fn stop_invocation(&mut self, number: u64, reason: Stop) {
        let charged_to = ChargedTo::Invocation(number);
        self.drop_promise(charged_to);
        self.abandon_calls_of(charged_to);
        let error = self.stop_error(reason, "the function was stopped");
        self.finish_invocation(number, Settled { charged_to, outcome: Err(error), exported: Vec::new() });
    }

    /// Ends an eval or a call into the script, if it is still at work. Only with an empty JavaScript stack.
    pub(super) fn stop_payer(&mut self, charged_to: ChargedTo, reason: Stop) {
        match self.current_payer(charged_to) {
            ChargedTo::Eval(_) => self.stop_eval(reason),
            ChargedTo::Invocation(number) => self.stop_invocation(number, reason),
            ChargedTo::Background => {}
        }
    }

    /// The error for what was stopped; one for the quota says when to come back.
    fn stop_error(&self, reason: Stop, message: impl Into<String>) -> ErrorObject {
        let error = ErrorObject::new(reason.kind(), message);
        if reason == Stop::Lost {
            return mark_lost(error);
        }
        match &self.state.cpu_quota {
            Some((exceeded, _)) if reason == Stop::Quota => {
                error.with("quota", exceeded.resource.name()).with("retryAfterMs", exceeded.retry_after_ms())
            }
            Some(_) | None => error,
        }
    }

    /// Ends everything at work or queued, and answers every request.
    pub(super) fn cancel_everything(&mut self, reason: Stop) {
        self.stop_eval(reason);
        let error = || ErrorObject::new(reason.kind(), "the session was closed");
        self.drop_queued(|_| true, error);
        self.cancel_work(reason, error);
    }

    /// Ends everything at work, and answers the requests for it; what is queued stays.
    pub(super) fn cancel_work(&mut self, reason: Stop, error: impl Fn() -> ErrorObject) {
        self.stop_eval(reason);
        for number in self.state.invocations.numbers() {
            self.stop_invocation(number, reason);
        }
        for number in self.state.handler_calls.for_invokes() {
            if let Some(HandlerWork::Invoke(by)) = self.cancel_handler_call(number) {
                self.reply(by, Err(error()));
            }
        }
        self.give_up_client_calls(error);
    }

    /// The heap cannot be read back: everything that depends on it ends, and the session starts over.
    pub(crate) fn lose_context(&mut self, now: Time) {
        self.now = now;
        self.state.in_turn = None;
        self.discharge_turn();
        // First, so that the client hears that it need not answer.
        self.abandon_script_calls();
        self.cancel_work(Stop::Lost, || mark_lost(ErrorObject::new(Kind::SessionLost, LOST)));
        self.replace_context();
        self.serve_waiting_requests();
    }

    /// Fails an eval or invocation whose turn could not begin.
    pub(crate) fn fail_turn(&mut self, message: &str) {
        let Some(charged_to) = self.state.in_turn.take() else { return };
        let error = ErrorObject::new(Kind::Busy, message);
        self.discharge_turn();
        match charged_to {
            ChargedTo::Eval(_) => self.finish_eval(Err(error), &[]),
            ChargedTo::Invocation(number) => {
                let settled = Settled { charged_to, outcome: Err(error), exported: Vec::new() };
                self.finish_invocation(number, settled);
            }
            // If it was to free memory, the next turn shows whether there is room.
            ChargedTo::Background => self.finish_recovery_turn(Some(true)),
        }
        self.serve_waiting_requests();
    }
}

fn mark_lost(error: ErrorObject) -> ErrorObject {
    error.with("sessionLost", true).with("reason", "image")
}
