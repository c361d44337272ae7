//! Random histories of a session in virtual time, against a small model of everything around it.
//!
//! A seed gives a history: clients that connect, cut, stall, resume and send JSON through the connection machine; a
//! host with handlers, quotas and catalogs; scripts as lists of operations instead of JavaScript; a clock. The models
//! keep their own books and panic when the machine does not fit them. `check` looks at the state after each step, and
//! at what is left when everything is quiet.
//!
//! `SIMULATION_HISTORIES` and `SIMULATION_SEED` make a longer run, and one history again.

mod check;
mod clients;
mod connection;
mod context;
mod forks;
mod host;
mod operations;
mod script;

use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::boundary::{FromSession, ToSession};
use super::tests::support::{catalog, line, turn_line};
use super::{ContextFacts, Effect, Input, Session, SessionState, Time};
use crate::limits::Limits;
use crate::protocol::client_messages::Closing;
use clients::Clients;
use context::Context;
use host::Host;
use script::RunningTurn;

/// What scripts do, see `operations`; the more often a letter stands here, the more often it is done.
const OPERATIONS: &[u8] = b"ccccCwnmiissssSqhffttTppppDLgrxzzzzdly";

/// Histories of a run in the ordinary tests.
const HISTORIES: u64 = 2_000;

/// Steps of a history before everything is let come to rest.
const STEPS: usize = 90;

/// Steps of the driver without any time passing: more than that is a loop without end.
const DRIVES_MAX: usize = 20_000;

/// The last steps that are printed with a failure.
const STEPS_SHOWN: usize = 60;

/// What is printed of a step.
const STEP_CHARS_MAX: usize = 220;

/// When the state is written and read in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundTrips {
    Never,
    Sometimes,
    Always,
}

/// See the module.
struct World {
    rng: fastrand::Rng,
    /// Apart from the other, so that a history is the same with and without round trips.
    round_trip_rng: fastrand::Rng,
    round_trips: RoundTrips,
    session: Session,
    limits: Arc<Limits>,
    /// The operations of the scripts of this history. Each history has others, so that rare ones meet each other.
    operations: Vec<u8>,
    /// Whether its handlers call back a lot.
    has_busy_handlers: bool,
    now: Time,
    context: Context,
    /// How often the context was replaced.
    epoch: u64,
    is_overdrawn: bool,
    turn: Option<RunningTurn>,
    host: Host,
    clients: Clients,
    /// Whether it is a fork that no client has resumed: it keeps functions for the first one.
    is_unclaimed: bool,
    /// Forks whose histories are still to be run.
    forks: Vec<World>,
    /// How many more there may be.
    forks_left: usize,
    trace: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, round_trips: RoundTrips, is_traced: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let limits = Arc::new(small_limits(&mut rng));
        let mut operations = OPERATIONS.to_vec();
        operations.retain(|_| rng.bool());
        let has_busy_handlers = rng.u8(..4) == 0;
        let server = catalog(1, &["echo", "kv.get"]);
        let state = SessionState::new("id".into(), "alice".into(), server, &limits, Time::default());
        Self {
            rng,
            round_trip_rng: fastrand::Rng::with_seed(seed),
            round_trips,
            session: Session::new(state, Arc::clone(&limits)),
            limits,
            operations,
            has_busy_handlers,
            now: Time::default(),
            context: Context::default(),
            epoch: 0,
            is_overdrawn: false,
            turn: None,
            host: Host::default(),
            clients: Clients::default(),
            is_unclaimed: false,
            forks: Vec::new(),
            forks_left: forks::FORKS_MAX,
            trace: is_traced.then(Vec::new),
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} ms  {}", self.now.since_start().as_millis(), text()));
        }
    }

    fn send(&mut self, message: ToSession) {
        if self.host.ended.is_some() {
            return;
        }
        self.note(|| format!("host: {}", serde_json::to_string(&message).unwrap_or_default()));
        self.apply(Input::Message(message));
    }

    fn apply(&mut self, input: Input) {
        self.session.apply(input, self.now);
        self.perform_effects();
    }

    fn perform_effects(&mut self) {
        while self.session.has_effects() {
            for effect in self.session.take_effects() {
                match effect {
                    Effect::Send(message) => self.receive(message),
                    Effect::StopTurn(stop) => {
                        let turn = self.turn.as_mut().expect("a turn that runs is stopped");
                        turn.stop.get_or_insert(stop);
                    }
                    Effect::FreeRoots(roots) => roots.into_iter().for_each(|root| self.context.free(root)),
                    Effect::ReplaceContext => self.replace_context(),
                    // Its clients ask for no checkpoints.
                    Effect::TakeCheckpoint { .. } | Effect::Rewind { .. } | Effect::DropCheckpoints(_) => {}
                    Effect::Fork { request, .. } => self.fork(request),
                }
            }
        }
    }

    fn receive(&mut self, message: FromSession) {
        assert!(self.host.ended.is_none(), "sent after the end: {}", line(&message));
        self.note(|| line(&message));
        match message {
            FromSession::Attached { connection, .. } => {
                self.clients.attached = Some(connection);
                self.is_unclaimed = false;
            }
            FromSession::Client { connection, event } => self.receive_event(connection, event),
            FromSession::Ended { connection, closing } => {
                assert_eq!(connection, self.clients.attached, "the connection that is to be closed");
                self.clients.close_all();
                self.host.ended = Some(closing);
            }
            message => self.host.receive(message),
        }
    }

    fn replace_context(&mut self) {
        assert!(self.turn.is_none(), "the context is replaced under a running turn");
        let is_replaced = self.rng.u8(..50) > 0;
        self.note(|| format!("context replaced: {is_replaced}"));
        if is_replaced {
            self.epoch += 1;
            self.context.replace();
        }
        self.session.apply(Input::ContextReplaced(is_replaced), self.now);
    }

    fn set_context(&mut self) {
        let has_jobs = !self.context.jobs.is_empty();
        self.session.set_context(ContextFacts {
            has_jobs,
            memory_bytes: 0,
            refused_by_total: None,
            is_overdrawn: self.is_overdrawn,
        });
    }

    /// One step of the driver; returns whether there was anything to do.
    fn drive(&mut self) -> bool {
        if self.host.ended.is_some() {
            return false;
        }
        if self.turn.is_some() {
            self.resume_turn();
            return true;
        }
        if self.session.is_ending() {
            self.session.finish(self.now);
            self.perform_effects();
            return true;
        }
        self.set_context();
        if let Some(begin) = self.session.next_turn(self.now) {
            self.note(|| format!("turn: {}", turn_line(&begin)));
            self.perform_effects();
            self.begin_turn(begin);
            return true;
        }
        self.perform_effects();
        if self.session.end_deadlocked_eval() {
            self.perform_effects();
            return true;
        }
        let is_due = self.session.wake_at(self.now).is_some_and(|at| at <= self.now);
        if is_due {
            self.apply(Input::Tick);
        }
        is_due
    }

    /// Drives until nothing is to be done at this time.
    fn drive_to_rest(&mut self) {
        for _ in 0..DRIVES_MAX {
            if !self.drive() {
                return;
            }
        }
        panic!("the session does not come to rest");
    }

    /// Time passes, up to the next thing that is due or a little.
    fn pass_time(&mut self) {
        let random = self.now + Duration::from_millis(self.rng.u64(1..400));
        let next = match self.session.wake_at(self.now) {
            Some(at) if self.rng.bool() => at,
            Some(_) | None => random,
        };
        self.now = self.now.max(next);
        if self.turn.is_none() && self.host.ended.is_none() {
            self.apply(Input::Tick);
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..100) {
            0..=39 => self.act_as_client(),
            40..=59 => self.act_as_host(),
            60..=89 => {
                for _ in 0..self.rng.usize(1..6) {
                    self.drive();
                }
            }
            _ => self.pass_time(),
        }
        if self.rng.u16(..2_000) == 0 {
            let closing = if self.rng.bool() { Closing::GoingAway } else { Closing::Fault };
            self.send(ToSession::End(closing));
        }
        self.check_step();
    }

    /// A whole history.
    fn run(&mut self) {
        for _ in 0..STEPS {
            if self.host.ended.is_some() {
                break;
            }
            self.step();
        }
        self.finish();
        self.run_forks();
    }
}

/// Limits that are reached within a history.
fn small_limits(rng: &mut fastrand::Rng) -> Limits {
    Limits {
        queued_evals_max: 4,
        timers_max: 4,
        references_max: 6,
        calls_per_eval_max: 6,
        client_calls_open_max: 2,
        keyed_outcomes_max: 3,
        console_bytes_max: 600,
        cpu_ms_max: 8,
        wall_ms_max: 1_500,
        binding_ms_max: 400,
        client_call_ms_max: 2_000,
        approve_ms_max: 1_000,
        client_grace_ms: if rng.bool() { 0 } else { 250 },
        background_cpu_ms_per_minute: 12,
        invoke_depth_max: 3,
        requests_open_max: 12,
        ..Limits::default()
    }
}

/// Runs the history of a seed; a failure prints its last steps.
fn run_history(seed: u64) {
    let result = catch_unwind(|| World::new(seed, RoundTrips::Sometimes, false).run());
    if let Err(panic) = result {
        // The same history again, with its steps noted.
        let mut world = World::new(seed, RoundTrips::Sometimes, true);
        let _ = catch_unwind(AssertUnwindSafe(|| world.run()));
        let trace = world.trace.unwrap_or_default();
        eprintln!("SIMULATION_SEED={seed} failed after:");
        for step in &trace[trace.len().saturating_sub(STEPS_SHOWN)..] {
            eprintln!("{}", step.chars().take(STEP_CHARS_MAX).collect::<String>());
        }
        resume_unwind(panic);
    }
}

/// Runs histories on as many threads as there are cores.
fn run_histories(seeds: Range<u64>) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let seeds = seeds.clone();
            scope.spawn(move || seeds.skip(first).step_by(threads).for_each(run_history));
        }
    });
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: expected a number, got {text:?}")))
}

#[test]
fn session_in_random_histories_keeps_its_promises() {
    match from_environment("SIMULATION_SEED") {
        Some(seed) if std::env::var("SIMULATION_HISTORIES").is_err() => run_history(seed),
        first => {
            let first = first.unwrap_or(1);
            let histories = from_environment("SIMULATION_HISTORIES").unwrap_or(HISTORIES);
            run_histories(first..first.saturating_add(histories));
        }
    }
}

fn trace_of(seed: u64, round_trips: RoundTrips) -> Vec<String> {
    let mut world = World::new(seed, round_trips, true);
    world.run();
    world.trace.unwrap_or_default()
}

/// Panics at the first step in which two runs of a seed differ; returns how many steps there were.
fn check_same(seed: u64, other: RoundTrips) -> usize {
    let (first, second) = (trace_of(seed, RoundTrips::Never), trace_of(seed, other));
    if let Some(at) = (0..first.len().max(second.len())).find(|at| first.get(*at) != second.get(*at)) {
        panic!("seed {seed}, step {at}: {:?} and {:?}", first.get(at), second.get(at));
    }
    first.len()
}

#[test]
fn history_of_a_seed_is_always_the_same() {
    let steps: usize = (1..=20).map(|seed| check_same(seed, RoundTrips::Never)).sum();
    assert!(steps > 20 * STEPS, "{steps} steps are no histories");
}

#[test]
fn state_written_and_read_continues_identically() {
    let steps: usize = (1..=20).map(|seed| check_same(seed, RoundTrips::Always)).sum();
    assert!(steps > 20 * STEPS, "{steps} steps are no histories");
}
