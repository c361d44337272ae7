//! A session: a task on its shard that owns one JavaScript world and serves whoever holds it.
//!
//! It does one thing at a time. JavaScript runs in turns (`turn`); between the slices of a turn and between turns the
//! session takes messages in. Whatever needs an empty JavaScript stack waits in `ready`; whatever does not (control,
//! server bindings) is done at once, so nothing but an eval ever waits behind an eval.

mod arguments;
mod attach;
mod calls;
mod client_calls;
mod clock;
mod control;
mod dispatch;
mod evals;
mod inbox;
mod invokes;
mod keys;
mod outbox;
mod replace;
mod share;
mod turn;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::context_pool::ContextPurpose;
use super::engine::{Engine, EngineError, Settled};
use super::guest::Owner;
use super::meter::Stop;
use super::poll_counter::Pace;
use super::shard::{Residence, Shard};
use super::slices::Contender;
use super::total::MemoryTotal;
use crate::binding::{Callbacks, DroppedRefs, HostFunctions, Registry, SessionScope};
use crate::limits::Limits;
use crate::observe;
use crate::protocol::boundary::{Closing, SessionEvent};
use attach::Live;
use calls::ServerCall;
use client_calls::ClientCall;
use dispatch::Dispatcher;
use evals::Evals;
use invokes::{Invocation, ServerInvoke};
use keys::Keys;
use outbox::Outbox;
use turn::{Action, Background, Watches};

pub(crate) use control::declarations as control_declarations;
pub(crate) use inbox::{Attachment, EventReceiver, Inbox, event_channel};
pub use inbox::{ClientBinding, SessionHandle, SessionInfo};

/// What a session is made of.
pub(crate) struct SessionParts {
    pub(crate) scope: Arc<SessionScope>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) registry: Arc<Registry>,
    /// The memory of all sessions.
    pub(crate) memory: Arc<MemoryTotal>,
}

/// Something that needs an empty JavaScript stack.
pub(crate) struct Ready {
    owner: Owner,
    depth: u32,
    action: Action,
}

/// A session at work. See the module.
pub(crate) struct Session {
    parts: SessionParts,
    dispatcher: Rc<Dispatcher>,
    watches: Watches,
    inbox_tx: mpsc::Sender<Inbox>,
    inbox_rx: mpsc::Receiver<Inbox>,
    host_rx: mpsc::Receiver<crate::binding::CallbackRequest>,
    live: Option<Live>,
    /// A connection that takes no more events. What it sent before it ended may still be on its way here.
    departing: Option<u64>,
    evals: Evals,
    keys: Keys,
    ready: VecDeque<Ready>,
    /// Background work that waits for the CPU quota of the principal.
    deferred: VecDeque<Ready>,
    invocations: HashMap<u64, Invocation>,
    server_calls: HashMap<u64, ServerCall>,
    server_invokes: HashMap<u64, ServerInvoke>,
    client_calls: HashMap<u64, ClientCall>,
    call_deadlines: BTreeSet<(Instant, u64)>,
    outbox: Outbox,
    next_number: u64,
    background: Background,
    cpu_total: Duration,
    references: observe::ReferenceGauge,
    /// For whom JavaScript is on the stack, running or suspended.
    in_turn: Option<Owner>,
    /// Whether the world is to be replaced when the stack is empty.
    reset_requested: bool,
    /// Whether memory is being freed.
    relieving: bool,
    ending: Option<Closing>,
    /// Absent elsewhere than on a shard.
    residence: Option<Residence>,
    /// Last, so that it is dropped last. Values of the context that others hold end with it; see `guest::roots`.
    engine: Rc<Engine>,
}

impl Session {
    /// Makes a session and the handle to it.
    pub(crate) fn new(parts: SessionParts) -> Result<(Self, SessionHandle), EngineError> {
        let (inbox_tx, inbox_rx) = mpsc::channel(inbox::INBOX_QUEUED_MAX);
        let (requests_tx, host_rx) = mpsc::channel(inbox::INBOX_QUEUED_MAX);
        let shard = Shard::current();
        let dispatcher = Rc::new(Dispatcher {
            shard: shard.clone(),
            registry: Arc::clone(&parts.registry),
            scope: Arc::clone(&parts.scope),
            limits: Arc::clone(&parts.limits),
            memory: Arc::clone(&parts.memory),
            link: Callbacks { requests_tx, dropped_refs: DroppedRefs::default() },
            host_functions: HostFunctions::default(),
            depth: Cell::new(0),
            eval_id: RefCell::new(None),
            pending: RefCell::default(),
        });
        let engine = Rc::new(dispatcher.make_engine(ContextPurpose::NewSession)?);
        let account = &parts.scope.principal.account;
        let residence = shard
            .map(|shard| shard.register(Arc::clone(account), &inbox_tx, Arc::clone(&engine.poll_counter)));
        let handle = SessionHandle { inbox_tx: inbox_tx.clone() };
        let session = Self {
            outbox: Outbox::new(parts.limits.client_calls_open_max),
            keys: Keys::new(parts.limits.keyed_outcomes_max, parts.limits.keyed_bytes_max),
            background: Background::new(
                Instant::now(),
                Duration::from_millis(parts.limits.background_cpu_ms_per_minute),
            ),
            evals: Evals::new(parts.limits.queued_evals_max),
            parts,
            engine,
            dispatcher,
            watches: Watches::default(),
            inbox_tx,
            inbox_rx,
            host_rx,
            live: None,
            departing: None,
            ready: VecDeque::new(),
            deferred: VecDeque::new(),
            invocations: HashMap::new(),
            server_calls: HashMap::new(),
            server_invokes: HashMap::new(),
            client_calls: HashMap::new(),
            call_deadlines: BTreeSet::new(),
            next_number: 0,
            cpu_total: Duration::ZERO,
            references: observe::ReferenceGauge::default(),
            in_turn: None,
            reset_requested: false,
            relieving: false,
            ending: None,
            residence,
        };
        Ok((session, handle))
    }

    /// Serves until the session is ended.
    pub(crate) async fn run(mut self) {
        while self.ending.is_none() {
            if self.is_retired() {
                self.end(Closing::Fault);
                break;
            }
            self.start_pending().await;
            self.take_releases().await;
            let contender = self.wait_for_share().await;
            if self.ending.is_some() {
                break;
            }
            if let Some(ready) = self.next_ready() {
                self.perform(ready, contender).await;
                continue;
            }
            drop(contender);
            if self.end_deadlocked_eval().await {
                continue;
            }
            self.wait().await;
        }
        self.wind_up().await;
    }

    /// Waits for a message, or for the next thing whose time comes.
    async fn wait(&mut self) {
        let wake_at = self.wake_at();
        let timer = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(message) = self.inbox_rx.recv() => self.accept(message).await,
            Some(request) = self.host_rx.recv() => self.accept_host(request).await,
            () = timer => self.check_deadlines().await,
        }
    }

    /// Takes in what has arrived while JavaScript ran.
    async fn drain_inbox(&mut self) {
        while let Ok(message) = self.inbox_rx.try_recv() {
            self.accept(message).await;
        }
        while let Ok(request) = self.host_rx.try_recv() {
            self.accept_host(request).await;
        }
    }

    async fn accept(&mut self, message: Inbox) {
        match message {
            Inbox::Attach(attachment) => self.attach(attachment).await,
            Inbox::Detach(number) => self.detach(number).await,
            Inbox::Command(number, command, charge) => {
                let is_live = self.live.as_ref().is_some_and(|live| live.number == number);
                if is_live || self.departing == Some(number) {
                    self.accept_command(number, command, charge).await;
                }
            }
            Inbox::CallDone(call, outcome) => self.finish_server_call(call, outcome),
            Inbox::InvokeDone(number, outcome) => self.finish_server_invoke(number, outcome).await,
            Inbox::CallWithdrawn(number) => self.give_up_call(number).await,
            Inbox::End(closing) => self.end(closing),
            Inbox::Inspect(info_tx) => {
                let _ = info_tx.send(self.info());
            }
        }
    }

    /// What to do next with an empty JavaScript stack.
    fn next_ready(&mut self) -> Option<Ready> {
        while let Some(ready) = self.ready.pop_front() {
            if !self.is_over_quota(&ready) {
                return Some(ready);
            }
            self.deferred.push_back(ready);
        }
        let now = Instant::now();
        let in_background = self.background_wait(now).is_none();
        if in_background && let Some(ready) = self.deferred.pop_front() {
            return Some(ready);
        }
        if (in_background || self.evals.running.is_some())
            && let Some(ready) = self.due_timer(now, in_background)
        {
            return Some(ready);
        }
        if self.evals.running.is_none() {
            if in_background && self.engine.has_leftovers() {
                return Some(Ready { owner: Owner::Nobody, depth: 0, action: Action::Jobs });
            }
            return self.start_next_eval();
        }
        None
    }

    fn due_timer(&mut self, now: Instant, in_background: bool) -> Option<Ready> {
        let (timer, owner) = self.engine.guest.timers.borrow_mut().take_due(now)?;
        let owner = self.current_owner(owner);
        if owner == Owner::Nobody && !in_background {
            // Its eval is over and the budget or the quota is used up: it waits until there is some again.
            let later = self.background_wait(now).unwrap_or(now);
            self.engine.guest.timers.borrow_mut().set(timer, later, Owner::Nobody);
            return None;
        }
        Some(Ready { owner, depth: 0, action: Action::Timer(timer) })
    }

    /// Whoever is over pays for nothing any more.
    fn current_owner(&self, owner: Owner) -> Owner {
        let is_current = match owner {
            Owner::Eval(number) => {
                self.evals.running.as_ref().is_some_and(|running| running.number == number)
            }
            Owner::Invocation(number) => self.invocations.contains_key(&number),
            Owner::Nobody => true,
        };
        if is_current { owner } else { Owner::Nobody }
    }

    /// Runs one turn to its end, in slices, and acts on what it brought.
    async fn perform(&mut self, ready: Ready, mut contender: Option<Contender>) {
        let Ready { owner, depth, action } = ready;
        let owner = self.current_owner(owner);
        let (spent, budget) = self.budget_of(owner);
        let guest = Rc::clone(&self.engine.guest);
        guest.owner.set(owner);
        self.dispatcher.depth.set(depth);
        let mut turn = match turn::begin(&self.engine, &self.watches, action) {
            Ok(turn) => turn,
            Err(error) => return self.fail_owner(owner, error).await,
        };
        self.engine.used().begin_turn();
        guest.meter.begin(spent, budget);
        self.in_turn = Some(owner);
        let (mut counted, mut pace) = (spent, Pace::new());
        let settled = loop {
            observe::slice_ran();
            if let Some(settled) = super::shard::watched(self.residence.as_ref(), || turn.resume()) {
                break settled;
            }
            let total = guest.meter.end_slice();
            let took = total.saturating_sub(counted);
            counted = total;
            if self.count_cpu(took) {
                guest.meter.request_stop(Stop::Quota);
            }
            contender = Some(self.between_slices(contender).await);
            if let Some(count) = pace.adapt(took) {
                self.engine.poll_counter.poll_within(count);
            }
            guest.meter.resume_slice();
        };
        drop(contender);
        let total = guest.meter.finish();
        guest.owner.set(Owner::Nobody);
        self.in_turn = None;
        self.engine.used().end_turn();
        let is_overdrawn = self.count_cpu(total.saturating_sub(counted));
        self.set_spent(owner, total);
        self.after_turn(owner, settled, guest.meter.stopped()).await;
        if is_overdrawn {
            self.stop_owner(owner, Stop::Quota).await;
        }
    }

    async fn after_turn(&mut self, owner: Owner, settled: Vec<Settled>, stopped: Option<Stop>) {
        // Before the eval is over, so that its last lines still name it.
        self.stream_console().await;
        for settled in settled {
            // An eval that was asked to end in this turn is told so below, even if it came to its end all the same.
            if stopped.is_some() && settled.owner == owner && matches!(owner, Owner::Eval(_)) {
                self.take_back_functions(&settled.handed);
                continue;
            }
            match settled.owner {
                Owner::Eval(_) => self.finish_eval(settled.outcome, &settled.handed).await,
                Owner::Invocation(number) => self.finish_invocation(number, settled).await,
                Owner::Nobody => {}
            }
        }
        if let Some(reason) = stopped {
            self.stop_owner(owner, reason).await;
        }
        if let Some(reason) = self.evals.running.as_ref().and_then(|running| running.stop_requested) {
            self.stop_eval(reason).await;
        }
        self.stream_console().await;
        self.references.set(self.engine.guest.references());
        if self.reset_requested {
            self.reset_now().await;
        } else if self.engine.used().is_overdrawn() && !self.relieving {
            self.relieve().await;
        }
    }

    async fn fail_owner(&mut self, owner: Owner, error: crate::rpc::ErrorObject) {
        match owner {
            Owner::Eval(_) => self.finish_eval(Err(error), &[]).await,
            Owner::Invocation(number) => {
                self.finish_invocation(number, Settled { owner, outcome: Err(error), handed: Vec::new() })
                    .await;
            }
            Owner::Nobody => {}
        }
    }

    /// Sends an event to the connection, if there is one. One that does not take it is given up.
    async fn emit(&mut self, event: SessionEvent) {
        if let Some(live) = &self.live
            && !live.events_tx.send(event).await
        {
            let number = live.number;
            self.detach_now(number);
            self.departing = Some(number);
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn end(&mut self, closing: Closing) {
        self.ending.get_or_insert(closing);
    }

    /// Answers everybody who waits, then lets go.
    async fn wind_up(mut self) {
        let closing = self.ending.unwrap_or(Closing::Fault);
        // A server that stops cancels what runs; a client that closes its session knows what it does.
        let reason = if closing == Closing::GoingAway { Stop::Cancelled } else { Stop::Closed };
        self.cancel_everything(reason).await;
        self.send_held_answers().await;
        // First, so that the session is gone for a connection on another thread that hears of the end: its directory
        // entry, with the place in the quota, would otherwise be kept for a resume.
        self.inbox_rx.close();
        self.emit(SessionEvent::Close(closing)).await;
        self.watches.take();
        self.ready.clear();
        self.deferred.clear();
    }
}
