//! Drives a session on its shard: runs its turns in slices, performs its effects, and waits.
//!
//! The machine (`crate::session`) decides; the driver reads the clock, enters JavaScript and sends. It does one thing at a
//! time. Messages are taken in between the slices of a turn and, one by one, between turns.

mod beginning;
mod checkpoint;
mod context;
mod durable;
mod fork;
mod hibernate;
mod share;
#[cfg(test)]
mod tests;
mod turn;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::context_pool::{self, ContextPurpose};
use super::engine::EngineError;
use super::guest::SharedSession;
use super::hibernation::{Hibernation, IdleMark};
use super::poll_counter::Pace;
use super::port::Port;
use super::shard::{Residence, Shard};
use super::slices::{self, Contender};
use super::source;
use super::total::MemoryTotal;
use crate::limits::Limits;
use crate::quota::Account;
use crate::session::boundary::{FromSession, Observation, ToSession};
use crate::session::{BeginTurn, Effect, Input, RootId, Stop, Time, TurnReport};
use crate::store::Store;
use beginning::Beginning;
pub(crate) use beginning::SessionStart;
use checkpoint::HeapCheckpoint;
use context::Context;
use durable::Durable;
pub(crate) use fork::Fork;

/// What a driver is made of.
pub(crate) struct DriverParts {
    pub(crate) start: SessionStart,
    pub(crate) limits: Arc<Limits>,
    /// The memory of all sessions.
    pub(crate) memory: Arc<MemoryTotal>,
    /// When its heap leaves memory, and where it goes.
    pub(crate) hibernation: Hibernation,
    /// Where the session is kept beyond the life of the process.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// What the watchdog charges while the shard is stuck in this session.
    pub(crate) account: Arc<Account>,
    /// The shard that it is to run on, which is that of this thread; absent elsewhere than on a shard.
    pub(crate) shard: Option<Shard>,
    /// The way to the host.
    pub(crate) port: Rc<dyn Port>,
    /// The way from the host; its sender is kept by the shard too, weakly.
    pub(crate) inbox: (mpsc::WeakSender<ToSession>, mpsc::Receiver<ToSession>),
}

/// See the module.
pub(crate) struct Driver {
    session: Rc<SharedSession>,
    port: Rc<dyn Port>,
    inbox_rx: mpsc::Receiver<ToSession>,
    limits: Arc<Limits>,
    memory: Arc<MemoryTotal>,
    /// Names the principal to the scheduler.
    principal: usize,
    /// Absent elsewhere than on a shard.
    residence: Option<Residence>,
    /// Values to be freed when the JavaScript stack is empty.
    freed: Vec<RootId>,
    slices: u32,
    /// References and evals that wait, as last reported.
    levels: (usize, usize),
    hibernation: Hibernation,
    /// Absent where sessions are not hibernated by time.
    idle: Option<Rc<IdleMark>>,
    /// Since when it waits for room in memory.
    short_since: Option<Instant>,
    checkpoints: BTreeMap<u64, Rc<HeapCheckpoint>>,
    /// Held by every live session that was forked from the same one.
    family: Rc<()>,
    /// Absent where sessions end with the process.
    durable: Option<Durable>,
    /// Last, so that it is dropped last.
    context: Context,
}

impl Driver {
    /// A driver of a session, with a context of its own or that of the session it is a fork of.
    pub(crate) fn new(parts: DriverParts) -> Result<Self, EngineError> {
        let DriverParts { start, limits, memory, hibernation, store, account, shard, port, inbox } = parts;
        let (inbox_tx, inbox_rx) = inbox;
        let Beginning { mut machine, clock, context, poll_counter, freed, checkpoints, family, claim } =
            Beginning::new(start, &limits, &memory)?;
        machine.find_awaits_by(source::awaits);
        let session =
            Rc::new(SharedSession { machine: RefCell::new(machine), clock, port: Some(Rc::clone(&port)) });
        if let Some(engine) = context.resident() {
            engine.attach(&session);
        }
        let principal = Arc::as_ptr(&account).addr();
        let residence = shard.map(|shard| shard.register(account, inbox_tx, poll_counter));
        let driver = Self {
            session,
            port,
            inbox_rx,
            limits,
            memory,
            principal,
            residence,
            freed,
            slices: 0,
            levels: (0, 0),
            idle: hibernation.idle_max().map(IdleMark::register),
            hibernation,
            short_since: None,
            checkpoints,
            family,
            durable: store.map(|store| Durable::new(store, claim)),
            context,
        };
        if let Some(bytes) = driver.context.stored_bytes() {
            driver.observe(Observation::Hibernated { bytes });
        }
        Ok(driver)
    }

    /// Serves until the session has ended.
    pub(crate) async fn run(mut self) {
        // Those of a session that goes on from its image.
        self.perform_effects();
        loop {
            if self.is_retired() {
                self.apply(Input::Retired);
            }
            let contender = self.wait_for_share().await;
            if self.is_ending() {
                break;
            }
            if self.session.machine.borrow().is_suspending() {
                if self.suspend() {
                    return;
                }
                continue;
            }
            if !self.wake_for_turn().await {
                continue;
            }
            let now = self.now();
            let begin = self.session.machine.borrow_mut().next_turn(now);
            if let Some(begin) = begin {
                // Choosing it may have had effects.
                self.perform_effects();
                self.run_turn(begin, contender).await;
                self.hibernate_after_turn();
                continue;
            }
            drop(contender);
            if self.session.machine.borrow_mut().end_deadlocked_eval() {
                self.perform_effects();
                continue;
            }
            self.wait().await;
        }
        let now = self.now();
        self.session.machine.borrow_mut().finish(now);
        // First, so that the host finds the session gone when it hears of the end.
        self.inbox_rx.close();
        self.perform_effects();
    }

    fn now(&self) -> Time {
        self.session.clock.now()
    }

    fn is_ending(&self) -> bool {
        self.session.machine.borrow().is_ending()
    }

    fn is_retired(&self) -> bool {
        self.residence.as_ref().is_some_and(Residence::is_retired)
    }

    /// Waits for a message, or for the next thing whose time comes.
    async fn wait(&mut self) {
        self.report_levels();
        let now = self.now();
        let wake_at = self.session.machine.borrow_mut().wake_at(now);
        let wake_at = wake_at.map(|at| self.session.clock.instant(at));
        let timer = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        self.begin_idle(self.session.clock.instant(now));
        let idle = async {
            match &self.idle {
                Some(mark) => mark.due().await,
                None => std::future::pending().await,
            }
        };
        let input = tokio::select! {
            biased;
            Some(message) = self.inbox_rx.recv() => Some(Input::Message(message)),
            () = timer => Some(Input::Tick),
            () = idle => None,
        };
        if let Some(mark) = &self.idle {
            mark.end();
        }
        match input {
            Some(input) => self.apply(input),
            None => self.hibernate(),
        }
    }

    /// Takes in what has arrived while JavaScript ran.
    fn drain_inbox(&mut self) {
        while let Ok(message) = self.inbox_rx.try_recv() {
            self.apply(Input::Message(message));
        }
    }

    /// Applies an input and performs what follows from it.
    fn apply(&mut self, input: Input) {
        let now = self.now();
        if let Some(durable) = &mut self.durable {
            match &input {
                Input::Message(message) => durable.note_message(message),
                _ => durable.note_change(),
            }
        }
        let mut machine = self.session.machine.borrow_mut();
        machine.apply(input, now);
        if let Some(charged_to) = machine.take_checked() {
            machine.charge_check(charged_to, self.session.clock.now().saturating_since(now));
        }
        drop(machine);
        self.perform_effects();
    }

    fn perform_effects(&mut self) {
        loop {
            let effects = self.session.machine.borrow_mut().take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.perform(effect);
            }
        }
        let claimed = self.session.machine.borrow().state.script_calls.claimed_bytes();
        self.context.shrink_claim(claimed);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                if let Some(reply) = self.port.send(message) {
                    let now = self.now();
                    self.session.machine.borrow_mut().apply(Input::Message(reply), now);
                }
            }
            Effect::StopTurn(reason) => {
                if let Some(engine) = self.context.resident() {
                    engine.guest.meter.request_stop(reason);
                    if reason == Stop::Closed {
                        engine.poll_counter.poll_within(1);
                    }
                }
            }
            Effect::FreeRoots(roots) => {
                self.freed.extend(roots);
                self.free_roots();
            }
            Effect::ReplaceContext => self.replace_context(),
            Effect::TakeCheckpoint { number } => self.take_checkpoint(number),
            Effect::Rewind { number } => self.rewind(number),
            Effect::Fork { request, checkpoint } => self.fork(request, checkpoint),
            Effect::DropCheckpoints(numbers) => {
                self.checkpoints.retain(|number, _| !numbers.contains(number));
            }
        }
    }

    /// Frees what is to be freed, if no JavaScript is on the stack. In a heap that is not in memory, or not in its slot, it
    /// waits for the next turn.
    fn free_roots(&mut self) {
        let Some(engine) = self.context.present() else { return };
        if self.session.machine.borrow().state.in_turn.is_some() || self.freed.is_empty() {
            return;
        }
        for root in std::mem::take(&mut self.freed) {
            engine.guest.roots.release(root);
        }
        self.refresh_facts();
    }

    /// Tells the machine how the context stands.
    fn refresh_facts(&self) {
        if let Some(engine) = self.context.engine() {
            self.session.machine.borrow_mut().set_context(engine.facts());
        }
    }

    /// Puts a fresh context in the place of the present one.
    fn replace_context(&mut self) {
        let made = context_pool::take(&self.limits, &self.memory, ContextPurpose::Replacement);
        let is_made = made.is_ok();
        if let Ok(engine) = made {
            engine.attach(&self.session);
            self.freed.clear();
            if let Some(residence) = &self.residence {
                residence.replace_poll_counter(&engine.poll_counter);
            }
            let was_dormant = self.context.dormant().is_some();
            self.context.replace(engine);
            self.short_since = None;
            self.refresh_facts();
            if was_dormant {
                self.observe(Observation::Woken { took: None });
            }
        }
        let now = self.now();
        self.session.machine.borrow_mut().apply(Input::ContextReplaced(is_made), now);
    }

    /// Runs one turn to its end, in slices, and applies what it brought.
    async fn run_turn(&mut self, begin: BeginTurn, mut contender: Option<Contender>) {
        let BeginTurn { turn, spent, budget } = begin;
        let Some(engine) = self.engine_for_turn() else { return };
        let mut turn = match turn::begin(&engine, turn) {
            Ok(turn) => turn,
            Err(error) => {
                let message = format!("no stack for the script: {error}");
                self.session.machine.borrow_mut().fail_turn(&message);
                return self.perform_effects();
            }
        };
        let guest = Rc::clone(&engine.guest);
        engine.used().begin_turn();
        guest.meter.begin(spent, budget);
        let (mut counted, mut pace) = (spent, Pace::new());
        let outcome = loop {
            self.slices += 1;
            if let Some(outcome) = super::shard::watched(self.residence.as_ref(), || turn.resume()) {
                break outcome;
            }
            let total = guest.meter.end_slice();
            let took = total.saturating_sub(counted);
            counted = total;
            self.charge(took);
            contender = Some(self.between_slices(contender).await);
            self.return_to_slot(&engine).await;
            if let Some(count) = pace.adapt(took) {
                engine.poll_counter.poll_within(count);
            }
            if guest.meter.stopped().is_some() {
                // The request could not reach it while its heap was away.
                engine.poll_counter.poll_within(1);
            }
            guest.meter.resume_slice();
        };
        drop(contender);
        let cpu = guest.meter.finish();
        engine.used().end_turn();
        drop((turn, engine));
        self.charge(cpu.saturating_sub(counted));
        self.refresh_facts();
        let turn::Outcome { settled, stopped_at, recovered } = outcome;
        let stopped = guest.meter.stopped();
        self.apply(Input::TurnEnded(TurnReport { settled, stopped, stopped_at, cpu, recovered }));
        self.free_roots();
    }

    /// Counts the CPU time of a slice. While the shard is out of service the watchdog charges for it.
    fn charge(&mut self, used: Duration) {
        slices::charge(self.principal, used);
        self.session.machine.borrow_mut().state.cpu_total += used;
        let slices = std::mem::take(&mut self.slices);
        if self.is_retired() {
            return;
        }
        if let Some(reply) = self.port.send(FromSession::Used { cpu: used, slices }) {
            self.apply(Input::Message(reply));
        }
    }
}
