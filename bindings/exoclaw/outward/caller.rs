//! The client's side of a connection, between the drivers and the machine.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::machine::{Answer, Effect, Machine, Unsent};
use crate::observe;
use crate::peering::{Conversation, Outbox};
use crate::transport::close_code;

/// How long a gateway may take for its hello. One that asks for a token says nothing until it has it.
pub(super) const HELLO_WAIT_MAX: Duration = Duration::from_secs(10);

const NO_HELLO: &str = "the gateway sends no hello: does it ask for a token?";

/// Requests that wait for the hello; as many as may be under way afterwards.
const REQUESTS_HELD_MAX: usize = super::machine::REQUESTS_WAITING_MAX;

/// A request, and where its answer goes. Whoever drops the other end does not want it any more.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) method: &'static str,
    pub(super) params: Option<Value>,
    pub(super) answers_tx: mpsc::Sender<Answer>,
}

pub(super) struct Caller {
    gateway: String,
    machine: Machine<mpsc::Sender<Answer>>,
    /// Until the hello comes.
    held: Vec<Command>,
    hello_until: Option<Instant>,
}

impl Caller {
    pub(super) fn new(gateway: &str, token: Option<String>) -> Self {
        let machine = Machine::new(token);
        Self { gateway: gateway.to_owned(), machine, held: Vec::new(), hello_until: None }
    }

    fn request(&mut self, command: Command, out: &mut Outbox) {
        let Command { method, params, answers_tx } = command;
        match self.machine.request(method, params.as_ref(), answers_tx) {
            Ok(frame) => out.send(frame),
            Err(Unsent::NotReady(answers_tx)) if self.held.len() < REQUESTS_HELD_MAX => {
                self.held.push(Command { method, params, answers_tx });
            }
            Err(Unsent::NotReady(answers_tx) | Unsent::Full(answers_tx)) => {
                let busy = Answer::Outcome(Err("too many requests are waiting".to_owned()));
                // Whoever left meanwhile does not need to know.
                let _ = answers_tx.try_send(busy);
            }
        }
    }

    fn apply(&mut self, effect: Effect<mpsc::Sender<Answer>>, out: &mut Outbox) {
        match effect {
            Effect::Send(frame) => out.send(frame),
            Effect::Ready => {
                self.hello_until = None;
                for command in std::mem::take(&mut self.held) {
                    self.request(command, out);
                }
            }
            Effect::AuthFailed => {
                out.give_up(
                    "the gateway refused the token (auth_failed): check `token` in the configuration",
                );
            }
            Effect::Deliver(answers_tx, answer) => {
                if let Err(TrySendError::Full(_)) = answers_tx.try_send(answer) {
                    out.close(close_code::NORMAL, "events are not taken in time");
                }
            }
            Effect::Odd(what) => {
                observe::peer_warned("exoclaw.unexpected_frame");
                tracing::warn!(gateway = self.gateway, what, "a gateway erred");
            }
        }
    }
}

impl Conversation for Caller {
    type Command = Command;

    fn on_open(&mut self, now: Instant, out: &mut Outbox) {
        self.hello_until = Some(now + HELLO_WAIT_MAX);
        for effect in self.machine.on_open() {
            self.apply(effect, out);
        }
    }

    fn on_text(&mut self, text: &str, _now: Instant, out: &mut Outbox) {
        let effect = self.machine.on_text(text);
        self.apply(effect, out);
    }

    fn on_command(&mut self, command: Command, _now: Instant, out: &mut Outbox) {
        self.request(command, out);
    }

    fn is_ready(&self) -> bool {
        self.hello_until.is_none()
    }

    fn wake_at(&self) -> Option<Instant> {
        self.hello_until
    }

    fn on_wake(&mut self, _now: Instant, out: &mut Outbox) {
        for command in self.held.drain(..) {
            // By the time it looks, the link may be dialling again; so it is told here why.
            let _ = command.answers_tx.try_send(Answer::Lost(NO_HELLO.to_owned()));
        }
        out.close(close_code::NORMAL, NO_HELLO);
    }

    fn on_end(&mut self, _now: Instant) {
        self.hello_until = None;
        self.held.clear();
        // Whoever waits learns it as the other end is dropped.
        self.machine.on_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::exoclaw::wire;
    use crate::peering::Disconnect;
    use serde_json::json;

    fn ping() -> (Command, mpsc::Receiver<Answer>) {
        let (answers_tx, answers_rx) = mpsc::channel(1);
        (Command { method: "ping", params: None, answers_tx }, answers_rx)
    }

    #[test]
    fn requests_wait_for_the_hello() {
        let (mut caller, mut out, now) = (Caller::new("g", None), Outbox::default(), Instant::now());
        let (command, mut answers_rx) = ping();
        caller.on_open(now, &mut out);
        caller.on_command(command, now, &mut out);
        assert_eq!(out.take_texts(), Vec::<String>::new());
        assert!(!caller.is_ready());
        caller.on_text(&wire::hello(), now, &mut out);
        assert!(caller.is_ready());
        assert_eq!(out.take_texts(), [r#"{"id":"1","method":"ping"}"#]);
        caller.on_text(r#"{"id":"1","result":"pong"}"#, now, &mut out);
        assert_eq!(answers_rx.try_recv(), Ok(Answer::Outcome(Ok(json!("pong")))));
        assert_eq!(caller.wake_at(), None);
    }

    #[test]
    fn so_many_may_wait_for_it_and_one_more_is_refused() {
        let (mut caller, mut out, now) = (Caller::new("g", None), Outbox::default(), Instant::now());
        caller.on_open(now, &mut out);
        let mut waiting = Vec::new();
        for _ in 0..REQUESTS_HELD_MAX {
            let (command, answers_rx) = ping();
            caller.on_command(command, now, &mut out);
            waiting.push(answers_rx);
        }
        assert!(waiting.iter_mut().all(|answers_rx| answers_rx.try_recv().is_err()));
        let (command, mut answers_rx) = ping();
        caller.on_command(command, now, &mut out);
        let refused = Answer::Outcome(Err("too many requests are waiting".to_owned()));
        assert_eq!(answers_rx.try_recv(), Ok(refused));
    }

    #[test]
    fn a_refused_token_ends_the_link_for_good() {
        let (mut caller, mut out, now) =
            (Caller::new("g", Some("s".to_owned())), Outbox::default(), Instant::now());
        caller.on_open(now, &mut out);
        caller.on_text(&wire::auth_failed(), now, &mut out);
        assert!(
            matches!(out.parting(), Some(Disconnect::GiveUp { reason }) if reason.contains("auth_failed"))
        );
    }

    #[test]
    fn without_a_hello_the_connection_is_closed_and_who_waits_learns_it() {
        let (mut caller, mut out, now) = (Caller::new("g", None), Outbox::default(), Instant::now());
        let (command, mut answers_rx) = ping();
        caller.on_open(now, &mut out);
        caller.on_command(command, now, &mut out);
        assert_eq!(caller.wake_at(), Some(now + HELLO_WAIT_MAX));
        caller.on_wake(now + HELLO_WAIT_MAX, &mut out);
        assert!(matches!(out.parting(), Some(Disconnect::Close { reason, .. }) if reason.contains("token")));
        assert_eq!(answers_rx.try_recv(), Ok(Answer::Lost(NO_HELLO.to_owned())));
    }

    #[test]
    fn who_waits_learns_that_the_connection_is_gone() {
        let (mut caller, mut out, now) = (Caller::new("g", None), Outbox::default(), Instant::now());
        let ((held, mut held_rx), (sent, mut sent_rx)) = (ping(), ping());
        caller.on_open(now, &mut out);
        caller.on_text(&wire::hello(), now, &mut out);
        caller.on_command(sent, now, &mut out);
        caller.on_end(now);
        caller.on_open(now, &mut out);
        caller.on_command(held, now, &mut out);
        caller.on_end(now);
        for answers_rx in [&mut held_rx, &mut sent_rx] {
            assert_eq!(answers_rx.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        }
    }

    #[test]
    fn events_that_nobody_takes_close_the_connection() {
        let (mut caller, mut out, now) = (Caller::new("g", None), Outbox::default(), Instant::now());
        let (command, answers_rx) = ping();
        caller.on_open(now, &mut out);
        caller.on_text(&wire::hello(), now, &mut out);
        caller.on_command(command, now, &mut out);
        caller.on_text(r#"{"id":"1","event":"text","data":"a"}"#, now, &mut out);
        assert_eq!(out.parting(), None);
        caller.on_text(r#"{"id":"1","event":"text","data":"b"}"#, now, &mut out);
        assert!(matches!(out.parting(), Some(Disconnect::Close { .. })));
        drop(answers_rx);
    }
}
