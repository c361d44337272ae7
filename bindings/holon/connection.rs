//! A holon-web connection: the machine, the tasks that handle the peer's requests, and the callers
//! that wait for responses.
//!
//! Accepted and dialed connections are served alike, because a peer that we dialed may send
//! requests too.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::machine::{ConnectionConfig, Effect, Machine};
use super::router::RequestRouter;
use super::wire::{self, Status};
use crate::binding::BindingError;
use crate::observe;
use crate::peering::{Conversation, Outbox};
use crate::protocol::plain::{from_plain, to_plain};
use crate::rpc::Kind;

/// Where the outcome of a request is sent.
pub(super) type OutcomeSender = oneshot::Sender<Result<Value, Status>>;

#[derive(Debug)]
pub(super) enum Command {
    SendRequest { method: String, payload: Value, timeout: Duration, outcome_tx: OutcomeSender },
    SendResponse { id: String, outcome: Result<Value, Status> },
}

pub(super) struct HolonConnection {
    machine: Machine<OutcomeSender>,
    commands_tx: mpsc::Sender<Command>,
    /// One task for each request of the peer. They are aborted when the connection ends.
    handlers: JoinSet<()>,
    router: RequestRouter,
}

impl HolonConnection {
    pub(super) fn new(
        config: ConnectionConfig,
        commands_tx: mpsc::Sender<Command>,
        router: RequestRouter,
    ) -> Self {
        Self { machine: Machine::new(config), commands_tx, handlers: JoinSet::new(), router }
    }

    fn perform(&mut self, effects: impl IntoIterator<Item = Effect<OutcomeSender>>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                Effect::Send(text) => out.send(text),
                Effect::Close(code, reason) => out.close(code, reason),
                Effect::HandleRequest { id, method, payload } => self.spawn_handler(id, method, payload),
                Effect::Complete(outcome_tx, outcome) => {
                    // Fails if the caller has stopped waiting.
                    let _ = outcome_tx.send(outcome);
                }
                Effect::Warn(warning) => {
                    observe::record_peer_warning(warning.name());
                    tracing::warn!(
                        peer = self.router.peer_name(),
                        warning = warning.name(),
                        "protocol violation by a holon peer"
                    );
                }
            }
        }
    }

    fn spawn_handler(&mut self, id: String, method: String, payload: Value) {
        while self.handlers.try_join_next().is_some() {}
        let (router, commands_tx) = (self.router.clone(), self.commands_tx.clone());
        self.handlers.spawn(async move {
            let outcome = router.handle(&method, payload, &commands_tx).await;
            // Fails if the connection has ended.
            let _ = commands_tx.send(Command::SendResponse { id, outcome }).await;
        });
    }
}

impl Conversation for HolonConnection {
    type Command = Command;

    fn on_open(&mut self, now: Instant, _: &mut Outbox) {
        self.machine.on_open(now);
    }

    fn on_text(&mut self, text: &str, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_text(text, now);
        self.perform(effects, out);
    }

    fn on_command(&mut self, command: Command, now: Instant, out: &mut Outbox) {
        let effect = match command {
            Command::SendRequest { method, payload, timeout, outcome_tx } => {
                Some(self.machine.send_request(&method, &payload, timeout, outcome_tx, now))
            }
            Command::SendResponse { id, outcome } => self.machine.send_response(&id, &outcome),
        };
        self.perform(effect, out);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.machine.wake_at()
    }

    fn on_wake(&mut self, now: Instant, out: &mut Outbox) {
        let effects = self.machine.on_wake(now);
        self.perform(effects, out);
    }

    fn on_end(&mut self, _: Instant) {
        self.handlers.abort_all();
        let effects = self.machine.on_end();
        self.perform(effects, &mut Outbox::default());
    }
}

/// Sends a request to the peer and waits for the response. `send` delivers the command to the
/// connection.
pub(super) async fn call_method<F, E>(
    method: String,
    payload: Value,
    timeout: Duration,
    send: impl FnOnce(Command) -> F,
) -> Result<Value, BindingError>
where
    F: Future<Output = Result<(), E>>,
    E: ToString,
{
    let unavailable = |message: String| BindingError::with_code(wire::UNAVAILABLE, message);
    let payload =
        to_plain(payload).map_err(|error| BindingError::of_kind(Kind::InvalidInput, error.to_string()))?;
    let (outcome_tx, outcome_rx) = oneshot::channel();
    send(Command::SendRequest { method, payload, timeout, outcome_tx })
        .await
        .map_err(|error| unavailable(error.to_string()))?;
    match outcome_rx.await {
        Ok(Ok(result)) => Ok(from_plain(result)),
        Ok(Err(Status { code, message })) => Err(BindingError::with_code(code, message)),
        Err(_) => Err(unavailable("connection closed".to_owned())),
    }
}
