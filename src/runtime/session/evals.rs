//! The evals of a session: strictly one after the other, in the order received.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::engine::Source;
use super::super::guest::{ConsoleLine, Holder, Owner, function_number};
use super::super::meter::Stop;
use super::super::value::Encoded;
use super::clock::WallClock;
use super::keys::Found;
use super::turn::Action;
use super::{Ready, Session};
use crate::budget::Charge;
use crate::observe;
use crate::protocol::boundary::SessionEvent;
use crate::protocol::methods::EvalParams;
use crate::quota::EvalSlot;
use crate::rpc::{ErrorObject, Id, Kind};

/// A request of the connection of that number.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) connection: u64,
    pub(crate) id: Id,
    /// What the connection is charged for the request until it is answered, even if the connection is gone by then.
    pub(crate) charge: Charge,
}

/// An eval that waits for its turn.
struct Queued {
    requesters: Vec<Requester>,
    params: EvalParams,
    _slot: EvalSlot,
    _waiting: observe::QueuedEvalGauge,
}

/// The eval that runs.
pub(crate) struct Running {
    pub(crate) number: u64,
    /// Who gets the answer: more than one when a keyed eval was sent again meanwhile.
    pub(crate) requesters: Vec<Requester>,
    /// What runs; it may be a large part of a message, so it is not copied.
    pub(crate) source: Rc<Source>,
    /// How it was asked for, without the code and its name.
    pub(crate) params: EvalParams,
    pub(crate) started: Instant,
    pub(crate) clock: WallClock,
    pub(crate) cpu: Duration,
    /// Set when it is to end as soon as the JavaScript stack is empty.
    pub(crate) stop_requested: Option<Stop>,
}

/// The queue and what runs.
pub(crate) struct Evals {
    queue: VecDeque<Queued>,
    pub(crate) running: Option<Running>,
    pub(crate) done: u64,
    next: u64,
    queued_max: usize,
}

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

/// The answer to an eval, ready for the wire.
pub(crate) type Answer = Result<Box<RawValue>, ErrorObject>;

impl Evals {
    /// Nothing runs, room for `queued_max` that wait.
    pub(crate) fn new(queued_max: usize) -> Self {
        Self { queue: VecDeque::new(), running: None, done: 0, next: 0, queued_max }
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    fn queued_bytes(&self) -> usize {
        self.queue.iter().map(|queued| queued.params.code.len()).sum()
    }
}

impl Session {
    /// The client wants code to run.
    pub(crate) async fn accept_eval(&mut self, mut requester: Requester, params: EvalParams) {
        if let Some(key) = params.key.clone() {
            match self.find_keyed(&key, &params) {
                Found::New => {}
                Found::Pending => {
                    let Some(free) = self.join_eval(&key, requester) else { return };
                    requester = free;
                }
                Found::Outcome(answer) => return self.answer(&requester, answer).await,
                Found::Again(result, functions) => {
                    let answer = self.renew_functions(&result, functions);
                    return self.answer(&requester, answer).await;
                }
            }
        }
        match self.room_for_eval() {
            Ok(slot) => self.evals.queue.push_back(Queued {
                requesters: vec![requester],
                params,
                _slot: slot,
                _waiting: observe::QueuedEvalGauge::new(),
            }),
            Err(refusal) => {
                if let Some(key) = &params.key {
                    self.keys.forget(key);
                }
                self.answer(&requester, Err(refusal)).await;
            }
        }
    }

    /// A place in the queue, within the session's limit and its principal's quotas.
    fn room_for_eval(&self) -> Result<EvalSlot, ErrorObject> {
        if self.evals.queue.len() >= self.evals.queued_max {
            observe::refused("queue-full");
            let message = format!("{} evals are waiting already", self.evals.queued_max);
            return Err(ErrorObject::new(Kind::QueueFull, message));
        }
        // A connection's own budget comes first; this one bounds what several connections leave behind, one after another.
        let (bytes, max) =
            (self.evals.queued_bytes(), self.parts.limits.connection_bytes_max.saturating_mul(2));
        if bytes > max {
            observe::refused("queue-full");
            let message = format!("the evals that wait take more than {max} bytes");
            return Err(ErrorObject::new(Kind::QueueFull, message));
        }
        let account = &self.parts.scope.principal.account;
        let waits = self.evals.running.is_some() || !self.evals.queue.is_empty();
        let admitted = account.check_cpu(Instant::now).and_then(|()| match waits {
            true => account.queue_eval(),
            false => Ok(EvalSlot::default()),
        });
        admitted.map_err(|exceeded| {
            observe::refused(exceeded.resource.name());
            exceeded.into()
        })
    }

    /// A keyed eval that was sent again joins its run, wherever that is; gives the requester back if there is none.
    fn join_eval(&mut self, key: &str, mut requester: Requester) -> Option<Requester> {
        let is_it = |params: &EvalParams| params.key.as_deref() == Some(key);
        let running = self.evals.running.as_mut().filter(|running| is_it(&running.params));
        let queued = self.evals.queue.iter_mut().find(|queued| is_it(&queued.params));
        let requesters = match (running, queued) {
            (Some(running), _) => &mut running.requesters,
            (None, Some(queued)) => &mut queued.requesters,
            (None, None) => return Some(requester),
        };
        // Its code is that of the eval that it joins, and is dropped.
        requester.charge.release_text();
        requesters.push(requester);
        None
    }

    pub(crate) fn start_next_eval(&mut self) -> Option<Ready> {
        if self.outbox.holds_lines() {
            // Or a client that does not answer would have the lines of all its evals kept here.
            return None;
        }
        let Queued { requesters, mut params, .. } = self.evals.queue.pop_front()?;
        self.evals.next += 1;
        let number = self.evals.next;
        let now = Instant::now();
        let asked = params.timeout_ms.map(Duration::from_millis);
        let source = Rc::new(Source {
            code: std::mem::take(&mut params.code),
            name: params.name.take().unwrap_or_else(|| format!("eval-{number}.js")),
            fresh: params.fresh,
        });
        let guest = &self.engine.guest;
        guest.eval_started.set(now);
        let eval_id = requesters.last().and_then(|requester| serde_json::to_value(&requester.id).ok());
        self.dispatcher.eval_id.replace(eval_id);
        self.evals.running = Some(Running {
            number,
            requesters,
            source: Rc::clone(&source),
            params,
            started: now,
            clock: WallClock::start(now, self.parts.limits.wall_max(), asked),
            cpu: Duration::ZERO,
            stop_requested: None,
        });
        let owner = Owner::Eval(number);
        Some(Ready { owner, depth: 0, action: Action::Eval { owner, source } })
    }

    /// The running eval is over.
    pub(crate) async fn finish_eval(&mut self, outcome: Result<Encoded, ErrorObject>, handed: &[String]) {
        let Some(running) = self.evals.running.take() else {
            return;
        };
        self.evals.done += 1;
        observe::eval_finished(running.number, outcome.as_ref().err(), running.started.elapsed());
        self.dispatcher.eval_id.replace(None);
        self.watches.borrow_mut().retain(|watched| watched.owner != Owner::Eval(running.number));
        let outcome = match outcome {
            Err(error) if error.is(Kind::MemoryLimit) => Err(self.recover(&running, error).await),
            other => other,
        };
        let (console, dropped) = self.engine.guest.console.borrow_mut().take();
        let stats = running.params.stats.then(|| self.stats(&running));
        self.engine.guest.calls.borrow_mut().close_account(Owner::Eval(running.number));
        let answer = match &outcome {
            Ok(value) => {
                let result = EvalResult { value, console: &console, console_dropped: dropped, stats };
                to_raw_value(&result).map_err(|error| ErrorObject::new(Kind::Internal, error.to_string()))
            }
            Err(error) => Err(with_console(error.clone(), &console, dropped, stats)),
        };
        if let Some(key) = &running.params.key {
            self.store_keyed(key, &answer, handed);
        }
        let connection = self.live.as_ref().map(|live| live.number);
        if !running.requesters.iter().any(|requester| Some(requester.connection) == connection) {
            self.take_back_functions(handed);
        }
        let mut requesters = running.requesters;
        if let Some(last) = requesters.pop() {
            for requester in requesters {
                self.answer_in_order(requester, answer.clone()).await;
            }
            // It may be megabytes, and nearly always there is only one who waits for it.
            self.answer_in_order(last, answer).await;
        }
    }

    /// The value reached nobody, so nobody holds the functions in it.
    pub(crate) fn take_back_functions(&mut self, handed: &[String]) {
        let numbers = handed.iter().filter_map(|reference| function_number(reference));
        let mut functions = self.engine.guest.functions.borrow_mut();
        let gone: Vec<_> = numbers.filter_map(|id| functions.give_back(Holder::Client, id, 1)).collect();
        drop(functions);
        self.forget(gone);
    }

    fn stats(&self, running: &Running) -> Value {
        let ms = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
        json!({
            "cpuMs": ms(running.cpu),
            "wallMs": ms(running.started.elapsed()),
            "bindingCalls": self.engine.guest.calls.borrow().made_by(Owner::Eval(running.number)),
            "memoryBytes": self.engine.memory_bytes(),
        })
    }

    /// Ends the running eval for a reason of ours. Only with an empty JavaScript stack.
    pub(crate) async fn stop_eval(&mut self, reason: Stop) {
        let Some(running) = &self.evals.running else {
            return;
        };
        let owner = Owner::Eval(running.number);
        let message = match reason {
            Stop::Cpu => {
                let max = self.parts.limits.cpu_ms_max;
                format!("the script used more than {max} ms of CPU time")
            }
            Stop::Memory => {
                let (whose, max) = match self.engine.used().refused_by_total() {
                    Some(total) => ("all sessions", total),
                    None => ("the session", self.parts.limits.memory_bytes_max),
                };
                format!("InternalError: out of memory: {whose} used more than {max} bytes")
            }
            Stop::Quota => "the CPU quota is overdrawn".to_owned(),
            Stop::Wall => {
                let max = running.clock.exceeded(Instant::now());
                format!("the script took longer than {} ms", max.as_millis())
            }
            Stop::Cancelled => "the eval was cancelled".to_owned(),
            Stop::Closed => "the session was closed".to_owned(),
        };
        self.abandon_calls_of(owner).await;
        // What it left rejected went down with it.
        drop(self.engine.guest.rejections.take());
        let error = self.stop_error(reason, message);
        self.finish_eval(Err(error), &[]).await;
    }

    /// Ends the running eval now, or as soon as the JavaScript stack is empty.
    pub(crate) async fn stop_eval_soon(&mut self, reason: Stop) {
        let Some(running) = &mut self.evals.running else {
            return;
        };
        running.stop_requested = Some(reason);
        match self.in_turn {
            None => self.stop_eval(reason).await,
            Some(owner) if owner == Owner::Eval(running.number) => {
                self.engine.guest.meter.request_stop(reason)
            }
            Some(_) => {}
        }
    }

    /// The script waits, and there is nothing that could go on.
    pub(crate) async fn end_deadlocked_eval(&mut self) -> bool {
        let guest = &self.engine.guest;
        let stuck = self.evals.running.is_some()
            && !self.engine.has_jobs()
            && guest.calls.borrow().waiting() == 0
            && guest.timers.borrow().len() == 0
            && guest.functions.borrow().is_empty()
            && self.invocations.is_empty();
        if stuck {
            let message = "the script waits for a promise that nothing can settle";
            self.finish_eval(Err(ErrorObject::new(Kind::Deadlock, message)), &[]).await;
        }
        stuck
    }

    /// Answers a request, if its connection is still the one that holds the session.
    pub(crate) async fn answer(&mut self, requester: &Requester, outcome: Answer) {
        if self.live.as_ref().is_some_and(|live| live.number == requester.connection) {
            self.emit(SessionEvent::Answered { request: requester.id.clone(), outcome }).await;
        }
    }

    /// Ends a queued eval; its requester hears `error`.
    pub(crate) async fn drop_queued(
        &mut self,
        which: impl Fn(&Requester) -> bool,
        error: &ErrorObject,
    ) -> Vec<Id> {
        let (dropped, kept): (VecDeque<Queued>, VecDeque<Queued>) = std::mem::take(&mut self.evals.queue)
            .into_iter()
            .partition(|queued| queued.requesters.iter().any(&which));
        self.evals.queue = kept;
        let mut ids = Vec::new();
        for queued in dropped {
            let answer = Err(error.clone());
            if let Some(key) = &queued.params.key {
                self.store_keyed(key, &answer, &[]);
            }
            for requester in queued.requesters {
                self.answer(&requester, answer.clone()).await;
                ids.push(requester.id);
            }
        }
        ids
    }
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
