//! From the request of an eval to its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::boundary::{Admission, FromSession, Observation};
use super::fence::without_fence;
use super::report;
use super::state::StoppedEval;
use super::tables::{
    ConsoleLine, EvalSource, KeyedEval, OutboxItem, QueuedEval, RunningEval, TooManyRefs, WallClock,
};
use super::{Answer, Callable, ChargedTo, Encoded, RefHolder, Requester, Session, Turn, Work};
use crate::protocol::client_messages::ToClient;
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::protocol::methods::EvalParams;
use crate::rpc::{ErrorObject, Id, Kind};

/// `result` of an eval.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EvalResult<'a> {
    value: &'a Encoded,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    console: &'a [ConsoleLine],
    #[serde(skip_serializing_if = "is_zero")]
    console_dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Session {
    /// The client wants code to run.
    pub(super) fn accept_eval(&mut self, requester: Requester, params: EvalParams, admission: Admission) {
        let Some(requester) = self.find_keyed(requester, &params, admission.has_slot) else { return };
        match self.check_eval(&admission) {
            Ok(()) => {
                let has_slot = admission.has_slot;
                self.state.evals.push(QueuedEval { requesters: vec![requester], params, has_slot });
            }
            Err(refusal) => {
                if let Some(key) = &params.key {
                    self.state.keys.forget(key);
                }
                self.dequeue(requester.charge, admission.has_slot);
                self.answer(requester, Err(refusal));
            }
        }
    }

    /// Answers a keyed eval from its outcome, or joins it to its run; returns the requester of one that is to run.
    fn find_keyed(&mut self, requester: Requester, params: &EvalParams, has_slot: bool) -> Option<Requester> {
        let Some(key) = &params.key else { return Some(requester) };
        let answer = match self.state.keys.find_or_claim(key, &params.code) {
            KeyedEval::New => return Some(requester),
            KeyedEval::Pending => match self.state.requesters_of(key) {
                None => return Some(requester),
                Some(requesters) => {
                    let charge = requester.charge;
                    requesters.push(requester);
                    self.dequeue(charge, has_slot);
                    // Its code is that of the eval that it joins, and is dropped.
                    if charge > 0 {
                        self.send(FromSession::Discharge { charge, is_open: true });
                    }
                    return None;
                }
            },
            KeyedEval::Outcome(answer) => answer,
            KeyedEval::WithFunctions(result, functions) if self.is_connected(&requester) => {
                self.renew_functions(&result, functions)
            }
            // A connection that reads too slowly gets no answer, and no functions.
            KeyedEval::WithFunctions(result, _) => Ok(result),
        };
        self.dequeue(requester.charge, has_slot);
        // Lines that its eval printed may still wait for the client.
        self.answer_in_order(requester, answer);
        None
    }

    /// Whether there is room in the queue, within the session's limits and its principal's quotas.
    fn check_eval(&mut self, admission: &Admission) -> Result<(), ErrorObject> {
        if let Err(full) = self.state.evals.check_room() {
            self.observe_refusal("queue-full");
            return Err(full);
        }
        let queue = admission.queue.as_ref().filter(|_| self.state.evals.is_busy());
        if let Some(exceeded) = admission.cpu.as_ref().or(queue) {
            self.observe_refusal(exceeded.resource.name());
            return Err(exceeded.clone().into());
        }
        Ok(())
    }

    /// Takes the next eval from the queue.
    pub(super) fn start_next_eval(&mut self) -> Option<Turn> {
        if self.state.client_calls.outbox.holds_lines() {
            // A client that does not answer would have the lines of all its evals kept here.
            return None;
        }
        let (number, QueuedEval { requesters, mut params, has_slot }) = self.state.evals.next(self.now)?;
        if has_slot && let Some(first) = requesters.first() {
            self.dequeue(first.charge, true);
        }
        let client_limit = params.timeout_ms.map(Duration::from_millis);
        let source = Arc::new(EvalSource {
            code: without_fence(std::mem::take(&mut params.code)),
            name: params.name.take().unwrap_or_else(|| format!("eval-{number}.js")),
            fresh: params.fresh,
        });
        self.state.evals.running = Some(RunningEval {
            number,
            requesters,
            source: Arc::clone(&source),
            params,
            started: self.now,
            clock: WallClock::start(self.now, self.limits.wall_max(), client_limit),
            cpu: Duration::ZERO,
            stop_requested: None,
            stopped_at: None,
        });
        Some(Turn { charged_to: ChargedTo::Eval(number), depth: 0, work: Work::Eval(source) })
    }

    /// The JSON-RPC id of the running eval.
    pub(crate) fn eval_id(&self) -> Option<Value> {
        let running = self.state.evals.running.as_ref()?;
        serde_json::to_value(&running.requesters.last()?.id).ok()
    }

    /// The running eval is over.
    pub(super) fn finish_eval(&mut self, outcome: Result<Encoded, ErrorObject>, exported: &[u64]) {
        let Some(running) = self.state.evals.running.take() else { return };
        self.state.evals.done += 1;
        self.observe(Observation::EvalFinished {
            number: running.number,
            error: outcome.as_ref().err().cloned(),
            took: self.now.saturating_since(running.started),
        });
        self.drop_promise(ChargedTo::Eval(running.number));
        match outcome {
            Err(error) if error.is(Kind::MemoryLimit) => {
                self.recover(Some(Box::new(StoppedEval { eval: running, error })));
            }
            outcome => self.answer_eval(running, &outcome, exported),
        }
    }

    /// Answers an eval that is over, after the lines that it printed.
    pub(super) fn answer_eval(
        &mut self,
        running: RunningEval,
        outcome: &Result<Encoded, ErrorObject>,
        exported: &[u64],
    ) {
        let (console, dropped) = self.state.console.take();
        let stats = running.params.stats.then(|| self.stats(&running));
        self.state.script_calls.close_account(ChargedTo::Eval(running.number));
        let answer = match outcome {
            Ok(value) => {
                let result = EvalResult { value, console: &console, console_dropped: dropped, stats };
                to_raw_value(&result).map_err(internal)
            }
            Err(error) => {
                let report = report::write(error, &running.source, &console);
                Err(with_console(error.clone().with("report", report), &console, dropped, stats))
            }
        };
        if let Some(key) = &running.params.key {
            self.store_keyed(key, &answer, exported);
        }
        if !running.requesters.iter().any(|requester| self.is_connected(requester)) {
            self.take_back_exports(RefHolder::Client, exported);
        }
        let mut requesters = running.requesters;
        if let Some(last) = requesters.pop() {
            for requester in requesters {
                self.answer_in_order(requester, answer.clone());
            }
            // It may be megabytes, and nearly always there is only one request for it.
            self.answer_in_order(last, answer);
        }
    }

    fn answer_in_order(&mut self, requester: Requester, answer: Answer) {
        let outbox = &mut self.state.client_calls.outbox;
        if outbox.holds_lines() {
            outbox.push(OutboxItem::Answer(requester, answer));
        } else {
            self.answer(requester, answer);
        }
    }

    /// Whether the connection of a request still holds the session, so that the answer is delivered.
    pub(super) fn is_connected(&self, requester: &Requester) -> bool {
        self.state.connection() == Some(requester.connection)
    }

    /// Answers a request, if its connection still holds the session.
    pub(super) fn answer(&mut self, requester: Requester, outcome: Answer) {
        let is_connected = self.is_connected(&requester);
        let Requester { id: request, charge, .. } = requester;
        if is_connected {
            self.send_event(ToClient::Answered { request, outcome });
        }
        self.discharge(charge);
    }

    /// Functions in a value that was not delivered are not held by its receiver.
    pub(super) fn take_back_exports(&mut self, holder: RefHolder, exported: &[u64]) {
        let references = &mut self.state.references;
        let freed = exported.iter().filter_map(|number| references.release(holder, *number, 1)).collect();
        self.free(freed);
    }

    fn stats(&self, running: &RunningEval) -> Value {
        let ms = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
        json!({
            "cpuMs": ms(running.cpu),
            "wallMs": ms(self.now.saturating_since(running.started)),
            "bindingCalls": self.state.script_calls.made_by(ChargedTo::Eval(running.number)),
            "memoryBytes": self.context.memory_bytes,
        })
    }

    /// Ends queued evals of which `is_meant` accepts a request; these are answered with `error`.
    pub(super) fn drop_queued(
        &mut self,
        is_meant: impl Fn(&Requester) -> bool,
        error: impl Fn() -> ErrorObject,
    ) -> Vec<Id> {
        let mut ids = Vec::new();
        for queued in self.state.evals.remove(is_meant) {
            let answer: Answer = Err(error());
            if let Some(key) = &queued.params.key {
                self.store_keyed(key, &answer, &[]);
            }
            if let Some(first) = queued.requesters.first() {
                self.dequeue(first.charge, queued.has_slot);
            }
            for requester in queued.requesters {
                ids.push(requester.id.clone());
                self.answer(requester, answer.clone());
            }
        }
        ids
    }

    /// Keeps the outcome of a keyed eval, and the functions in it.
    fn store_keyed(&mut self, key: &str, answer: &Answer, exported: &[u64]) {
        let mut functions = Vec::new();
        for number in exported {
            if let Some(callable) = self.state.references.exported(RefHolder::Client, *number).cloned() {
                self.state.references.retain(&callable);
                functions.push((*number, callable));
            }
        }
        let released = self.state.keys.store(key, answer, functions);
        self.release_callables(&released);
    }

    pub(super) fn release_callables(&mut self, callables: &[Callable]) {
        let references = &mut self.state.references;
        let freed = callables.iter().filter_map(|callable| references.release_use(callable)).collect();
        self.free(freed);
    }

    /// The stored result for a new connection: the functions in it are exported anew.
    fn renew_functions(&mut self, result: &RawValue, functions: Vec<(u64, Callable)>) -> Answer {
        let mut renewed = BTreeMap::new();
        for (number, callable) in functions {
            match self.state.references.export(RefHolder::Client, &callable) {
                Ok(new) => renewed.insert(FnRef::Script(number).to_string(), new),
                Err(TooManyRefs) => {
                    let exported: Vec<u64> = renewed.into_values().collect();
                    self.take_back_exports(RefHolder::Client, &exported);
                    let message = "too many live function references";
                    return Err(ErrorObject::new(Kind::TooManyRefs, message));
                }
            };
        }
        let mut value: Value = serde_json::from_str(result.get()).map_err(internal)?;
        fn_values::rename(&mut value, |id| Some(FnRef::Script(*renewed.get(id)?).to_string()));
        to_raw_value(&value).map_err(internal)
    }

    /// Whether an eval waits for a promise that nothing can settle; such an eval is ended.
    pub(crate) fn end_deadlocked_eval(&mut self) -> bool {
        let state = &self.state;
        let is_stuck = state.evals.running.is_some()
            && !self.context.has_jobs
            && state.script_calls.is_empty()
            && state.timers.is_empty()
            && state.references.has_no_exports()
            && state.invocations.is_empty();
        if is_stuck {
            let message = "the script waits for a promise that nothing can settle";
            let error = self.with_place(ErrorObject::new(Kind::Deadlock, message));
            self.finish_eval(Err(error), &[]);
        }
        is_stuck
    }

    /// Sends console lines to a client that wants them as they come.
    pub(super) fn stream_console(&mut self) {
        let lines = self.state.console.take_unsent();
        if lines.is_empty() {
            return;
        }
        let eval_id = self.eval_id().unwrap_or_default();
        for line in lines {
            let mut input = json!(line);
            input["evalId"] = eval_id.clone();
            self.state.client_calls.outbox.push(OutboxItem::Line(input));
        }
        self.send_held();
    }
}

pub(super) fn internal(error: serde_json::Error) -> ErrorObject {
    ErrorObject::new(Kind::Internal, error.to_string())
}

fn with_console(
    error: ErrorObject,
    console: &[ConsoleLine],
    dropped: u64,
    stats: Option<Value>,
) -> ErrorObject {
    let mut error = error;
    if !console.is_empty() {
        error = error.with("console", json!(console));
    }
    if dropped > 0 {
        error = error.with("consoleDropped", dropped);
    }
    match stats {
        Some(stats) => error.with("stats", stats),
        None => error,
    }
}
