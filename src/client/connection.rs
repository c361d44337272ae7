//! A connection of the client after its handshake: the [`Conversation`] between the driver and the pure [`Machine`],
//! with the handlers that run for the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::command::{Call, Command, Waiter};
use super::handler::{self, CallContext, Outcome};
use super::machine::{Effect, Machine, Run};
use super::{Client, ClientError, Inner};
use crate::protocol::methods::{EVAL, EvalParams, InvokeParams, Payload, Target};
use crate::rpc::{ErrorObject, Id, Kind, OurId};
use crate::transport::{Conversation, Outbox, close_code};

/// How long the server may take to end the session. Long enough for a slow network; the client closes afterwards.
const SESSION_END_WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) const SESSION_CLOSE: &str = "session.close";

/// The requests of one connection, in both directions.
pub(super) struct Requests {
    pub(super) machine: Machine<Waiter>,
    running: JoinSet<(Id, Outcome)>,
    aborts: HashMap<Id, AbortHandle>,
    /// The number of the connection.
    pub(super) number: u64,
}

impl Requests {
    pub(super) fn new(machine: Machine<Waiter>, number: u64) -> Self {
        Self { machine, running: JoinSet::new(), aborts: HashMap::new(), number }
    }

    fn on_command(&mut self, command: Command, out: &mut Outbox) {
        match command {
            Command::Request { call, waiter } => self.request(call, waiter, out),
            Command::Export { name, handler, value_tx } => {
                let value = match self.machine.export(handler) {
                    Some(id) => Ok(json!({"$fn": id, "name": name})),
                    None => {
                        Err(ErrorObject::new(Kind::TooManyRefs, "too many functions are exported").into())
                    }
                };
                // The caller may have stopped waiting.
                let _ = value_tx.send(value);
            }
        }
    }

    fn request(&mut self, call: Call, mut waiter: Waiter, out: &mut Outbox) {
        let id_tx = waiter.id_tx.clone();
        let opened = match call {
            Call::Invoke { connection: Some(number), .. } if number != self.number => {
                let reason = "the reference ended with its connection".to_owned();
                return waiter.settle(Err(ClientError::Closed { code: close_code::ABNORMAL, reason }));
            }
            Call::Invoke { params, .. } => self.machine.invoke(&params, waiter),
            Call::Eval(params) => {
                waiter.keyed = params.key.is_some().then(|| params.clone());
                self.machine.request(EVAL, &params, waiter)
            }
        };
        match opened {
            Ok((OurId(id), text)) => {
                out.send(text);
                if let Some(id_tx) = id_tx {
                    id_tx.send_replace(id);
                }
            }
            Err((error, waiter)) => waiter.settle(Err(error)),
        }
    }

    fn spawn(&mut self, id: Id, running: BoxFuture<'static, Outcome>) {
        let request = id.clone();
        let abort = self.running.spawn(async move { (request, running.await) });
        self.aborts.insert(id, abort);
    }

    fn on_handled(&mut self, id: &Id, outcome: Outcome, out: &mut Outbox) {
        self.aborts.remove(id);
        if let Some(answer) = self.machine.on_handled(id, outcome) {
            out.send(answer);
        }
    }
}

/// What reaches a connection from inside the process.
pub(super) enum Input {
    Command(Command),
    Handled(Id, Outcome),
    /// The last handle of a function was dropped.
    RefsDropped,
}

/// See the module.
pub(super) struct Connection<'a> {
    requests: &'a mut Requests,
    commands_rx: &'a mut mpsc::Receiver<Command>,
    client: std::sync::Weak<Inner>,
    /// Keyed evals of the connection before, which are sent first.
    resend: Vec<(EvalParams, Waiter)>,
    refs_dropped: BoxFuture<'static, ()>,
    /// Whether closing the client ends the session.
    ends_session: Box<dyn Fn() -> bool + Send + 'a>,
    /// Until when the server may end the session; there while the client closes.
    closing_until: Option<Instant>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        requests: &'a mut Requests,
        commands_rx: &'a mut mpsc::Receiver<Command>,
        client: std::sync::Weak<Inner>,
        resend: Vec<(EvalParams, Waiter)>,
        ends_session: impl Fn() -> bool + Send + 'a,
    ) -> Self {
        let refs_dropped = refs_dropped(&requests.machine);
        let ends_session = Box::new(ends_session);
        Self { requests, commands_rx, client, resend, refs_dropped, ends_session, closing_until: None }
    }

    /// Starts the handlers that have a place.
    fn start_handlers(&mut self) {
        while let Some(run) = self.requests.machine.next_run() {
            if let Some((id, running)) = self.handle(run) {
                self.requests.spawn(id, running);
            }
        }
    }

    /// Prints a console line here and now, so that lines keep their order.
    fn print(&mut self, run: Run, out: &mut Outbox) {
        if let Some((id, mut running)) = self.handle(run) {
            match (&mut running).now_or_never() {
                Some(outcome) => self.requests.on_handled(&id, outcome, out),
                None => self.requests.spawn(id, running),
            }
        }
    }

    fn handle(&self, Run { id, handler, payload }: Run) -> Option<(Id, BoxFuture<'static, Outcome>)> {
        // Without a handle left the connection is about to close, and the call need not run.
        let context = CallContext { client: Client(self.client.upgrade()?) };
        Some((id, handler::run(handler, payload, context).boxed()))
    }
}

fn refs_dropped(machine: &Machine<Waiter>) -> BoxFuture<'static, ()> {
    let imports = Arc::clone(machine.imports());
    async move { imports.released().await }.boxed()
}

impl Conversation for Connection<'_> {
    type Command = Input;

    fn on_open(&mut self, _: Instant, out: &mut Outbox) {
        for (params, waiter) in std::mem::take(&mut self.resend) {
            self.requests.request(Call::Eval(params), waiter, out);
        }
    }

    fn on_text(&mut self, text: &str, _: Instant, out: &mut Outbox) {
        if self.closing_until.is_some() {
            return;
        }
        match self.requests.machine.on_text(text) {
            Some(Effect::Send(text)) => out.send(text),
            Some(Effect::Answered { waiter, outcome }) => waiter.settle(outcome),
            Some(Effect::Print(run)) => self.print(run, out),
            Some(Effect::Cancel(id)) => {
                if let Some(abort) = self.requests.aborts.remove(&id) {
                    abort.abort();
                }
            }
            Some(Effect::Called) | None => {}
        }
        self.start_handlers();
    }

    fn on_command(&mut self, input: Input, _: Instant, out: &mut Outbox) {
        match input {
            Input::Command(command) => self.requests.on_command(command, out),
            Input::Handled(id, outcome) => self.requests.on_handled(&id, outcome, out),
            Input::RefsDropped => {
                self.refs_dropped = refs_dropped(&self.requests.machine);
                self.requests.machine.dropped_refs().into_iter().for_each(|text| out.send(text));
            }
        }
        self.start_handlers();
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        if self.closing_until.is_some() {
            return Poll::Pending;
        }
        // First, so that a release goes out before a request that was made after it.
        if self.refs_dropped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Input::RefsDropped);
        }
        // A handler that was aborted has no outcome.
        while let Poll::Ready(Some(joined)) = self.requests.running.poll_join_next(cx) {
            if let Ok((id, outcome)) = joined {
                return Poll::Ready(Input::Handled(id, outcome));
            }
        }
        match self.commands_rx.poll_recv(cx) {
            Poll::Ready(Some(command)) => Poll::Ready(Input::Command(command)),
            // Without handles the stop token is cancelled.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// The client closes: it ends the session, which makes the server close the connection, unless the session is to be
    /// kept or the server has none.
    fn on_stop(&mut self, now: Instant, out: &mut Outbox) {
        let target = Target::Binding(SESSION_CLOSE.to_owned());
        let params = InvokeParams { target, payload: Payload::Input(json!({})) };
        let is_requested = (self.ends_session)()
            && match self.requests.machine.invoke(&params, Waiter::detached()) {
                Ok((_, text)) => {
                    out.send(text);
                    true
                }
                Err(_) => false,
            };
        match is_requested {
            true => self.closing_until = Some(now + SESSION_END_WAIT_MAX),
            false => out.close(close_code::NORMAL, ""),
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.closing_until
    }

    fn on_wake(&mut self, _: Instant, out: &mut Outbox) {
        out.close(close_code::NORMAL, "");
    }

    fn on_end(&mut self, _: Instant) {}
}
