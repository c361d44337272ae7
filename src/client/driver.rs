//! The one task of a client: owns the connection, its machine and the running handlers, and brings them back after a
//! break.
//!
//! Thin on purpose: what a text means is the machine's, when to write is the wire's. Handles send commands over a
//! bounded channel; while the connection is down they wait there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::builder::Settings;
use super::handler::{self, CallContext, Handler, Outcome};
use super::handshake::{Session, Welcome, shake_hands};
use super::machine::{Effect, Machine, Run};
use super::reconnect::{Resumed, is_unexpected};
use super::references::Imports;
use super::wire::{Ended, Wire};
use super::{Client, ClientError, Inner};
use crate::protocol::methods::{EVAL, EvalParams, InvokeParams, Payload, ResumeParams, Target};
use crate::rpc::{ErrorObject, Id, Kind, OurId};
use crate::transport::{BoxTransport, Text, close_code};

/// Commands that wait for the driver before their senders do.
pub(super) const COMMANDS_QUEUED_MAX: usize = 64;

/// Evals, and calls, that are with the server at the same time; further ones wait in their callers. Together they stay
/// below what the server takes from one connection, with room to close the session.
pub(super) const EVALS_OPEN_MAX: usize = 512;
pub(super) const CALLS_OPEN_MAX: usize = 500;

/// How long the server may take to end the session. Long enough for a slow network; afterwards we leave all the same.
const SESSION_END_WAIT_MAX: Duration = Duration::from_secs(2);

const SESSION_CLOSE: &str = "session.close";

/// From a handle to the driver.
pub(super) enum Command {
    /// Send a request.
    Request { call: Call, waiter: Waiter },
    /// Name a function, so that it can stand in a value.
    Export { name: String, handler: Handler, value_tx: oneshot::Sender<Result<Value, ClientError>> },
}

/// What is requested.
pub(super) enum Call {
    Eval(EvalParams),
    /// On a certain connection only, if it concerns a reference.
    Invoke {
        params: InvokeParams,
        connection: Option<u64>,
    },
}

/// Who waits for an answer.
pub(super) struct Waiter {
    answer_tx: oneshot::Sender<Result<Value, ClientError>>,
    /// Learns the id of an eval, which changes when it is sent again.
    id_tx: Option<watch::Sender<u64>>,
    /// An eval that may be sent again, because its key makes it run once.
    keyed: Option<EvalParams>,
    /// Its place among those that are with the server.
    _place: Option<OwnedSemaphorePermit>,
}

impl Waiter {
    pub(super) fn new(
        answer_tx: oneshot::Sender<Result<Value, ClientError>>,
        id_tx: Option<watch::Sender<u64>>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { answer_tx, id_tx, keyed: None, _place: place }
    }

    /// Of a request whose answer is not looked at.
    fn nobody() -> Self {
        Self::new(oneshot::channel().0, None, None)
    }

    fn id(&self) -> Option<u64> {
        self.id_tx.as_ref().map(|id_tx| *id_tx.borrow())
    }

    fn settle(self, outcome: Result<Value, ClientError>) {
        // Whoever asked may have stopped waiting.
        let _ = self.answer_tx.send(outcome);
    }
}

/// What handles may know of the current connection.
pub(super) struct Connected {
    pub(super) number: u64,
    pub(super) session: Session,
    pub(super) bindings: Arc<[Value]>,
    pub(super) metadata: Value,
    pub(super) imports: Arc<Imports>,
}

/// A connection after its handshake.
pub(super) struct Live {
    wire: Wire,
    machine: Machine<Waiter>,
    running: JoinSet<(Id, Outcome)>,
    aborts: HashMap<Id, AbortHandle>,
    number: u64,
}

/// Opens a connection: shakes hands over `transport`, and again without the session if that is gone and `anew` says so.
pub(super) async fn open(
    settings: &Settings,
    transport: BoxTransport,
    resume: Option<&ResumeParams>,
    anew: bool,
    number: u64,
) -> Result<(Live, Connected), ClientError> {
    let mut wire = Wire::new(transport);
    let mut machine = Machine::new(Arc::clone(&settings.handlers), settings.message_bytes_max);
    let introduction = settings.introduction();
    let first = shake_hands(&mut wire, &mut machine, &introduction, resume, Waiter::nobody()).await;
    let welcome = match first {
        Err(ClientError::Rpc(error)) if anew && error.is(Kind::SessionRefused) => {
            shake_hands(&mut wire, &mut machine, &introduction, None, Waiter::nobody()).await?
        }
        first => first?,
    };
    let Welcome { session, bindings, metadata } = welcome;
    let imports = Arc::clone(machine.imports());
    let connected = Connected { number, session, bindings: bindings.into(), metadata, imports };
    Ok((Live { wire, machine, running: JoinSet::new(), aborts: HashMap::new(), number }, connected))
}

pub(super) struct Driver {
    pub(super) settings: Arc<Settings>,
    pub(super) commands_rx: mpsc::Receiver<Command>,
    pub(super) closing: CancellationToken,
    /// Whether the session is to be left as it is when the client closes.
    pub(super) keeps_session: Arc<AtomicBool>,
    pub(super) client: Weak<Inner>,
    pub(super) connected_tx: watch::Sender<Arc<Connected>>,
    pub(super) closed_tx: watch::Sender<Option<(u16, String)>>,
}

enum Event {
    Incoming(Result<Text, Ended>),
    Command(Command),
    Handled((Id, Outcome)),
    Released,
    Closing,
}

impl Driver {
    /// Serves one connection after the other until the last one ends for good.
    pub(super) async fn run(mut self, mut live: Live) {
        loop {
            let ended = self.serve(&mut live).await;
            // Dropping the rest of it ends the handlers: nobody is left to hear their answers.
            let Live { wire, mut machine, number, .. } = live;
            let comes_back = self.comes_back(&ended);
            let kept = fail_or_keep(machine.drain(), &ended, comes_back);
            wire.close(&ended).await;
            match if comes_back { self.reconnect(number + 1).await } else { None } {
                Some((next, resumed)) => {
                    live = next;
                    self.send_again(&mut live, kept, resumed);
                }
                None => return self.finish(kept, &ended),
            }
        }
    }

    async fn serve(&mut self, live: &mut Live) -> Ended {
        let imports = Arc::clone(live.machine.imports());
        loop {
            while let Some(run) = live.machine.next_run() {
                self.start(live, run);
            }
            let event = tokio::select! {
                incoming = live.wire.next() => Event::Incoming(incoming),
                Some(command) = self.commands_rx.recv(), if live.wire.has_room() => Event::Command(command),
                Some(Ok(handled)) = live.running.join_next() => Event::Handled(handled),
                () = imports.released() => Event::Released,
                () = self.closing.cancelled() => Event::Closing,
            };
            match event {
                Event::Incoming(Ok(text)) => self.on_text(live, &text),
                Event::Incoming(Err(ended)) => return ended,
                Event::Command(command) => on_command(live, command),
                Event::Handled((id, outcome)) => on_handled(live, &id, outcome),
                Event::Released => {
                    live.machine.dropped_refs().into_iter().for_each(|text| live.wire.push(text))
                }
                Event::Closing => return self.leave(live).await,
            }
        }
    }

    fn on_text(&self, live: &mut Live, text: &str) {
        match live.machine.on_text(text) {
            Some(Effect::Send(text)) => live.wire.push(text),
            Some(Effect::Answered { waiter, outcome }) => waiter.settle(outcome),
            Some(Effect::Print(run)) => self.print(live, run),
            Some(Effect::Cancel(id)) => {
                if let Some(abort) = live.aborts.remove(&id) {
                    abort.abort();
                }
            }
            Some(Effect::Called) | None => {}
        }
    }

    /// Runs a handler beside the others.
    fn start(&self, live: &mut Live, run: Run) {
        if let Some((id, running)) = self.handle(run) {
            spawn(live, id, running);
        }
    }

    /// Prints a console line here and now, so that lines keep their order.
    fn print(&self, live: &mut Live, run: Run) {
        if let Some((id, mut running)) = self.handle(run) {
            match (&mut running).now_or_never() {
                Some(outcome) => on_handled(live, &id, outcome),
                None => spawn(live, id, running),
            }
        }
    }

    fn handle(&self, Run { id, handler, payload }: Run) -> Option<(Id, BoxFuture<'static, Outcome>)> {
        // Without a client left the connection is about to close, and nobody wants the call to run.
        let context = CallContext { client: Client(self.client.upgrade()?) };
        Some((id, handler::run(handler, payload, context).boxed()))
    }

    /// Ends the session, unless it is to be kept or the server has none, and says goodbye.
    async fn leave(&self, live: &mut Live) -> Ended {
        let goodbye = Ended::ByUs { code: close_code::NORMAL, reason: "" };
        let has_sessions = {
            let connected = self.connected_tx.borrow();
            connected.bindings.iter().any(|binding| binding["name"] == SESSION_CLOSE)
        };
        if !has_sessions || self.keeps_session.load(Ordering::Relaxed) {
            return goodbye;
        }
        let target = Target::Binding(SESSION_CLOSE.to_owned());
        let params = InvokeParams { target, payload: Payload::Input(json!({})) };
        let Ok((_, text)) = live.machine.invoke(&params, Waiter::nobody()) else { return goodbye };
        live.wire.push(text);
        // The server closes the connection after its answer; what else comes is for nobody.
        let closed = timeout(SESSION_END_WAIT_MAX, async {
            loop {
                if let Err(ended) = live.wire.next().await {
                    return ended;
                }
            }
        });
        closed.await.unwrap_or(goodbye)
    }

    fn comes_back(&self, ended: &Ended) -> bool {
        let on_purpose = matches!(ended, Ended::ByUs { .. }) || self.closing.is_cancelled();
        !on_purpose
            && self.settings.reconnect.is_some()
            && self.settings.dial.is_some()
            && is_unexpected(ended.code())
    }

    /// Dials until it works, the attempts are used up, or the client is closed.
    async fn reconnect(&self, number: u64) -> Option<(Live, Resumed)> {
        let (policy, dial) = (self.settings.reconnect?, self.settings.dial.as_ref()?);
        let resume = self.connected_tx.borrow().session.resume();
        for attempt in 0..policy.attempts {
            let opening = async {
                tokio::time::sleep(policy.wait(attempt)).await;
                open(&self.settings, dial().await?, resume.as_ref(), true, number).await
            };
            let opened = tokio::select! {
                opened = opening => opened,
                () = self.closing.cancelled() => return None,
            };
            match opened {
                Ok((live, connected)) => {
                    let resumed = Resumed { resumed: connected.session.resumed };
                    self.connected_tx.send_replace(Arc::new(connected));
                    if let Some(hook) = &self.settings.on_reconnect {
                        hook(resumed);
                    }
                    return Some((live, resumed));
                }
                Err(error) => debug!(%error, attempt, "not connected again"),
            }
        }
        None
    }

    /// Keyed evals run once, so they may be sent again; but only to the session that knows their keys.
    fn send_again(&self, live: &mut Live, kept: Vec<Waiter>, Resumed { resumed }: Resumed) {
        for mut waiter in kept {
            match waiter.keyed.take() {
                Some(params) if resumed => request(live, Call::Eval(params), waiter),
                Some(_) | None => waiter.settle(Err(ClientError::SessionLost)),
            }
        }
    }

    /// Tells everybody that it is over, those included whose commands were not looked at.
    fn finish(mut self, kept: Vec<Waiter>, ended: &Ended) {
        let closed = (ended.code(), ended.reason().to_owned());
        self.closed_tx.send_replace(Some(closed));
        for waiter in kept {
            waiter.settle(Err(closed_error(ended)));
        }
        self.commands_rx.close();
        while let Ok(command) = self.commands_rx.try_recv() {
            match command {
                Command::Request { waiter, .. } => waiter.settle(Err(closed_error(ended))),
                Command::Export { value_tx, .. } => drop(value_tx),
            }
        }
    }
}

fn spawn(live: &mut Live, id: Id, running: BoxFuture<'static, Outcome>) {
    let of = id.clone();
    let abort = live.running.spawn(async move { (of, running.await) });
    live.aborts.insert(id, abort);
}

fn on_handled(live: &mut Live, id: &Id, outcome: Outcome) {
    live.aborts.remove(id);
    if let Some(answer) = live.machine.on_handled(id, outcome) {
        live.wire.push(answer);
    }
}

fn on_command(live: &mut Live, command: Command) {
    match command {
        Command::Request { call, waiter } => request(live, call, waiter),
        Command::Export { name, handler, value_tx } => {
            let value = match live.machine.export(handler) {
                Some(id) => Ok(json!({"$fn": id, "name": name})),
                None => Err(ErrorObject::new(Kind::TooManyRefs, "too many functions are exported").into()),
            };
            // Whoever asked may have stopped waiting.
            let _ = value_tx.send(value);
        }
    }
}

fn request(live: &mut Live, call: Call, mut waiter: Waiter) {
    let id_tx = waiter.id_tx.clone();
    let opened = match call {
        Call::Invoke { connection: Some(number), .. } if number != live.number => {
            let reason = "the reference ended with its connection".to_owned();
            return waiter.settle(Err(ClientError::Closed { code: close_code::ABNORMAL, reason }));
        }
        Call::Invoke { params, .. } => live.machine.invoke(&params, waiter),
        Call::Eval(params) => {
            waiter.keyed = params.key.is_some().then(|| params.clone());
            live.machine.request(EVAL, &params, waiter)
        }
    };
    match opened {
        Ok((OurId(id), text)) => {
            live.wire.push(text);
            if let Some(id_tx) = id_tx {
                id_tx.send_replace(id);
            }
        }
        Err((error, waiter)) => waiter.settle(Err(error)),
    }
}

/// Fails the waiters of a connection that ended; returns those whose evals may be sent again, in their order.
fn fail_or_keep(waiters: Vec<Waiter>, ended: &Ended, comes_back: bool) -> Vec<Waiter> {
    let (mut kept, lost): (Vec<_>, Vec<_>) =
        waiters.into_iter().partition(|waiter| comes_back && waiter.keyed.is_some());
    for waiter in lost {
        waiter.settle(Err(closed_error(ended)));
    }
    kept.sort_by_key(Waiter::id);
    kept
}

fn closed_error(ended: &Ended) -> ClientError {
    ClientError::Closed { code: ended.code(), reason: ended.reason().to_owned() }
}
