//! Turns of the model script: tasks begin, wait, go on and end in them, and the machine gets the reports.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::World;
use super::context::{Rooted, Task};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::rpc::{ErrorObject, Kind};
use crate::session::tables::{Rejection, ScriptCall};
use crate::session::{
    AwaitedPromise, BeginTurn, CallValue, ChargedTo, Encoded, Input, Positions, RefHolder, Settled,
    Settlement, Stop, TurnReport, ValueSource, Work,
};

/// A turn that has begun.
#[derive(Debug)]
pub(super) struct RunningTurn {
    pub(super) charged_to: ChargedTo,
    pub(super) cpu: Duration,
    budget: Duration,
    /// Tasks that go on in it.
    runnable: VecDeque<u64>,
    settled: Vec<Settled>,
    /// Why it is to end, as the machine asked.
    pub(super) stop: Option<Stop>,
    recovered: Option<bool>,
}

/// How far a task got.
pub(super) enum Progress {
    Over(Result<(), Kind>),
    Waits,
    /// Goes on after a suspension of the turn.
    Suspended,
    Stopped(Stop),
}

impl World {
    /// Begins a turn and runs it to its end or its first suspension.
    pub(super) fn begin_turn(&mut self, begin: BeginTurn) {
        let BeginTurn { turn, spent, budget } = begin;
        let mut running = RunningTurn {
            charged_to: turn.charged_to,
            cpu: spent,
            budget,
            runnable: VecDeque::new(),
            settled: Vec::new(),
            stop: None,
            recovered: None,
        };
        match turn.work {
            Work::Eval(source) => {
                self.clients.note_started(&source.name);
                let settles = Some((turn.charged_to, RefHolder::Client));
                running.runnable.push_back(self.start(settles, &source.name, &source.code));
            }
            Work::Call { function, holder, .. } => {
                let body = self.context.body_of(function);
                running.runnable.push_back(self.start(Some((turn.charged_to, holder)), "function", body));
            }
            Work::Settle(settlements) => {
                let woken = settlements.into_iter().filter_map(|settlement| self.settle(settlement));
                running.runnable.extend(woken.collect::<Vec<_>>());
            }
            Work::Timer(timer) => {
                let waiting = self.context.timers.remove(&timer);
                running.runnable.extend(waiting.expect("a timer fires once"));
            }
            Work::Jobs | Work::Bindings => {}
            Work::Recover(_) => running.recovered = Some(self.rng.u8(..10) < 7),
        }
        self.turn = Some(running);
        self.run_turn();
    }

    fn start(&mut self, settles: Option<(ChargedTo, RefHolder)>, name: &str, code: &str) -> u64 {
        let operations = code.chars().collect();
        let name = name.to_owned();
        self.context.task(Task { settles, name, operations, exported: Vec::new(), is_awaited: false })
    }

    /// Settles a call of the script; returns the task that goes on.
    fn settle(&mut self, settlement: Settlement) -> Option<u64> {
        let Settlement { call, outcome, source, .. } = settlement;
        let ScriptCall { resolve, reject, .. } = self.session.state.script_calls.take(call)?;
        let waiting = self.context.calls.remove(&call).expect("a call is settled once");
        for end in [resolve, reject] {
            assert_eq!(self.context.live.remove(&end), Some(Rooted::Call(call)), "the promise of {call}");
        }
        if let Ok(value) = outcome {
            self.import_functions(value, source);
        }
        waiting
    }

    fn import_functions(&mut self, value: CallValue, source: ValueSource) {
        let mut value = match value {
            CallValue::Tree(value) => value,
            CallValue::Text(text) => serde_json::from_str(text.get()).unwrap(),
        };
        let (references, imports) = (&mut self.session.state.references, &mut self.context.imports);
        fn_values::rename(&mut value, |id| {
            let function = match source {
                ValueSource::Client(connection) => FnRef::Client { connection, id: id.to_owned() },
                ValueSource::Handler => FnRef::parse_or_unknown(id),
            };
            if references.import(&function).is_ok() {
                imports.insert(function);
            }
            None
        });
    }

    /// Goes on with the turn that was suspended.
    pub(super) fn resume_turn(&mut self) {
        self.apply(Input::Resuming);
        if self.session.is_ending() {
            self.turn_mut().stop.get_or_insert(Stop::Closed);
        }
        self.run_turn();
    }

    pub(super) fn turn_mut(&mut self) -> &mut RunningTurn {
        self.turn.as_mut().expect("a turn runs")
    }

    fn run_turn(&mut self) {
        let stopped = loop {
            if let Some(stop) = self.turn_mut().stop {
                break Some(stop);
            }
            let Some(task) = self.next_task() else { break None };
            match self.run_task(task) {
                Progress::Over(outcome) => self.finish_task(task, outcome),
                Progress::Waits => self.await_task(task),
                Progress::Suspended => {
                    self.turn_mut().runnable.push_front(task);
                    return self.apply(Input::Suspended);
                }
                Progress::Stopped(stop) => {
                    self.context.tasks.remove(&task);
                    break Some(stop);
                }
            }
        };
        self.end_turn(stopped);
    }

    /// The next task of the turn; what an eval leaves behind at its end runs in a later turn.
    fn next_task(&mut self) -> Option<u64> {
        if let Some(task) = self.turn_mut().runnable.pop_front() {
            return Some(task);
        }
        let is_eval_over = self.turn_mut().settled.iter().any(is_eval);
        if is_eval_over || self.turn_mut().recovered.is_some() { None } else { self.context.jobs.pop_front() }
    }

    fn end_turn(&mut self, stopped: Option<Stop>) {
        let Some(RunningTurn { cpu, settled, recovered, runnable, .. }) = self.turn.take() else { return };
        // What was stopped before it waited for anything is over; the rest goes on later.
        let is_left = |task: &u64| self.context.tasks.get(task).is_some_and(|task| task.is_awaited);
        self.context.jobs.extend(runnable.into_iter().filter(is_left).collect::<Vec<_>>());
        self.report_rejections(stopped, &settled);
        let used = self.rng.u8(..20);
        self.is_overdrawn = recovered.is_none() && used == 0;
        self.set_context();
        self.apply(Input::TurnEnded(TurnReport { settled, stopped, stopped_at: None, cpu, recovered }));
    }

    /// The promise of a task that waits is awaited, once.
    fn await_task(&mut self, task: u64) {
        let Some(waiting) = self.context.tasks.get_mut(&task) else { return };
        if let (Some((charged_to, holder)), false) = (waiting.settles, waiting.is_awaited) {
            waiting.is_awaited = true;
            let name = waiting.name.clone();
            let promise = self.context.root(Rooted::Promise);
            let positions = Positions::default();
            let awaited =
                AwaitedPromise { charged_to, promise, name, positions, holder, is_unwrapped: false };
            self.session.state.promises.push(awaited);
        }
    }

    fn finish_task(&mut self, task: u64, outcome: Result<(), Kind>) {
        let Some(Task { settles: Some((charged_to, holder)), name, exported, is_awaited, .. }) =
            self.context.tasks.remove(&task)
        else {
            return;
        };
        if is_awaited && !self.is_awaited(charged_to) {
            return;
        }
        let names: Vec<Value> = exported.iter().map(|number| json!({"$fn": format!("f{number}")})).collect();
        let value = json!({"name": name, "functions": names, "epoch": self.epoch});
        let outcome = match (outcome, holder) {
            (Ok(()), RefHolder::Client) => Ok(Encoded::Text(to_raw_value(&value).unwrap())),
            (Ok(()), RefHolder::Handler) => Ok(Encoded::Tree(value)),
            (Err(kind), _) => Err(ErrorObject::new(kind, "thrown")),
        };
        // What was exported for a result that is not returned is taken back by the encoder.
        let exported = if outcome.is_ok() { exported } else { self.take_back(holder, &exported) };
        self.turn_mut().settled.push(Settled { charged_to, outcome, exported });
    }

    /// Whether the promise of an eval or invocation is still awaited.
    pub(super) fn is_awaited(&self, charged_to: ChargedTo) -> bool {
        self.session.state.promises.iter().any(|promise| promise.charged_to == charged_to)
    }

    fn take_back(&mut self, holder: RefHolder, exported: &[u64]) -> Vec<u64> {
        self.session.take_back_exports(holder, exported);
        Vec::new()
    }

    fn run_task(&mut self, task: u64) -> Progress {
        loop {
            let spent = Duration::from_micros(self.rng.u64(10..400));
            let turn = self.turn_mut();
            turn.cpu += spent;
            if turn.cpu > turn.budget {
                return Progress::Stopped(Stop::Cpu);
            }
            let known = self.context.tasks.get_mut(&task).expect("the task exists");
            let Some(operation) = known.operations.pop_front() else { return Progress::Over(Ok(())) };
            match self.operate(task, operation) {
                Some(progress) => return progress,
                None => continue,
            }
        }
    }

    /// Rejections are reported when a turn ends, except that in which the eval does.
    fn report_rejections(&mut self, stopped: Option<Stop>, settled: &[Settled]) {
        if stopped.is_none() && !settled.iter().any(is_eval) {
            for Rejection { promise, reason } in std::mem::take(&mut self.session.state.rejections) {
                [promise, reason].into_iter().for_each(|root| self.context.free(root));
            }
        }
    }
}

fn is_eval(settled: &Settled) -> bool {
    matches!(settled.charged_to, ChargedTo::Eval(_))
}
